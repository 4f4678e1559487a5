"""Conditions and guards as they are written in JSON. They are frozen and hashable, so that states are kept by guard."""

from functools import lru_cache
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from dags.document import Name, TaskId

ENTERING_RATE = "rate"
FEEDBACK = frozenset({"throughput", "latency", "backlog", "load"})
"""Metrics that change with the choice that they guard."""
KNOWN_METRICS = frozenset({ENTERING_RATE}) | FEEDBACK
MOST_PARTS = 20
"""Of a condition that joins others."""
MINUTES_OF_DAY = 24 * 60

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
Bound = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FieldText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TimeOfDay = Annotated[str, StringConstraints(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MetricCondition(_Form):
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


class FieldTest(_Form):
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


class EventCondition(_Form):
    """A domain event has come: just now, or within some seconds."""

    event: Name
    """A name that the policy gives to an output."""
    where: FieldTest | None = None
    within: Seconds | None = None


class ClockTimes(_Form):
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


class ClockCondition(_Form):
    """The clock is within some times."""

    clock: ClockTimes


class AllCondition(_Form):
    """All of some conditions hold."""

    parts: "Parts" = Field(alias="all")


class AnyCondition(_Form):
    """At least one of some conditions holds."""

    parts: "Parts" = Field(alias="any")


class NotCondition(_Form):
    """A condition does not hold."""

    part: "Condition" = Field(alias="not")


class SequenceCondition(_Form):
    """Conditions became true one after the other, within some seconds."""

    parts: "Parts" = Field(alias="sequence")
    within: Seconds


def _tag(value: Any) -> str | None:
    """Which form a condition has."""
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


class Guard(_Form):
    """What activates something, and what deactivates it."""

    activate: Condition
    deactivate: Condition | None = None
    """If left out, it is active as long as `activate` holds."""


class ValueGuard(_Form):
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
