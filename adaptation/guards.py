"""Guards: conditions over metrics, the clock and domain events as they are written in JSON, and when they can hold.

Conditions and guards are frozen and hashable, so that states are kept by guard. `conditions_of` gives each condition
with its place in the JSON.

Before anything is observed, a condition is a union of cases. A case bounds metrics, restricts the clock, and has
literals: conditions over events and lengths of time, of which only their text is known. A condition without cases can
never hold.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from dags.document import Name, StrictForm, TaskId

ENTERING_RATE = "rate"
FEEDBACK = frozenset({"throughput", "latency", "backlog", "load"})
"""Metrics that change with the choice that they guard."""
KNOWN_METRICS = frozenset({ENTERING_RATE}) | FEEDBACK
MOST_PARTS = 20
"""The most conditions that one condition joins."""
MINUTES_OF_DAY = 24 * 60

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
Bound = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FieldText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TimeOfDay = Annotated[str, StringConstraints(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")]


class MetricCondition(StrictForm):
    """A metric is above or below a bound."""

    metric: str
    """`rate`, `throughput`, `latency`, `backlog` or `load`."""
    task: TaskId | None = None
    """The task that is meant; the whole dataflow if left out."""
    above: Bound | None = None
    below: Bound | None = None
    for_s: Seconds | None = Field(default=None, alias="for")
    """How long it must have been so, in seconds."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.above is None) == (self.below is None):
            raise ValueError("a metric has one bound; give one of 'above' and 'below'")
        return self


def _scalar(value: Any) -> Any:
    if value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError("a field is compared with a text, true, false or a number")
    return value


class FieldTest(StrictForm):
    """What a field of an event must be."""

    field: FieldText
    above: Bound | None = None
    below: Bound | None = None
    equals: Annotated[Any, AfterValidator(_scalar)] = None
    """A text, true, false or a number."""

    @model_validator(mode="after")
    def _tests_something(self) -> Self:
        if self.above is None and self.below is None and self.equals is None:
            raise ValueError("it tests nothing; give 'above', 'below' or 'equals'")
        return self

    def passes(self, value: Any) -> bool:
        """Whether a value is as it must be. Null never is."""
        if self.equals is not None and (
            value != self.equals or isinstance(value, bool) != isinstance(self.equals, bool)
        ):
            return False
        if self.above is None and self.below is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.above is None or value > self.above) and (self.below is None or value < self.below)

    @property
    def is_empty(self) -> bool:
        """Whether no value can pass."""
        if self.above is not None and self.below is not None and self.above >= self.below:
            return True
        return self.equals is not None and not self.passes(self.equals)


class EventCondition(StrictForm):
    """A domain event has come: just now, or within some seconds."""

    event: Name
    """A name that the policy gives to an output."""
    where: FieldTest | None = None
    within: Seconds | None = None


class ClockTimes(StrictForm):
    """The times of day, and the days on which they begin."""

    from_: TimeOfDay = Field(alias="from")
    to: TimeOfDay
    """Before `from` if it is on the next day."""
    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7, strict=False)] = DAYS
    zone: Annotated[str, StringConstraints(min_length=1, max_length=100)] = "UTC"

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (OSError, ValueError, LookupError):
            raise ValueError("there is no such time zone; name one such as Europe/Berlin") from None
        return zone


class ClockCondition(StrictForm):
    """The clock is within some times."""

    clock: ClockTimes


class AllCondition(StrictForm):
    """All of some conditions hold."""

    parts: "Parts" = Field(alias="all")


class AnyCondition(StrictForm):
    """At least one of some conditions holds."""

    parts: "Parts" = Field(alias="any")


class NotCondition(StrictForm):
    """A condition does not hold."""

    part: "Condition" = Field(alias="not")


class SequenceCondition(StrictForm):
    """Conditions became true one after the other, within some seconds."""

    parts: "Parts" = Field(alias="sequence")
    within: Seconds


def _tag(value: Any) -> str | None:
    if isinstance(value, BaseModel):
        return next(tag for tag, kind in _KINDS.items() if isinstance(value, kind))
    return next((tag for tag in _KINDS if isinstance(value, dict) and tag.strip("()") in value), None)


_KINDS: dict[str, type[BaseModel]] = {
    "(metric)": MetricCondition,
    "(event)": EventCondition,
    "(clock)": ClockCondition,
    "(all)": AllCondition,
    "(any)": AnyCondition,
    "(not)": NotCondition,
    "(sequence)": SequenceCondition,
}
Condition = Annotated[
    Annotated[MetricCondition, Tag("(metric)")]
    | Annotated[EventCondition, Tag("(event)")]
    | Annotated[ClockCondition, Tag("(clock)")]
    | Annotated[AllCondition, Tag("(all)")]
    | Annotated[AnyCondition, Tag("(any)")]
    | Annotated[NotCondition, Tag("(not)")]
    | Annotated[SequenceCondition, Tag("(sequence)")],
    Discriminator(
        _tag,
        custom_error_type="no_condition",
        custom_error_message="is no condition, which has one of 'metric', 'event', 'clock', 'all', 'any', 'not' and "
        "'sequence'",
    ),
]
Parts = Annotated[tuple[Condition, ...], Field(min_length=1, max_length=MOST_PARTS, strict=False)]

