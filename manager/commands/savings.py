"""The command that shows what was saved: `braid savings`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import RenderableType

from manager.answers import CpuAnswer, EstimateAnswer, SavedAnswer, SavingsAnswer, ShareAnswer
from manager.client.client import Client
from manager.commands.client_command import WrongUsage, client_command
from manager.commands.display import Shown, lines, moment, number, table

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
    return Shown(data=found, text=lines(_heading(found), _whole(found), *_shares(found)))


def time_in(option: str, text: str | None) -> datetime | None:
    """The time that an option gives."""
    if text is None:
        return None
    try:
        # A time without a zone is a local one.
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongUsage(f"{option}: {text!r} is not a time; write one {TIME_FORMAT}") from None


def _heading(found: SavingsAnswer) -> str:
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
    return table("cores", "likely", "low", "high", *_price_column(found), rows=rows, empty="")


def _shared(saved: SavedAnswer, found: SavingsAnswer) -> Iterator[tuple[object, ...]]:
    """The rows of what sharing saved; none if nothing was shared."""
    if saved.work_by_sharing is not None:
        prices = (None for _ in _price_column(found))
        yield ("work saved by sharing", _percent(saved.work_by_sharing), None, None, *prices)
        yield ("cores saved by sharing", *_taken(saved.cores_by_sharing, found))


def _shares(found: SavingsAnswer) -> Iterator[RenderableType]:
    columns = ("share", "alone", "low", "high", *_SAVED, *_price_column(found))
    yield table(
        "tenant", *columns, rows=[(each.tenant, *_share(each, found)) for each in found.shares], empty="no shares"
    )
    if found.dataflows:
        rows = [(each.dataflow, *_share(each, found)) for each in found.dataflows]
        yield table("dataflow", *columns, rows=rows, empty="")


_SAVED = ("work saved by sharing", "cores saved by sharing", "cores saved by packing")


def _percent(part: float) -> str:
    return f"{number(round(100 * part, 1))} %"


def _price_column(found: SavingsAnswer) -> tuple[str, ...]:
    return () if found.price_per_core_hour is None else (f"price {found.currency}".strip(),)


def _taken(taken: CpuAnswer | None, found: SavingsAnswer) -> tuple[object, ...]:
    if taken is None:
        return ("not measured", None, None, *(None for _ in _price_column(found)))
    return (taken.cores, None, None, *(taken.price for _ in _price_column(found)))


def _estimated(estimate: EstimateAnswer, found: SavingsAnswer) -> tuple[object, ...]:
    return (estimate.likely, estimate.low, estimate.high, *(estimate.price for _ in _price_column(found)))


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
        *(each.share.price for _ in _price_column(found)),
    )
