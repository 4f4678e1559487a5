"""Statistics over the events of a stream."""

from typing import Annotated

from pydantic import Field

from dags import NUMBER, Config, Kind, Read, Schemas, State, TaskType


class BlockWindowAverageConfig(Config):
    """The field to average, in blocks of so many events for each key."""

    field: str
    by: tuple[str, ...] = ()
    """The fields that make the key; none for one window over the whole stream."""
    window: Annotated[int, Field(ge=1)] = 10


def _average(config: BlockWindowAverageConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus(config.field, Kind.FLOAT)}


BLOCK_WINDOW_AVERAGE = TaskType(
    name="block_window_average",
    config=BlockWindowAverageConfig,
    reads=lambda config: (
        Read(at="field", field=config.field, kinds=NUMBER),
        *(Read(at=f"by/{i}", field=key) for i, key in enumerate(config.by)),
    ),
    output_schema=_average,
    state=State.KEY,
    key_fields=lambda config: config.by,
)
"""The mean of every block of events, for each key."""


class CountConfig(Config):
    """What to count by."""

    by: tuple[str, ...] = ()
    """The fields that make the key; none to count the whole stream."""


def _count(config: CountConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus("count", Kind.INTEGER)}


COUNT = TaskType(
    name="count",
    config=CountConfig,
    reads=lambda config: tuple(Read(at=f"by/{i}", field=key) for i, key in enumerate(config.by)),
    output_schema=_count,
    state=State.KEY,
    key_fields=lambda config: config.by,
)
"""How many events there were so far, for each key, at every event."""
