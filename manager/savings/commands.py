"""The commands that show what was saved and what it costs: `braid savings`, `braid bill`."""

import re
from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import typer
from rich.console import RenderableType

from braid_client.answers.savings import (
    BillAnswer,
    BillLine,
    CpuAnswer,
    EstimateAnswer,
    SavedAnswer,
    SavingsAnswer,
    ShareAnswer,
    as_csv,
)
from braid_client.client import Client
from manager.cli import Shown, ShownLine, WrongUsage, client_command, lines, moment, number, table

_BOUNDS = ("low", "high")
"""The columns of estimates that are there only with --wide."""
TIME_FORMAT = "such as 2026-03-01T12:00, by default in this machine's time zone."


@client_command
def savings(
    client: Client,
    *,
    since: Annotated[str | None, typer.Option("--from", help=f"The start of the interval, {TIME_FORMAT}")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Its end. Default: now.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, with its dataflows.")] = None,
    dataflow: Annotated[str | None, typer.Option(help="Only this dataflow, even a removed one.")] = None,
) -> Shown:
    """Show what sharing and packing saved, and the share of each tenant, in the last hour or an interval."""
    answer = client.savings(
        since=time_in("--from", since), until=time_in("--to", until), tenant=tenant, dataflow=dataflow
    )
    return Shown(data=answer, text=lines(_savings_heading(answer), _whole(answer), *_shares(answer)))


def time_in(option: str, text: str | None) -> datetime | None:
    """The time that an option gives."""
    if text is None:
        return None
    try:
        # A time without a zone is a local one.
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongUsage(f"{option}: {text!r} is not a time; write one {TIME_FORMAT}") from None


def _savings_heading(answer: SavingsAnswer) -> str:
    """The interval, and how much of it was metered."""
    minutes = answer.metered_seconds / 60
    return f"{moment(answer.since)} to {moment(answer.until)}, {minutes:.1f} minutes metered, tenants: {answer.tenants}"


def _whole(answer: SavingsAnswer) -> RenderableType | None:
    whole = answer.whole
    if whole is None:
        return None
    rows = [
        ("measured", *_taken(whole.measured)),
        *((f"  {part}", *_taken(taken)) for part, taken in whole.parts.items()),
        ("  overhead in it", *_taken(whole.overhead)),
        ("a job for each dataflow", *_estimated(whole.alone_launched)),
        ("packed without sharing", *_estimated(whole.alone_packed)),
        *_shared(whole.saved),
        ("cores saved by packing", *_estimated(whole.saved.cores_by_packing)),
    ]
    return _priced(answer, "cores", "likely", "low", "high", "price", rows=rows, empty="")


def _shared(saved: SavedAnswer) -> Iterator[tuple[object, ...]]:
    """The rows of what sharing saved; none if nothing was shared."""
    if saved.work_by_sharing is not None:
        yield ("work saved by sharing", _percent(saved.work_by_sharing), None, None, None)
        yield ("cores saved by sharing", *_taken(saved.cores_by_sharing))


def _shares(answer: SavingsAnswer) -> Iterator[RenderableType]:
    saved = ("work saved by sharing", "cores saved by sharing", "cores saved by packing")
    columns = ("share", "alone", "low", "high", *saved, "price")
    tenants = [(share.tenant, *_share(share)) for share in answer.shares]
    yield _priced(answer, "tenant", *columns, rows=tenants, empty="no shares")
    if answer.dataflows:
        dataflows = [(share.dataflow, *_share(share)) for share in answer.dataflows]
        yield _priced(answer, "dataflow", *columns, rows=dataflows, empty="")


def _percent(part: float) -> str:
    return f"{number(round(100 * part, 1))} %"


def _priced(
    answer: SavingsAnswer | BillAnswer, *columns: str, rows: Iterable[tuple[object, ...]], empty: str
) -> RenderableType:
    """A table whose last column is money, which is left out where cores have no price."""
    if answer.price_per_core_hour is None:
        return table(*columns[:-1], rows=[row[:-1] for row in rows], empty=empty, wide=_BOUNDS)
    money = f"{columns[-1]} {answer.currency}".strip()
    return table(*columns[:-1], money, rows=rows, empty=empty, wide=_BOUNDS)


def _taken(taken: CpuAnswer | None) -> tuple[object, ...]:
    return ("not measured", None, None, None) if taken is None else (taken.cores, None, None, taken.price)


def _estimated(estimate: EstimateAnswer) -> tuple[object, ...]:
    return (estimate.likely, estimate.low, estimate.high, estimate.price)


def _share(share: ShareAnswer) -> tuple[object, ...]:
    alone, saved = share.alone, share.saved
    return (
        share.share.cores,
        alone.likely,
        alone.low,
        alone.high,
        None if saved.work_by_sharing is None else _percent(saved.work_by_sharing),
        saved.cores_by_sharing and saved.cores_by_sharing.cores,
        saved.cores_by_packing.likely,
        share.share.price,
    )


_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


@client_command
def bill(  # noqa: PLR0913 - each is an option, which callers name
    client: Client,
    *,
    since: Annotated[
        str | None, typer.Option("--from", help=f"The start of the bill, {TIME_FORMAT} Rounded down to a whole hour.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Its end. Default: now.")] = None,
    month: Annotated[str | None, typer.Option(help="A month instead, such as 2026-10, in UTC.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
) -> Shown:
    """Show the costs of each tenant and dataflow, this month so far or in an interval."""
    if month is not None and (since is not None or until is not None):
        raise WrongUsage("--month: it cannot be combined with --from and --to; leave them out")
    begin, end = (time_in("--from", since), time_in("--to", until)) if month is None else _bounds(month)
    answer = client.bill(since=begin, until=end, tenant=tenant)
    if csv:
        return ShownLine(data=answer, text=as_csv(answer).removesuffix("\n"))
    return Shown(data=answer, text=lines(_bill_heading(answer), *_tables(answer)))


def _bounds(month: str) -> tuple[datetime, datetime]:
    """The start and the end of a month."""
    parts = _MONTH.fullmatch(month)
    # `datetime` has no year 0, and nothing after its last year.
    if parts is None or not MINYEAR <= int(parts[1]) < MAXYEAR:
        raise WrongUsage(f"--month: {month!r} is not a month; write one such as 2026-10")
    begin = datetime(int(parts[1]), int(parts[2]), 1, tzinfo=UTC)
    return begin, (begin + timedelta(days=31)).replace(day=1)


def _bill_heading(answer: BillAnswer) -> str:
    """The interval, and whether the bill is final."""
    hours = answer.metered_seconds / 3_600
    more = "" if answer.complete else "; not final"
    return f"{moment(answer.since)} to {moment(answer.until)}, {hours:.1f} hours metered{more}"


def _tables(answer: BillAnswer) -> Iterator[RenderableType]:
    rents = any(line.rented for line in answer.tenants) or bool(answer.whole and answer.whole.rented)
    columns = ("core hours", "at most", *(["rented machines"] if rents else []), "amount")
    rows: list[tuple[object, ...]] = [(line.tenant, *_line(line, rents=rents)) for line in answer.tenants]
    if (whole := answer.whole) is not None:
        # The sum includes tenants that are not shown.
        others = [("(others)", whole.others, whole.rented_others)] if whole.others.cpu_ns else []
        rented = sum((kind.amount for kind in whole.rented), Decimal())
        for name, amount, rent in (
            *others,
            ("(overhead)", whole.overhead, whole.rented_overhead),
            ("(measured)", whole.measured, rented),
        ):
            rows.append((name, f"{amount.core_hours:f}", None, *([f"{rent:f}"] if rents else []), amount.money))
    yield _priced(answer, "tenant", *columns, rows=rows, empty="nothing metered")
    if whole is not None and whole.rented:
        kinds = [(kind.machine_class, kind.machines, kind.hours, f"{kind.amount:f}") for kind in whole.rented]
        yield table("class", "machines", "hours", "amount", rows=kinds, empty="")
    if answer.dataflows:
        own = [(line.tenant, line.dataflow, line.name, *_line(line, rents=rents)) for line in answer.dataflows]
        yield _priced(answer, "tenant", "dataflow", "name", *columns, rows=own, empty="")


def _line(line: BillLine, *, rents: bool) -> tuple[object, ...]:
    """The figures of a line, with its part of rented machines where some were rented."""
    rented = [f"{line.rented:f}"] if rents else []
    return (f"{line.pays.core_hours:f}", f"{line.most.core_hours:f}", *rented, line.pays.money)
