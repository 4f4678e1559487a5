"""The command that shows who pays how much: `braid bill`."""

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
from manager.commands.client_command import WrongUsage, asks
from manager.commands.display import Shown, lines, moment, table
from manager.commands.savings import WHEN, time_in

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
_LAST_MONTH = 12


@asks
def bill(  # noqa: PLR0913 - each is an option, which callers name
    client: Client,
    *,
    since: Annotated[
        str | None, typer.Option("--from", help=f"When the bill begins, {WHEN} Moved back to a whole hour.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="When it ends; now if not given.")] = None,
    month: Annotated[str | None, typer.Option(help="Of one month instead, such as 2026-10; in UTC.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of one tenant only.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
) -> Shown:
    """Show what each tenant and each dataflow costs, this month so far or from one time to another."""
    if month is not None and (since is not None or until is not None):
        raise WrongUsage("--month: it says from when to when already; leave --from and --to out")
    begin, end = (time_in("--from", since), time_in("--to", until)) if month is None else _bounds(month)
    found = client.bill(since=begin, until=end, tenant=tenant)
    return _Csv(data=found, text="") if csv else Shown(data=found, text=lines(_heading(found), *_tables(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Csv(Shown):
    """A bill that is printed as CSV, byte for byte, where nobody asks for JSON."""

    data: BillAnswer

    def print(self, *, as_json: bool) -> None:
        if as_json:
            # `super()` does not work in a class with slots.
            Shown.print(self, as_json=True)
        else:
            sys.stdout.write(as_csv(self.data))
            sys.stdout.flush()


def _bounds(month: str) -> tuple[datetime, datetime]:
    """When a month begins and ends."""
    told = _MONTH.fullmatch(month)
    # The years before the first and after the last have no bounds.
    if told is None or not MINYEAR <= (year := int(told[1])) < MAXYEAR:
        raise WrongUsage(f"--month: {month!r} is no month; write one such as 2026-10")
    number = int(told[2])
    following = (year + 1, 1) if number == _LAST_MONTH else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def _heading(found: BillAnswer) -> str:
    """From when to when, and whether more may come to it."""
    hours = found.metered_seconds / 3_600
    more = "" if found.complete else "; more may come to it"
    return f"{moment(found.since)} to {moment(found.until)}, {hours:.1f} hours metered{more}"


def _tables(found: BillAnswer) -> Iterator[RenderableType]:
    columns = ("core hours", "at most", *_priced(found))
    rows = [(each.tenant, *_line(each, found)) for each in found.tenants]
    if found.whole is not None:
        # Those who are not shown are in the sum too.
        others = [("(others)", found.whole.others)] if found.whole.others.cpu_ns else []
        for name, amount in (*others, ("(overhead)", found.whole.overhead), ("(measured)", found.whole.measured)):
            rows.append((name, f"{amount.core_hours:f}", None, *_money(amount, found)))
    yield table("tenant", *columns, rows=rows, empty="nothing was metered")
    if found.dataflows:
        own = [(each.tenant, each.dataflow, each.name, *_line(each, found)) for each in found.dataflows]
        yield table("tenant", "dataflow", "name", *columns, rows=own, empty="")


def _priced(found: BillAnswer) -> tuple[str, ...]:
    return () if found.price_per_core_hour is None else (f"amount {found.currency}".strip(),)


def _line(line: BillLine, found: BillAnswer) -> tuple[object, ...]:
    return (f"{line.pays.core_hours:f}", f"{line.most.core_hours:f}", *_money(line.pays, found))


def _money(amount: BillAmount, found: BillAnswer) -> tuple[str, ...]:
    return () if amount.amount is None or found.price_per_core_hour is None else (f"{amount.amount:f}",)
