"""Windows over the time that events tell."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, Emission, Kind, Read, Schema, Schemas, State, TaskType
from engine.tasks.stream_statistics import Key, key_reads

AGGREGATES = ("count", "sum", "mean", "min", "max")
TIME_KINDS = frozenset({Kind.TIMESTAMP})
Milliseconds = Annotated[int, Field(ge=1, le=366 * 86_400_000)]


class TumblingWindowConfig(Config):
    """Which number to sum up, by which field's time, and over how long."""

    time: str
    """The field that says when an event happened."""
    field: str
    """The number to sum up."""
    by: Key = ()
    size_ms: Milliseconds = 60_000
    """How long a window is; windows lie side by side from 1970 on."""
    lateness_ms: Annotated[int, Field(ge=0, le=366 * 86_400_000)] = 0
    """How long, in event time, a window waits for events that come out of order."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        taken = {"window_start", "window_end", *AGGREGATES}
        for field in self.by:
            if field in taken:
                raise ValueError(f"the key's field {field!r} has the name of what a window emits; rename it upstream")
        return self


def _summed_up(config: TumblingWindowConfig, inputs: Schemas) -> Schemas:
    kinds = dict.fromkeys(AGGREGATES, Kind.FLOAT) | {"count": Kind.INTEGER}
    whole = Schema.of(window_start=Kind.TIMESTAMP, window_end=Kind.TIMESTAMP, **kinds)
    for name, kind in inputs["in"].only(config.by).fields.items():
        whole = whole.plus(name, kind)
    return {"out": whole, "late": inputs["in"]}


TUMBLING_WINDOW = TaskType(
    name="tumbling_window",
    summary="Sums up a field in windows of event time, for each key: count, sum, mean, min, max of what is not null. A "
    "window is emitted when an event comes that is `lateness_ms` later than its end; whatever comes for it "
    "after that leaves by the port `late`.",
    selectivity="one event per window and key; late events pass on by a port of their own",
    config=TumblingWindowConfig,
    outputs=("out", "late"),
    reads=lambda config: (
        Read(at="time", field=config.time, kinds=TIME_KINDS),
        Read(at="field", field=config.field, kinds=NUMBER),
        *key_reads(config),
    ),
    output_schema=_summed_up,
    # What has been the latest event is told by all keys together.
    state=State.STREAM,
    emission=Emission.MANY,
)
"""Sums of what happened in a while."""

TYPES = (TUMBLING_WINDOW,)
"""All of this family."""
