"""Task types of the benchmark: expensive inference with a state per user, a step without state, and a split."""

from typing import Annotated

from pydantic import Field

from dags import Config, Emission, FieldFates, Kind, Resized, Schemas, State, StateFate, TaskType


class WorkConfig(Config):
    """The work for each event."""

    work: Annotated[int, Field(ge=0)] = 0
    """Turns of a loop for each event."""
    generation: int = 0
    """What reconfigurations change. It is written into the field named below."""
    stamp: str = "generation"
    """The field that gets the generation."""


def _stamped(config: WorkConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(config.stamp, Kind.INTEGER)}


STEP = TaskType(name="bench:step", config=WorkConfig, output_schema=_stamped, sets=lambda config: (config.stamp,))
"""Passes events on after some work, as the probe of a join, a filter or a projection does."""


class InferenceConfig(WorkConfig):
    """The work for each event, and the number of recent events that it is about."""

    window: Annotated[int, Field(ge=1)] = 10
    """The amounts that are kept of each user."""


def _scored(config: InferenceConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(config.stamp, Kind.INTEGER).plus("score", Kind.FLOAT)}


INFERENCE = TaskType(
    name="bench:inference",
    config=InferenceConfig,
    output_schema=_scored,
    sets=lambda config: (config.stamp, "score"),
    state=State.KEY,
    key_fields=lambda _config: ("user",),
    state_change=FieldFates(
        window=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED),
        work=StateFate.KEPT,
        generation=StateFate.KEPT,
    ),
)
"""Scores each payment by the last amounts of its user, as a model would."""


SPLIT = TaskType(name="bench:split", config=WorkConfig, output_schema=_stamped, emission=Emission.MANY)
"""Makes two events of each, as unnesting a list of payments does."""

BENCH_TYPES = (STEP, INFERENCE, SPLIT)
