"""Sources, outputs, tasks that do nothing, and tasks that compute a known amount for measurements."""

from typing import Annotated

from pydantic import ConfigDict, Field

from dags import Config, FieldFates, Kind, Namespace, NamesSource, Ports, Schema, Schemas, State, StateFate, TaskType
from dags.outputs import DeliveringConfig, fields_delivered
from dags.task_type import MOST_PORTS, sets_nothing

_SOURCE = TaskType(
    name="source",
    summary="Begins a dataflow with the events of a registered source.",
    config=NamesSource,
    inputs=(),
    selectivity="all events of the source",
)


class OutputConfig(DeliveringConfig):
    """How the events are delivered. It has no effect on sharing."""


OUTPUT = TaskType(
    name="output",
    summary="Ends a dataflow: its events are delivered on the dataflow's own topic.",
    config=OutputConfig,
    reads=fields_delivered,
    sets=sets_nothing,
    outputs=(),
    selectivity="delivers all",
)
"""The dataflow's output. Delivery is per dataflow, so the task itself has no effect and may be shared."""


class PiVieteConfig(Config):
    """The amount of work."""

    iterations: Annotated[int, Field(ge=1, le=10_000)] = 1_600
    """The factors of the product. The work grows with their square: 10,000 take about 0.3 s for an event."""


def _pi(_config: Config, _inputs: Schemas) -> Schemas:
    return {"out": Schema.of(pi=Kind.FLOAT)}


PI_VIETE = TaskType(
    name="pi_viete",
    version=2,
    summary="Computes pi by Viète's product of nested square roots for every event: a known amount of work, for "
    "measurements.",
    config=PiVieteConfig,
    sets=lambda _config: ("pi",),
    output_schema=_pi,
)


class NoopConfig(Config):
    """No settings."""


NOOP = TaskType(name="noop", summary="Passes every event on unchanged.", config=NoopConfig, sets=sets_nothing)


class StepConfig(PiVieteConfig):
    """The parameters of a workflow's step. Any are allowed, but only the number of iterations has an effect."""

    model_config = ConfigDict(extra="allow")


def step_type(name: str) -> TaskType[StepConfig]:
    """The type of a workflow template's steps, by its full name."""
    return TaskType(
        name=name,
        summary="A step of a published workflow template. Every step computes pi, like `pi_viete`.",
        config=StepConfig,
        sets=lambda _config: ("pi",),
        output_schema=_pi,
    )


OPMW = Namespace("opmw:", lambda name: step_type(name) if name != "opmw:" else None)


class JoinStepConfig(StepConfig):
    """The parameters of a step that joins its inputs."""

    inputs: Annotated[int, Field(ge=2, le=MOST_PORTS)]
    """The number of input ports: `in1`, `in2`, and so on."""


def join_ports(count: int) -> tuple[str, ...]:
    """The input ports of a step that joins `count` inputs.

    >>> join_ports(2)
    ('in1', 'in2')
    """
    return tuple(f"in{number}" for number in range(1, count + 1))


def join_step_type(name: str) -> TaskType[JoinStepConfig]:
    """The type of a workflow template's steps that join their inputs, by its full name."""
    return TaskType(
        name=name,
        summary="A step of a published workflow template that needs all its inputs. The first events of all inputs "
        "make one set, the second events the next, and so on. It emits one event per complete set.",
        config=JoinStepConfig,
        ports=lambda config: Ports(inputs=join_ports(config.inputs)),
        output_schema=_pi,
        state=State.STREAM,
        state_change=FieldFates(StateFate.KEPT, inputs=None),
        selectivity="one event per complete set",
        joins=True,
    )


OPMW_JOIN = Namespace("opmw-join:", lambda name: join_step_type(name) if name != "opmw-join:" else None)
