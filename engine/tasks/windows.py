"""Windows over the time of events."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, Emission, FieldFates, Kind, Read, Schema, Schemas, State, StateFate, TaskType
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
        taken = {"window_start", "window_end", *AGGREGATES}
        for field in self.by:
            if field in taken:
                raise ValueError(f"the key's field {field!r} has the name of a field of the window; rename it upstream")
        return self


def _summed_up(config: TumblingWindowConfig, inputs: Schemas) -> Schemas:
    kinds = dict.fromkeys(AGGREGATES, Kind.FLOAT) | {"count": Kind.INTEGER}
    whole = Schema.of(window_start=Kind.TIMESTAMP, window_end=Kind.TIMESTAMP, **kinds)
    for name, kind in inputs["in"].only(config.by).fields.items():
        whole = whole.plus(name, kind)
    return {"out": whole, "late": inputs["in"]}


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
"""Summaries of windows."""

WINDOW_TYPES = (TUMBLING_WINDOW,)
