"""Stepping: into which steps an interval falls, and what was metered in each of them as it is answered."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from manager.answers import PointAnswer
from manager.savings.intervals import AmountScale, Interval, interval, moment
from manager.savings.ledger import HOUR, KEPT, MINUTE, TOOK_NOTHING, Took, Whole

M = TypeVar("M", Took, Whole)

MOST_POINTS = 500
_USUAL_POINTS = 126
_STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
"""What is taken where no step is asked for: the first that makes no more than the usual number of points."""
LONGEST_STEP = _STEPS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of equal length; made by `steps`."""

    interval: Interval
    """Its bounds are those of steps."""
    step: int

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.interval.until - self.interval.since) // self.step

    def begins(self) -> range:
        """When each begins."""
        return range(self.interval.since, self.interval.until, self.step)

    def of(self, at: int) -> int:
        """When the step begins in which a minute or hour is that begins then."""
        return at - at % self.step


def steps(since: datetime | None, until: datetime | None, step: int | None, now: float) -> Steps:
    """The steps from one time to another; the last hour where neither is given.

    They begin at multiples of their length, and are no shorter than what is kept: whole hours, where minutes are not.
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
    wholes: Iterable[tuple[int, Whole]],
    took: Iterable[tuple[int, Took]] | None,
    *,
    whole_too: bool,
    price_per_core_hour: float | None,
) -> tuple[PointAnswer, ...]:
    """What was metered in each step; `took` is a tenant's share, None where nobody's is wanted."""
    everything = _by_step(wanted, wholes)
    own = None if took is None else _by_step(wanted, took)

    def point(begin: int) -> PointAnswer:
        whole = everything.get(begin)
        if whole is None:
            return PointAnswer(at=moment(begin), metered_seconds=0.0)
        told = AmountScale(seconds=whole.seconds, price_per_core_hour=price_per_core_hour)
        share = None if own is None else own.get(begin, TOOK_NOTHING)
        return PointAnswer(
            at=moment(begin),
            metered_seconds=round(whole.seconds, 3),
            measured=told.cpu(sum(whole.cpu.values())) if whole_too else None,
            alone_launched=told.estimate(whole.launched) if whole_too else None,
            alone_packed=told.estimate(whole.packed) if whole_too else None,
            share=None if share is None else told.cpu(share.cpu),
            alone=None if share is None else told.estimate(share.alone),
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