for _kind in (AllCondition, AnyCondition, NotCondition, SequenceCondition):
    _kind.model_rebuild()


class Guard(StrictForm):
    """What activates something, and what deactivates it."""

    activate: Condition
    deactivate: Condition | None = None
    """If left out, it is active as long as `activate` holds."""


class ValueGuard(StrictForm):
    """A value that follows a number of the newest event of a name."""

    event: Name
    field: FieldText
    factor: Bound = 1.0
    plus: Bound = 0.0
    otherwise: Annotated[float, Field(ge=0, le=1)]
    """The value until the first such event."""

    def of(self, number: float | None) -> float:
        """The value for that number, or for none yet."""
        return self.otherwise if number is None else min(1.0, max(0.0, self.factor * number + self.plus))


def minute_of(text: str) -> int:
    """A time of day in minutes.

    >>> minute_of("22:30")
    1350
    """
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


@lru_cache(maxsize=1_000)
def minutes_of(clock: ClockTimes) -> frozenset[int]:
    """The minutes of the week that are within some times, from Monday on."""
    start, end = minute_of(clock.from_), minute_of(clock.to)
    length = end - start if end >= start else end + MINUTES_OF_DAY - start
    week = len(DAYS) * MINUTES_OF_DAY
    return frozenset(
        (DAYS.index(day) * MINUTES_OF_DAY + start + minute) % week for day in clock.days for minute in range(length)
    )


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that a condition joins."""
    if isinstance(condition, AllCondition | AnyCondition | SequenceCondition):
        return condition.parts
    return (condition.part,) if isinstance(condition, NotCondition) else ()


Place = tuple[str | int, ...]

_JOINING = {AllCondition: "all", AnyCondition: "any", SequenceCondition: "sequence"}


def conditions_of(guard: Guard, at: Place) -> Iterator[tuple[Place, Condition]]:
    """Every condition of a guard at some place, with its own place."""
    for side, condition in (("activate", guard.activate), ("deactivate", guard.deactivate)):
        if condition is not None:
            yield from _inside(condition, (*at, side))


def feedback_in(condition: Condition) -> list[MetricCondition]:
    """What of a condition, or within it, is on a metric that changes with the choice."""
    return [
        inside
        for _, inside in _inside(condition, ())
        if isinstance(inside, MetricCondition) and inside.metric in FEEDBACK
    ]


def _inside(condition: Condition, at: Place) -> Iterator[tuple[Place, Condition]]:
    yield at, condition
    if isinstance(condition, NotCondition):
        yield from _inside(condition.part, (*at, "not"))
    elif isinstance(condition, AllCondition | AnyCondition | SequenceCondition):
        for number, part in enumerate(condition.parts):
            yield from _inside(part, (*at, _JOINING[type(condition)], number))


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
        empty = any(bound.is_empty for bound in bounds.values()) or not all(minutes.values())
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
        return any(feedback_in(condition) for condition, _ in self.literals) or any(
            key.metric in FEEDBACK for key in self.bounds
        )

    def is_apart(self, other: "Case") -> bool:
        """Whether there is a gap between two, so that a small change does not lead from one into the other."""
        for key in self.bounds.keys() & other.bounds.keys():
            distance = self.bounds[key].distance(other.bounds[key])
            if distance > 0 or (key.metric not in FEEDBACK and self.bounds[key].meet(other.bounds[key]).is_empty):
                return True
        return any(not self.minutes[zone] & other.minutes[zone] for zone in self.minutes.keys() & other.minutes.keys())


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
            impossible = holds and not all(cases_of(part) for part in condition.parts)
            return () if impossible else (_literal(condition, holds=holds),)
        case AllCondition() | AnyCondition():
            parts = [cases_of(part, holds=holds) for part in condition.parts]
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
    bounds = allowed.meet(_RANGES.get(condition.metric, _ANY))
    literals = frozenset({(condition, True)}) if condition.for_s is not None else frozenset()
    return () if bounds.is_empty else (Case(bounds={key: bounds}, literals=literals),)


def _literal(condition: Condition, *, holds: bool) -> Case:
    return Case(literals=frozenset({(condition, holds)}))


def _all(parts: list[tuple[Case, ...]]) -> tuple[Case, ...]:
    cases: tuple[Case, ...] = (Case(),)
    for part in parts:
        cases = _bounded(tuple(met for one, other in product(cases, part) if (met := one.meet(other)) is not None))
    return cases


def _bounded(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    if len(cases) > MOST_CASES:
        raise TooManyCases
    return cases
