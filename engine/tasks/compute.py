"""Computation for its own sake: known work per event."""

import re
from functools import cache
from typing import Annotated

from pydantic import ConfigDict, Field, create_model

from dags import Config, Kind, Namespace, Schema, Schemas, State, TaskType


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
_MOST_JOINED = 1_000
_COUNTED = re.compile(r"opmw-join:([1-9][0-9]{0,3}):.+", re.DOTALL)


class JoinStepConfig(StepConfig):
    """The parameters of a step that joins its inputs."""

    inputs: Annotated[int, Field(ge=2, le=_MOST_JOINED)] = 2
    """How many input ports it has; the number in the type's name, and no other."""


def join_ports(count: int) -> tuple[str, ...]:
    """The input ports of a step that joins so many inputs.

    >>> join_ports(2)
    ('in1', 'in2')
    """
    return tuple(f"in{number}" for number in range(1, count + 1))


@cache
def _join_config(count: int) -> type[JoinStepConfig]:
    only = Annotated[int, Field(ge=count, le=count)]
    return create_model(f"JoinStepConfig{count}", __base__=JoinStepConfig, inputs=(only, count))


def join_step_type(name: str, count: int | None = None) -> TaskType[JoinStepConfig]:
    """The type of a workflow template's steps that join so many inputs, by its full name; without a count, of all."""
    return TaskType(
        name=name,
        summary="A step of a published workflow template that needs all its inputs. The number in the type's name says "
        "how many: `opmw-join:3:Merge` has the ports `in1`, `in2` and `in3`. The first event of each make one "
        "set, then the second of each, and so on; each complete set gives one event.",
        config=_join_config(count) if count else JoinStepConfig,
        inputs=join_ports(count or 2),
        output_schema=_pi,
        state=State.STREAM,
        unique_per_cause=False,
        selectivity="one event per complete set",
        joins=True,
    )


def join_step_name(component: str, count: int) -> str:
    """The full name of the type of steps of a component that join so many inputs."""
    return f"{_OPMW_JOIN}{count}:{component}"


def _join_resolved(name: str) -> TaskType[JoinStepConfig] | None:
    found = _COUNTED.fullmatch(name)
    count = int(found[1]) if found else 0
    return join_step_type(name, count) if 2 <= count <= _MOST_JOINED else None  # noqa: PLR2004 - one is no join


OPMW_JOIN = Namespace(_OPMW_JOIN, _join_resolved)
"""Steps that fire once per complete set of their inputs, for each number of inputs and kind of component a type."""

TYPES = (PI_VIETE, NOOP)
"""All of this family."""
