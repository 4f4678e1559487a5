"""Cases: what can be said of a condition before anything is observed.

A condition is a union of cases. A case bounds metrics, restricts the clock, and has literals: conditions over
events and lengths of time, of which only their text is known. A condition without cases can never hold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from adaptation.guards.conditions import (
    DAYS,
    FEEDBACK,
    MINUTES_OF_DAY,
    AllCondition,
    AnyCondition,
    ClockCondition,
    Condition,
    EventCondition,
    MetricCondition,
    NotCondition,
    SequenceCondition,
    minutes_of,
    parts_of,
)

MOST_CASES = 200
_WEEK = frozenset(range(len(DAYS) * MINUTES_OF_DAY))


class TooManyCases(ValueError):
    """A condition has so many cases that nothing is said of it."""


class MetricKey(NamedTuple):
    """A metric of a task, or of the whole dataflow."""

    metric: str
    task: str | None


class Bounds(NamedTuple):
    """The numbers between two bounds."""

    low: float = 0.0
    high: float = math.inf
    without_low: bool = False
    without_high: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no number is in it."""
        return self.low > self.high or (self.low == self.high and (self.without_low or self.without_high))

    def meet(self, other: "Bounds") -> "Bounds":
        """The numbers in both."""
        low, without_low = max((self.low, self.without_low), (other.low, other.without_low))
        high, with_high = min((self.high, not self.without_high), (other.high, not other.without_high))
        return Bounds(low, high, without_low, not with_high)

    def distance(self, other: "Bounds") -> float:
        """How far apart two are; 0 or less if they touch."""
        return max(self.low - other.high, other.low - self.high)


_RANGES = {"throughput": Bounds(high=1.0)}
_ANY = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Bounds, times and literals that hold together."""

    bounds: Mapping[MetricKey, Bounds] = field(default_factory=dict)
    minutes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The minutes of the week, by time zone."""
    literals: frozenset[tuple[Condition, bool]] = frozenset()
    """Each with whether it holds."""

    def meet(self, other: "Case") -> "Case | None":
        """What is in both; None if nothing can be."""
        bounds = dict(self.bounds)
        for key, bound in other.bounds.items():
            bounds[key] = bounds.get(key, _ANY).meet(bound)
        minutes = dict(self.minutes)
        for zone, times in other.minutes.items():
            minutes[zone] = minutes.get(zone, _WEEK) & times
        literals = self.literals | other.literals
        empty = any(each.is_empty for each in bounds.values()) or not all(minutes.values())
        contradicts = any((condition, not holds) in literals for condition, holds in literals)
        return None if empty or contradicts else Case(bounds=bounds, minutes=minutes, literals=literals)

    def covers(self, other: "Case") -> bool:
        """Whether it holds wherever another does."""
        return (
            all(other.bounds.get(key, _ANY).meet(bound) == other.bounds.get(key) for key, bound in self.bounds.items())
            and all(other.minutes.get(zone, _WEEK) <= times for zone, times in self.minutes.items())
            and self.literals <= other.literals
        )

    @property
    def feeds_back(self) -> bool:
        """Whether it depends on a metric that changes with the choice."""
        return any(_follows(each) for each, _ in self.literals) or any(key.metric in FEEDBACK for key in self.bounds)

    def is_apart(self, other: "Case") -> bool:
        """Whether there is a gap between two, so that a small change does not lead from one into the other."""
        for key in self.bounds.keys() & other.bounds.keys():
            distance = self.bounds[key].distance(other.bounds[key])
            if distance > 0 or (key.metric not in FEEDBACK and self.bounds[key].meet(other.bounds[key]).is_empty):
                return True
        return any(not self.minutes[zone] & other.minutes[zone] for zone in self.minutes.keys() & other.minutes.keys())


def _follows(condition: Condition) -> bool:
    is_one = isinstance(condition, MetricCondition) and condition.metric in FEEDBACK
    return is_one or any(map(_follows, parts_of(condition)))


def cases_of(condition: Condition, *, holds: bool = True) -> tuple[Case, ...]:
    """Where a condition holds, or does not. Raises `TooManyCases`."""
    match condition:
        case MetricCondition():
            return _of_metric(condition, holds=holds)
        case EventCondition():
            impossible = holds and condition.where is not None and condition.where.is_empty
            return () if impossible else (_literal(condition, holds=holds),)
        case ClockCondition():
            times = minutes_of(condition.clock) if holds else _WEEK - minutes_of(condition.clock)
            return (Case(minutes={condition.clock.zone: times}),) if times else ()
        case NotCondition():
            return cases_of(condition.part, holds=not holds)
        case SequenceCondition():
            impossible = holds and not all(cases_of(each) for each in condition.parts)
            return () if impossible else (_literal(condition, holds=holds),)
        case AllCondition() | AnyCondition():
            parts = [cases_of(each, holds=holds) for each in condition.parts]
            joined = _all(parts) if isinstance(condition, AllCondition) == holds else tuple(r for p in parts for r in p)
            return _bounded(joined)


def _of_metric(condition: MetricCondition, *, holds: bool) -> tuple[Case, ...]:
    if condition.for_s is not None and not holds:
        return (_literal(condition, holds=False),)
    if condition.above is not None:
        allowed = Bounds(low=condition.above, without_low=True) if holds else Bounds(high=condition.above)
    else:
        below = condition.below or 0.0
        allowed = Bounds(high=below, without_high=True) if holds else Bounds(low=below)
    key = MetricKey(condition.metric, condition.task)
    found = allowed.meet(_RANGES.get(condition.metric, _ANY))
    literals = frozenset({(condition, True)}) if condition.for_s is not None else frozenset()
    return () if found.is_empty else (Case(bounds={key: found}, literals=literals),)


def _literal(condition: Condition, *, holds: bool) -> Case:
    return Case(literals=frozenset({(condition, holds)}))


def _all(parts: list[tuple[Case, ...]]) -> tuple[Case, ...]:
    found: tuple[Case, ...] = (Case(),)
    for part in parts:
        found = _bounded(tuple(met for each, other in product(found, part) if (met := each.meet(other)) is not None))
    return found


def _bounded(found: tuple[Case, ...]) -> tuple[Case, ...]:
    if len(found) > MOST_CASES:
        raise TooManyCases
    return found
