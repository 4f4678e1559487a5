"""Filters: tasks that make unwanted values null, or drop their events."""

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, Kind, Read, Schemas, TaskType
from dags.task_type import sets_nothing
from engine.tasks import expressions

Outside = Literal["drop", "null"]
"""For a value that does not pass, make a field null, as in the benchmark, or drop the event."""
FEWER = "one for one, or fewer if events are dropped"


class Range(Config):
    """Two bounds, both inclusive."""

    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is greater than max {self.max:g}")
        return self


class RangeFilterConfig(Range):
    """The bounds of one field, both inclusive."""

    field: str
    """The field that the task works on."""
    outside: Outside = "null"
    """For a value out of range, make the field null, or drop the event."""


RANGE_FILTER = TaskType(
    name="range_filter",
    summary="Makes a number null if it is not within two bounds, or drops its event.",
    config=RangeFilterConfig,
    sets=lambda config: (config.field,),
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    selectivity=FEWER,
)
"""Passes numbers in range."""


class MultiRangeFilterConfig(Config):
    """The bounds of several fields, or of several measurements in one field."""

    ranges: Annotated[dict[str, Range], Field(min_length=1)]
    """The bounds by field; with `named_by`, by the name of the measurement."""
    named_by: str | None = None
    """The field with the name of the measurement."""
    field: str | None = None
    """The field with the measured number."""
    outside: Outside = "null"
    """For a number out of range, make it null, or drop the event."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.named_by is None) != (self.field is None):
            raise ValueError("named_by and field must be given together; give both or neither")
        if self.field is not None and self.field == self.named_by:
            raise ValueError("named_by and field are the same; give the field with the name and that with the number")
        return self


def _ranged(config: MultiRangeFilterConfig) -> tuple[Read, ...]:
    if config.named_by is None or config.field is None:
        return tuple(Read(at=f"ranges/{name}", field=name, kinds=NUMBER) for name in config.ranges)
    return (
        Read(at="named_by", field=config.named_by, kinds=frozenset({Kind.STRING})),
        Read(at="field", field=config.field, kinds=NUMBER),
    )


MULTI_RANGE_FILTER = TaskType(
    name="multi_range_filter",
    summary="Makes numbers of an event null if they are not within their bounds, or drops the event.",
    config=MultiRangeFilterConfig,
    sets=lambda config: tuple(config.ranges) if config.field is None else (config.field,),
    reads=_ranged,
    selectivity=FEWER,
)
"""Passes numbers in range, field by field."""


class WhereConfig(Config):
    """The condition that events must meet."""

    expression: str

    @cached_property
    def parsed(self) -> expressions.Node:
        """The expression, parsed once."""
        return expressions.read(self.expression)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.parsed
        return self


def _suited(config: WhereConfig, inputs: Schemas) -> Schemas:
    expressions.suited(config.parsed, inputs["in"])
    return {"out": inputs["in"]}


WHERE = TaskType(
    name="where",
    summary="Keeps the events for which an expression over their fields is true.",
    config=WhereConfig,
    sets=sets_nothing,
    reads=lambda config: tuple(
        Read(at="expression", field=name) for name in dict.fromkeys(expressions.names(config.parsed))
    ),
    output_schema=_suited,
    selectivity="one for one, or none",
    # The copy keeps what was parsed, since the canonical text means the same.
    normalise=lambda config: config.model_copy(update={"expression": expressions.written(config.parsed)}),
)
"""Keeps the events that meet a condition."""


class GateConfig(Config):
    """Whether events pass."""

    open: bool = True
    """Pass every event on, or none."""


GATE = TaskType(
    name="gate",
    summary="Passes every event on unchanged while it is open, and none while it is closed.",
    config=GateConfig,
    sets=sets_nothing,
    selectivity="one for one, or none",
)
"""Opens and closes a path."""

FILTER_TYPES = (
    RANGE_FILTER,
    MULTI_RANGE_FILTER,
    WHERE,
    GATE,
)
