"""Billing: which hours a bill is of, and how what was measured becomes money that adds up.

No dataflow pays more than its stand-alone estimate, and what that takes off is the operator's overhead. It is applied
where minutes are settled, so a bill only adds up what was settled: two bills of one hour after the other are the bill
of both, to the nanosecond.

Money is rounded once for each bill, by the largest remainder: the measured whole to a millionth, every part down, and
what is still missing goes in millionths to the parts that lost most. Who used the same gets the same: where there is
not one for each of them, the overhead takes what is left.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby

from manager.savings.counter_growth import SECOND
from manager.savings.intervals import Interval
from manager.savings.ledger import HOUR

Line = tuple[str, str]
"""A tenant, and one of its dataflows."""
MILLION = 1_000_000
"""So many of the smallest amount are one of a currency."""
LONGEST_BILL = 93 * 24 * HOUR
"""Seconds that one bill may be of: three months."""


def period(since: datetime | None, until: datetime | None, now: float) -> Interval:
    """The hours that a bill is of: this month's so far, where nothing is said.

    Both bounds are moved back to whole hours, so that no hour is in two bills of which one begins where the other ends.
    """
    following = (math.floor(now / HOUR) + 1) * HOUR
    end = following if until is None else min(_hour(until), following)
    # A bill that ends with a month is of that month.
    begin = _month(max(end - 1, 0)) if since is None else max(_hour(since), 0)
    return Interval(span=HOUR, since=begin, until=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Money in millionths; lines and overhead are the whole. Made by `amounts`."""

    whole: int
    overhead: int
    lines: Mapping[Line, int]


def amounts(measured: int, lines: Mapping[Line, int], price: float) -> Amounts:
    """What a core hour's price makes of the nanoseconds that were measured, and of those of each line."""
    each = rate(price)
    overhead = measured - sum(lines.values())
    whole, floors = round(measured * each), {line: math.floor(cpu * each) for line, cpu in lines.items()}
    kept = math.floor(overhead * each)
    left = whole - kept - sum(floors.values())
    lost: list[tuple[Fraction, Line | None]] = [
        (overhead * each - kept, None),
        *((cpu * each - floors[line], line) for line, cpu in lines.items()),
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


def at_most(cpu: int, price: float) -> int:
    """What nanoseconds cost at most, in millionths: rounded up."""
    return math.ceil(cpu * rate(price))


def rate(price: float) -> Fraction:
    """Millionths for a nanosecond, exactly as the price is written."""
    return Fraction(str(price)) * MILLION / (HOUR * SECOND)


def by_tenant(lines: Iterable[tuple[Line, int]]) -> dict[str, int]:
    """For each tenant the sum of its dataflows."""
    found: dict[str, int] = {}
    for (tenant, _), amount in lines:
        found[tenant] = found.get(tenant, 0) + amount
    return found


def _hour(at: datetime) -> int:
    return math.floor(at.timestamp() / HOUR) * HOUR


def _month(seconds: int) -> int:
    at = datetime.fromtimestamp(seconds, UTC)
    return int(at.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp())
