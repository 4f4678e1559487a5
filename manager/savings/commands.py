"""The commands that show what was saved and what it costs: `braid savings`, `braid bill`."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Annotated

import typer
from rich.console import RenderableType

from manager.answers.savings import (
    BillAmount,
    BillAnswer,
    BillLine,
    CpuAnswer,
    EstimateAnswer,
    SavedAnswer,
    SavingsAnswer,
    ShareAnswer,
    as_csv,
)
from manager.cli import Shown, WrongUsage, client_command, lines, moment, number, table
from manager.client.client import Client

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
    found = client.savings(
        since=time_in("--from", since), until=time_in("--to", until), tenant=tenant, dataflow=dataflow
    )
    return Shown(data=found, text=lines(_savings_heading(found), _whole(found), *_shares(found)))


def time_in(option: str, text: str | None) -> datetime | None:
    """The time that an option gives."""
    if text is None:
        return None
    try:
        # A time without a zone is a local one.
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongUsage(f"{option}: {text!r} is not a time; write one {TIME_FORMAT}") from None


def _savings_heading(found: SavingsAnswer) -> str:
    """The interval, and how much of it was metered."""
    minutes = found.metered_seconds / 60
    return f"{moment(found.since)} to {moment(found.until)}, {minutes:.1f} minutes metered, tenants: {found.tenants}"


def _whole(found: SavingsAnswer) -> RenderableType | None:
    whole = found.whole
    if whole is None:
        return None
    parts = [(f"  {part}", *_taken(taken, found)) for part, taken in whole.parts.items()]
    rows = [
        ("measured", *_taken(whole.measured, found)),
        *parts,
        ("  overhead in it", *_taken(whole.overhead, found)),
        ("a job for each dataflow", *_estimated(whole.alone_launched, found)),
        ("packed without sharing", *_estimated(whole.alone_packed, found)),
        *_shared(whole.saved, found),
        ("cores saved by packing", *_estimated(whole.saved.cores_by_packing, found)),
    ]
    return table("cores", "likely", "low", "high", *_savings_price_column(found), rows=rows, empty="")


def _shared(saved: SavedAnswer, found: SavingsAnswer) -> Iterator[tuple[object, ...]]:
    """The rows of what sharing saved; none if nothing was shared."""
    if saved.work_by_sharing is not None:
        prices = (None for _ in _savings_price_column(found))
        yield ("work saved by sharing", _percent(saved.work_by_sharing), None, None, *prices)
        yield ("cores saved by sharing", *_taken(saved.cores_by_sharing, found))


def _shares(found: SavingsAnswer) -> Iterator[RenderableType]:
    columns = ("share", "alone", "low", "high", *_SAVED, *_savings_price_column(found))
    yield table(
        "tenant", *columns, rows=[(each.tenant, *_share(each, found)) for each in found.shares], empty="no shares"
    )
    if found.dataflows:
        rows = [(each.dataflow, *_share(each, found)) for each in found.dataflows]
        yield table("dataflow", *columns, rows=rows, empty="")


_SAVED = ("work saved by sharing", "cores saved by sharing", "cores saved by packing")


def _percent(part: float) -> str:
    return f"{number(round(100 * part, 1))} %"


def _savings_price_column(found: SavingsAnswer) -> tuple[str, ...]:
    return () if found.price_per_core_hour is None else (f"price {found.currency}".strip(),)


def _taken(taken: CpuAnswer | None, found: SavingsAnswer) -> tuple[object, ...]:
    if taken is None:
        return ("not measured", None, None, *(None for _ in _savings_price_column(found)))
    return (taken.cores, None, None, *(taken.price for _ in _savings_price_column(found)))


def _estimated(estimate: EstimateAnswer, found: SavingsAnswer) -> tuple[object, ...]:
    return (estimate.likely, estimate.low, estimate.high, *(estimate.price for _ in _savings_price_column(found)))


def _share(each: ShareAnswer, found: SavingsAnswer) -> tuple[object, ...]:
    alone, saved = each.alone, each.saved
    return (
        each.share.cores,
        alone.likely,
        alone.low,
        alone.high,
        None if saved.work_by_sharing is None else _percent(saved.work_by_sharing),
        None if saved.cores_by_sharing is None else saved.cores_by_sharing.cores,
        saved.cores_by_packing.likely,
        *(each.share.price for _ in _savings_price_column(found)),
    )


_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
_LAST_MONTH = 12


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
    found = client.bill(since=begin, until=end, tenant=tenant)
    return _Csv(data=found, text="") if csv else Shown(data=found, text=lines(_bill_heading(found), *_tables(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Csv(Shown):
    """A bill that is printed as CSV, unless JSON is asked for."""

    data: BillAnswer

    def print(self, *, as_json: bool) -> None:
        if as_json:
            # `super()` does not work in a class with slots.
            Shown.print(self, as_json=True)
        else:
            sys.stdout.write(as_csv(self.data))
            sys.stdout.flush()


def _bounds(month: str) -> tuple[datetime, datetime]:
    """The start and the end of a month."""
    found = _MONTH.fullmatch(month)
    # `datetime` has no year 0, and nothing after its last year.
    if found is None or not MINYEAR <= (year := int(found[1])) < MAXYEAR:
        raise WrongUsage(f"--month: {month!r} is not a month; write one such as 2026-10")
    number = int(found[2])
    following = (year + 1, 1) if number == _LAST_MONTH else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def _bill_heading(found: BillAnswer) -> str:
    """The interval, and whether the bill is final."""
    hours = found.metered_seconds / 3_600
    more = "" if found.complete else "; not final"
    return f"{moment(found.since)} to {moment(found.until)}, {hours:.1f} hours metered{more}"


def _tables(found: BillAnswer) -> Iterator[RenderableType]:
    columns = ("core hours", "at most", *_amount_column(found))
    rows = [(each.tenant, *_line(each, found)) for each in found.tenants]
    if found.whole is not None:
        # The sum includes tenants that are not shown.
        others = [("(others)", found.whole.others)] if found.whole.others.cpu_ns else []
        for name, amount in (*others, ("(overhead)", found.whole.overhead), ("(measured)", found.whole.measured)):
            rows.append((name, f"{amount.core_hours:f}", None, *_money(amount, found)))
    yield table("tenant", *columns, rows=rows, empty="nothing metered")
    if found.dataflows:
        own = [(each.tenant, each.dataflow, each.name, *_line(each, found)) for each in found.dataflows]
        yield table("tenant", "dataflow", "name", *columns, rows=own, empty="")


def _amount_column(found: BillAnswer) -> tuple[str, ...]:
    return () if found.price_per_core_hour is None else (f"amount {found.currency}".strip(),)


def _line(line: BillLine, found: BillAnswer) -> tuple[object, ...]:
    return (f"{line.pays.core_hours:f}", f"{line.most.core_hours:f}", *_money(line.pays, found))


def _money(amount: BillAmount, found: BillAnswer) -> tuple[str, ...]:
    return () if amount.amount is None or found.price_per_core_hour is None else (f"{amount.amount:f}",)
