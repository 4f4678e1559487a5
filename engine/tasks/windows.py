"""Windows over the time of events, and joins: tasks that combine several events into one."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import ANY, NUMBER, Config, Emission, FieldFates, Kind, Read, Schema, Schemas, State, StateFate, TaskType
from engine.tasks.parse import extended
from engine.tasks.stream_statistics import Key, key_reads

AGGREGATES = ("count", "sum", "mean", "min", "max")
TIME_KINDS = frozenset({Kind.TIMESTAMP})
Milliseconds = Annotated[int, Field(ge=1, le=366 * 86_400_000)]


class TumblingWindowConfig(Config):
    """The number to summarise, its time, and the length of a window."""

    time: str
    """The field with the time of the event."""
    field: str
    """The number to summarise."""
    by: Key = ()
    size_ms: Milliseconds = 60_000
    """The length of a window. Windows follow each other without gaps, counted from 1970."""
    lateness_ms: Annotated[int, Field(ge=0, le=366 * 86_400_000)] = 0
    """The event time for which a window waits for late events."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if taken := sorted({"window_start", "window_end", *AGGREGATES} & set(self.by)):
            raise ValueError(f"the key's field {taken[0]!r} has the name of a field of the window; rename it upstream")
        return self


def _summed_up(config: TumblingWindowConfig, inputs: Schemas) -> Schemas:
    kinds = dict.fromkeys(AGGREGATES, Kind.FLOAT) | {"count": Kind.INTEGER}
    whole = Schema.of(window_start=Kind.TIMESTAMP, window_end=Kind.TIMESTAMP, **kinds)
    return {"out": extended(whole, inputs["in"].only(config.by).fields), "late": inputs["in"]}


TUMBLING_WINDOW = TaskType(
    name="tumbling_window",
    summary="Summarises a field in windows of event time, per key: count, sum, mean, min and max of its values that "
    "are not null. A window is emitted at the first event that is `lateness_ms` later than its end. Later events of "
    "the window leave at the port `late`.",
    selectivity="one event per window and key; late events leave at their own port",
    config=TumblingWindowConfig,
    outputs=("out", "late"),
    reads=lambda config: (
        Read(at="time", field=config.time, kinds=TIME_KINDS),
        Read(at="field", field=config.field, kinds=NUMBER),
        *key_reads(config),
    ),
    output_schema=_summed_up,
    # The latest time is that of all keys together.
    state=State.STREAM,
    state_change=FieldFates(lateness_ms=StateFate.KEPT),
    emission=Emission.MANY,
)


class _Ids(Config):
    """The fields of an id, and the number of its events."""

    by: Annotated[tuple[str, ...], Field(min_length=1)]
    """The fields of the id."""
    expected: Annotated[int, Field(ge=1, le=10_000)]
    """The number of events per id."""
    time: str = "time"
    """The field with the time of the event."""
    observed: tuple[str, ...] = ()
    """If each event is one measurement, the names of those that become fields of the joined event."""
    field: str = "field"
    """The field with the measurement's name. Read only if `observed` is given."""
    value: str = "value"
    """The field with the measurement's value. Read only if `observed` is given."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.observed and (both := sorted({self.field, self.value, *self.observed} & set(self.by))):
            raise ValueError(f"the field {both[0]!r} is used for both the id and a measurement; choose another")
        return self


class JoinByIdConfig(_Ids):
    """The fields of an id, the number of its events, and the time to wait for them."""

    expiry_ms: Milliseconds = 60_000
    """The event time for which an id waits for all its events."""
    most_waiting: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most ids that wait at once. For one more, the oldest expires."""


class SelfJoinConfig(_Ids):
    """The fields of an id, the number of its events, and the time for which it is remembered."""

    expiry_ms: Milliseconds = 60_000
    """The event time for which an id is remembered, whether all its events have arrived or not."""
    most_known: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most ids that are remembered at once. For one more, the oldest is forgotten."""


def _reads(config: _Ids) -> tuple[Read, ...]:
    measurement = (
        Read(at="field", field=config.field, kinds=frozenset({Kind.STRING})),
        Read(at="value", field=config.value, kinds=ANY),
    )
    return (
        *key_reads(config),
        Read(at="time", field=config.time, kinds=TIME_KINDS),
        *(measurement if config.observed else ()),
    )


def _merged(config: _Ids, inputs: Schemas) -> Schema:
    schema = inputs["in"]
    if config.observed:
        kinds = dict.fromkeys(config.observed, schema.fields[config.value])
        schema = extended(schema.without(config.field).without(config.value), kinds)
    return schema


JOIN_BY_ID = TaskType(
    name="join_by_id",
    summary="Merges the events of an id into one when all of them have arrived. For a field of several events, the "
    "first value that is not null counts. Measurements become fields. Incomplete events leave at the port `expired` "
    "after a time.",
    selectivity="one event per `expected` events of an id",
    gathers="expected",
    config=JoinByIdConfig,
    outputs=("out", "expired"),
    reads=_reads,
    output_schema=lambda config, inputs: dict.fromkeys(("out", "expired"), _merged(config, inputs)),
    # Time is that of the events of all ids.
    state=State.STREAM,
    state_change=FieldFates(expected=StateFate.KEPT, expiry_ms=StateFate.TRANSFORMED, most_waiting=StateFate.KEPT),
    keeps_events=True,
    emission=Emission.MANY,
)

SELF_JOIN = TaskType(
    name="self_join",
    summary="Merges the events of an id with the same time, which one event became on several ways, into one when all "
    "of them have arrived. Emits one event at most for an id and time, whatever else arrives. For a field of several "
    "events, the first value that is not null counts. Measurements become fields. Incomplete events are dropped.",
    selectivity="one event for the first `expected` events of an id and time",
    gathers="expected",
    config=SelfJoinConfig,
    reads=_reads,
    output_schema=lambda config, inputs: {"out": _merged(config, inputs)},
    # Time is that of the events of all ids.
    state=State.STREAM,
    state_change=FieldFates(expected=StateFate.KEPT, expiry_ms=StateFate.TRANSFORMED, most_known=StateFate.KEPT),
    keeps_events=True,
    unique_by=lambda config: (*config.by, config.time),
)
