"""The period of a bill, and its amounts of money, which add up exactly.

A bill adds up settled minutes, so the bills of two consecutive hours add up to the bill of both, to the nanosecond.

Money is rounded once per bill, by the largest remainder: the measured whole to a millionth, every part down, and the
missing millionths go to the parts that lost most. Equal parts are treated equally: if there are not enough millionths
for all of them, the overhead takes the rest.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby

from manager.savings.intervals import Interval
from manager.savings.ledger import HOUR
from manager.savings.money import rate

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Money in millionths; lines and overhead add up to the whole. Made by `amounts`."""

    whole: int
    overhead: int
    lines: Mapping[Line, int]


def amounts(measured: int, lines: Mapping[Line, int], price: float) -> Amounts:
    """Convert nanoseconds to money, for the measured whole and for each line; `price` is that of a core hour."""
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


def by_tenant(lines: Iterable[tuple[Line, int]]) -> dict[str, int]:
    """Add up the dataflows of each tenant."""
    found: dict[str, int] = {}
    for (tenant, _), amount in lines:
        found[tenant] = found.get(tenant, 0) + amount
    return found


def _hour(at: datetime) -> int:
    return math.floor(at.timestamp() / HOUR) * HOUR


def _month(seconds: int) -> int:
    at = datetime.fromtimestamp(seconds, UTC)
    return int(at.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp())
