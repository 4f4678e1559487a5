"""Computation for its own sake: known work per event."""

from typing import Annotated

from pydantic import ConfigDict, Field

from dags import Config, Kind, Namespace, Ports, Schema, Schemas, State, TaskType
from dags.ports import MOST_PORTS


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

_OPMW_JOIN = "opmw-join:"


class JoinStepConfig(StepConfig):
    """The parameters of a step that joins its inputs."""

    inputs: Annotated[int, Field(ge=2, le=MOST_PORTS)]
    """How many input ports it has: `in1`, `in2`, and so on."""


def join_ports(count: int) -> tuple[str, ...]:
    """The input ports of a step that joins so many inputs.

    >>> join_ports(2)
    ('in1', 'in2')
    """
    return tuple(f"in{number}" for number in range(1, count + 1))


def _joined(config: JoinStepConfig) -> Ports:
    return Ports(inputs=join_ports(config.inputs))


def join_step_type(name: str) -> TaskType[JoinStepConfig]:
    """The type of a workflow template's steps that join their inputs, by its full name."""
    return TaskType(
        name=name,
        summary="A step of a published workflow template that needs all its inputs. The first event of each make one "
        "set, then the second of each, and so on; each complete set gives one event.",
        config=JoinStepConfig,
        ports=_joined,
        output_schema=_pi,
        state=State.STREAM,
        unique_per_cause=False,
        selectivity="one event per complete set",
        joins=True,
    )


def _join_resolved(name: str) -> TaskType[JoinStepConfig] | None:
    return join_step_type(name) if name != _OPMW_JOIN else None


OPMW_JOIN = Namespace(_OPMW_JOIN, _join_resolved)
"""Steps that fire once per complete set of their inputs, each kind of component a type of its own."""

TYPES = (PI_VIETE, NOOP)
"""All of this family."""
