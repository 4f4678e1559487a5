"""Joins: tasks that make one event of several."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import ANY, Config, Emission, Kind, Read, Schemas, State, TaskType
from engine.tasks.stream_statistics import Key, key_reads
from engine.tasks.windows import TIME_KINDS, Milliseconds


class JoinByIdConfig(Config):
    """What makes the id, how many events it has, and how long to wait for them."""

    by: Annotated[Key, Field(min_length=1)]
    """The fields that make the id."""
    expected: Annotated[int, Field(ge=1, le=10_000)]
    """How many events there are of one id."""
    time: str = "time"
    """The field that says when an event happened."""
    observed: tuple[str, ...] = ()
    """Where each event is one measurement: the names of those that become fields of the joined event."""
    field: str = "field"
    """The field that names a measurement; read where any are observed."""
    value: str = "value"
    """The field that holds it; read where any are observed."""
    expiry_ms: Milliseconds = 60_000
    """How long, in event time, an id waits for all of its events."""
    most_waiting: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """How many ids wait at once; for one more, the one that has waited longest is given up."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.observed:
            for name in self.by:
                if name in {self.field, self.value, *self.observed}:
                    raise ValueError(f"the id's field {name!r} is that of a measurement too; an id needs its own")
        return self


def _reads(config: JoinByIdConfig) -> tuple[Read, ...]:
    measurement = (
        Read(at="field", field=config.field, kinds=frozenset({Kind.STRING})),
        Read(at="value", field=config.value, kinds=ANY),
    )
    return (
        *key_reads(config),
        Read(at="time", field=config.time, kinds=TIME_KINDS),
        *(measurement if config.observed else ()),
    )


def _joined(config: JoinByIdConfig, inputs: Schemas) -> Schemas:
    schema = inputs["in"]
    if config.observed:
        kind = schema.fields[config.value]
        schema = schema.without(config.field).without(config.value)
        for name in config.observed:
            schema = schema.plus(name, kind)
    return {"out": schema, "expired": schema}


JOIN_BY_ID = TaskType(
    name="join_by_id",
    summary="Merges the events of an id into one when all that are expected are there. Of a field that several have, "
    "the first value that is not null counts. Events that are measurements become fields. What is given up "
    "incomplete leaves by the port `expired`.",
    selectivity="one event per `expected` events of an id",
    gathers="expected",
    config=JoinByIdConfig,
    outputs=("out", "expired"),
    reads=_reads,
    output_schema=_joined,
    # How long an id has waited is told by the events of all ids.
    state=State.STREAM,
    emission=Emission.MANY,
)
"""All that belongs to one message."""

TYPES = (JOIN_BY_ID,)
"""All of this family."""
