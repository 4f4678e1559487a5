"""Steps of an interval, and the answers for what was metered in each."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from manager.answers import PointAnswer
from manager.savings.intervals import AmountScale, Interval, interval, moment
from manager.savings.ledger import HOUR, KEPT, MINUTE, NO_SHARE, MeteredShare, Whole

M = TypeVar("M", MeteredShare, Whole)

MOST_POINTS = 500
_USUAL_POINTS = 126
_STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
"""The default steps: the first that makes no more than the usual number of points."""
LONGEST_STEP = _STEPS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of equal length; made by `steps`."""

    interval: Interval
    """The interval, extended to whole steps."""
    step: int
    """Seconds of a step."""

    @property
    def count(self) -> int:
        """The number of steps."""
        return (self.interval.until - self.interval.since) // self.step

    def begins(self) -> range:
        """Return the beginning of each step."""
        return range(self.interval.since, self.interval.until, self.step)

    def of(self, at: int) -> int:
        """Return the beginning of the step that contains a time."""
        return at - at % self.step


def steps(since: datetime | None, until: datetime | None, step: int | None, now: float) -> Steps:
    """Return the steps from one time to another; by default, those of the last hour.

    They begin at multiples of their length, and are at least an hour if minutes are no longer kept.
    """
    within = interval(since, until, now)
    if step is None:
        length = within.until - within.since
        step = next((each for each in _STEPS if length <= each * _USUAL_POINTS), LONGEST_STEP)
    step = _up(step, within.span)
    if step % HOUR and within.since // step * step < now - KEPT + MINUTE:
        step = _up(step, HOUR)
    bounds = replace(
        within,
        span=MINUTE if step % HOUR else HOUR,
        since=within.since // step * step,
        until=_up(within.until, step),
    )
    return Steps(interval=bounds, step=step)


def points(
    wanted: Steps,
    whole_series: Iterable[tuple[int, Whole]],
    took: Iterable[tuple[int, MeteredShare]] | None,
    *,
    whole_too: bool,
    price_per_core_hour: float | None,
) -> tuple[PointAnswer, ...]:
    """Return the answer for each step; `took` is a tenant's share, None if no tenant's is wanted."""
    everything = _by_step(wanted, whole_series)
    own = None if took is None else _by_step(wanted, took)

    def point(begin: int) -> PointAnswer:
        whole = everything.get(begin)
        if whole is None:
            return PointAnswer(at=moment(begin), metered_seconds=0.0)
        scale = AmountScale(seconds=whole.seconds, price_per_core_hour=price_per_core_hour)
        share = None if own is None else own.get(begin, NO_SHARE)
        return PointAnswer(
            at=moment(begin),
            metered_seconds=round(whole.seconds, 3),
            measured=scale.cpu(whole.measured) if whole_too else None,
            alone_launched=scale.estimate(whole.launched) if whole_too else None,
            alone_packed=scale.estimate(whole.packed) if whole_too else None,
            share=None if share is None else scale.cpu(share.cpu),
            alone=None if share is None else scale.estimate(share.alone),
        )

    return tuple(map(point, wanted.begins()))


def _by_step(wanted: Steps, metered: Iterable[tuple[int, M]]) -> dict[int, M]:
    found: dict[int, M] = {}
    for at, more in metered:
        begin = wanted.of(at)
        found[begin] = found[begin].plus(more) if begin in found else more
    return found


def _up(seconds: int, unit: int) -> int:
    return math.ceil(seconds / unit) * unit
