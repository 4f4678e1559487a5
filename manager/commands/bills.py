"""The command that shows the costs of each tenant: `braid bill`."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Annotated

import typer
from rich.console import RenderableType

from manager.answers import BillAmount, BillAnswer, BillLine
from manager.answers.bill_csv import as_csv
from manager.client.client import Client
from manager.commands.client_command import WrongUsage, client_command
from manager.commands.display import Shown, lines, moment, table
from manager.commands.savings import TIME_FORMAT, time_in

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
    return _Csv(data=found, text="") if csv else Shown(data=found, text=lines(_heading(found), *_tables(found)))


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


def _heading(found: BillAnswer) -> str:
    """The interval, and whether the bill is final."""
    hours = found.metered_seconds / 3_600
    more = "" if found.complete else "; not final"
    return f"{moment(found.since)} to {moment(found.until)}, {hours:.1f} hours metered{more}"


def _tables(found: BillAnswer) -> Iterator[RenderableType]:
    columns = ("core hours", "at most", *_price_column(found))
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


def _price_column(found: BillAnswer) -> tuple[str, ...]:
    return () if found.price_per_core_hour is None else (f"amount {found.currency}".strip(),)


def _line(line: BillLine, found: BillAnswer) -> tuple[object, ...]:
    return (f"{line.pays.core_hours:f}", f"{line.most.core_hours:f}", *_money(line.pays, found))


def _money(amount: BillAmount, found: BillAnswer) -> tuple[str, ...]:
    return () if amount.amount is None or found.price_per_core_hour is None else (f"{amount.amount:f}",)
