"""Computation for its own sake: known work per event."""

from typing import Annotated

from pydantic import ConfigDict, Field

from dags import Config, Kind, Namespace, Schema, Schemas, TaskType


class PiVieteConfig(Config):
    """How much to compute."""

    iterations: Annotated[int, Field(ge=1)] = 1_600
    """Factors of the product; the work grows with their square."""


def _pi(_config: Config, _inputs: Schemas) -> Schemas:
    return {"out": Schema.of(pi=Kind.FLOAT)}


PI_VIETE = TaskType(
    name="pi_viete",
    version=2,
    summary="Computes pi by Viète's product of nested square roots, anew for every event: known work, for measuring.",
    config=PiVieteConfig,
    output_schema=_pi,
    unique_per_cause=False,
)
"""Pi by Viète's product, once per event."""


class NoopConfig(Config):
    """There is nothing to configure."""


NOOP = TaskType(name="noop", summary="Passes on every event as it is.", config=NoopConfig)
"""Passes on what it takes."""

_OPMW = "opmw:"


class StepConfig(PiVieteConfig):
    """The parameters of a workflow's step: any, of which only the number of iterations has an effect."""

    model_config = ConfigDict(extra="allow")


def step_type(name: str) -> TaskType[StepConfig]:
    """The type of a workflow template's steps, by its full name."""
    return TaskType(
        name=name,
        summary="A step of a published workflow template; computes pi as `pi_viete` does, whatever the step is.",
        config=StepConfig,
        output_schema=_pi,
        unique_per_cause=False,
    )


def _resolved(name: str) -> TaskType[StepConfig] | None:
    return step_type(name) if name != _OPMW else None


OPMW = Namespace(_OPMW, _resolved)
"""The steps of published workflow templates, each kind of component a type of its own."""

TYPES = (PI_VIETE, NOOP)
"""All of this family."""
