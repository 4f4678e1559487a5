"""Bills: their period, their lines, and amounts of money that add up exactly.

A bill adds up settled minutes, so the bills of two consecutive hours add up to the bill of both, to the nanosecond.

Money is rounded once per bill, by the largest remainder: the measured whole to a millionth, every part down, and
the missing millionths go to the parts that lost most. Equal parts are treated equally: if there are not enough
millionths for all of them, the overhead takes the rest.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import groupby

from braid_client.answers.savings import BillAmount, BillLine, BillWhole, RentedAnswer
from manager.savings.ledger import HOUR, Interval
from manager.savings.settlement import MILLION, MeteredShare, Whole, cap_amount, core_hours, money, rate
from manager.store.machine_tables import RentalRow
from provisioning.figures import started_hours

Line = tuple[str, str]
"""A tenant and one of its dataflows."""
LONGEST_BILL = 93 * 24 * HOUR
"""Seconds that a bill covers at most: three months."""


def period(since: datetime | None, until: datetime | None, now: float) -> Interval:
    """Return the hours of a bill; by default, those of this month so far.

    Both bounds are rounded down to whole hours, so that consecutive bills have no hour in common.
    """
    following = (math.floor(now / HOUR) + 1) * HOUR
    end = following if until is None else min(_hour(until), following)
    # A bill that ends at the end of a month covers that month.
    begin = _month(max(end - 1, 0)) if since is None else max(_hour(since), 0)
    return Interval(span=HOUR, since=begin, until=end)


def rented_in(rows: Iterable[RentalRow], wanted: Interval, now: float) -> tuple[RentedAnswer, ...]:
    """What rented machines cost in an interval, by class: the hours of each that began in it."""
    hours: dict[str, list[int]] = {}
    costs: dict[str, Fraction] = {}
    for row in rows:
        begun = started_hours((now if row.ended is None else row.ended) - row.ordered)
        first, last = (math.ceil((bound - row.ordered) / HOUR) for bound in (wanted.since, wanted.until))
        if here := max(0, min(last, begun) - max(first, 0)):
            hours.setdefault(row.machine_class, []).append(here)
            costs[row.machine_class] = costs.get(row.machine_class, Fraction()) + here * Fraction(str(row.price))
    return tuple(
        RentedAnswer(
            machine_class=name, machines=len(some), hours=sum(some), amount=money(round(costs[name] * MILLION))
        )
        for name, some in sorted(hours.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Money in millionths; lines and overhead add up to the whole. Made by `amounts`."""

    whole: int
    overhead: int
    lines: Mapping[Line, int]


def amounts(measured: int, lines: Mapping[Line, int], per: Fraction) -> Amounts:
    """Convert nanoseconds to money, for the measured whole and for each line; `per` are the millionths for each."""
    overhead = measured - sum(lines.values())
    whole, floors = round(measured * per), {line: math.floor(cpu * per) for line, cpu in lines.items()}
    kept = math.floor(overhead * per)
    left = whole - kept - sum(floors.values())
    lost: list[tuple[Fraction, Line | None]] = [
        (overhead * per - kept, None),
        *((cpu * per - floors[line], line) for line, cpu in lines.items()),
    ]
    lost.sort(key=lambda entry: entry[0], reverse=True)
    for _, equals in groupby(lost, key=lambda entry: entry[0]):
        more = [line for _, line in equals]
        if len(more) > left:
            break
        left -= len(more)
        kept += more.count(None)
        floors.update({line: floors[line] + 1 for line in more if line is not None})
    return Amounts(whole=whole, overhead=kept + left, lines=floors)


def _hour(at: datetime) -> int:
    return math.floor(at.timestamp() / HOUR) * HOUR


def _month(seconds: int) -> int:
    at = datetime.fromtimestamp(seconds, UTC)
    return int(at.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp())


# Without slots, for the cached properties.
@dataclass(frozen=True, kw_only=True)
class Bill:
    """The bill of some hours; made by the use case."""

    whole: Whole
    everybody: Mapping[Line, MeteredShare]
    """The shares of all dataflows, even if fewer are shown, so that rounding is the same in every answer."""
    shown: Mapping[Line, MeteredShare]
    names: Mapping[str, str]
    price_per_core_hour: float | None
    rented: tuple[RentedAnswer, ...] = ()
    """The machines that the service rented meanwhile, by class."""

    def dataflows(self) -> tuple[BillLine, ...]:
        """Return a line for each dataflow that is shown."""
        return tuple(
            self._line(self._sums(line), tenant=line[0], dataflow=line[1], name=self.names.get(line[1], ""))
            for line in self.shown
        )

    def tenants(self) -> tuple[BillLine, ...]:
        """Return a line for each tenant that is shown: the sum of its dataflows, in money too."""
        sums: dict[str, tuple[int, ...]] = {}
        for line in self.shown:
            sums[line[0]] = tuple(map(int.__add__, sums.get(line[0], (0,) * 5), self._sums(line)))
        return tuple(self._line(added, tenant=tenant) for tenant, added in sums.items())

    def totals(self) -> BillWhole:
        """Return the measured whole, and the parts of others and of the operator."""
        paid, others = self._paid, [line for line in self.everybody if line not in self.shown]
        return BillWhole(
            measured=self._amount(self.whole.measured, paid.whole),
            others=self._amount(sum(self._cpu[line] for line in others), sum(paid.lines[line] for line in others)),
            overhead=self._amount(self.whole.measured - sum(self._cpu.values()), paid.overhead),
            rented=self.rented,
            rented_others=money(sum(self._rent.lines[line] for line in others)),
            rented_overhead=money(self._rent.overhead),
        )

    @cached_property
    def _cpu(self) -> dict[Line, int]:
        return {line: took.cpu for line, took in self.everybody.items()}

    @cached_property
    def _paid(self) -> Amounts:
        return amounts(self.whole.measured, self._cpu, rate(self.price_per_core_hour or 0.0))

    @cached_property
    def _rent(self) -> Amounts:
        """What rented machines cost, divided as all CPU was; all of it is the operator's where none was measured."""
        millionths = int(sum((kind.amount for kind in self.rented), Decimal()).scaleb(6))
        if not self.whole.measured:
            return Amounts(whole=millionths, overhead=millionths, lines=dict.fromkeys(self._cpu, 0))
        return amounts(self.whole.measured, self._cpu, Fraction(millionths, self.whole.measured))

    def _sums(self, line: Line) -> tuple[int, int, int, int, int]:
        """What a dataflow took and pays, what it would take and pay alone, and its part of what was rented."""
        alone = self.shown[line].alone.likely
        most = cap_amount(alone, self.price_per_core_hour or 0.0)
        return self._cpu[line], self._paid.lines[line], alone, most, self._rent.lines[line]

    def _line(self, sums: Iterable[int], **whose: str) -> BillLine:
        cpu, paid, alone, most, rent = sums
        pays, cap = self._amount(cpu, paid), self._amount(alone, most)
        return BillLine(pays=pays, most=cap, rented=money(rent), **whose)

    def _amount(self, cpu: int, millionths: int) -> BillAmount:
        amount = None if self.price_per_core_hour is None else money(millionths)
        return BillAmount(cpu_ns=cpu, core_hours=core_hours(cpu), amount=amount)
