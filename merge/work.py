"""The work of tasks: the events that each takes in a second, times the cost of one.

Rates start at the sources and go down: a task with several inputs interleaves them, so their rates add up, and an edge
counts as often as it is there. A signature covers all ancestors, so a task takes the same events in every dataflow that
has it. Therefore the work of a dataflow alone and the work of what runs are sums over the same numbers.

Numbers are fractions, and exact for the rates and costs given. Sums that are kept up by adding what starts and taking
away what stops do not drift. Everything here takes time in proportion to the tasks and streams.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, TypeVar

from dags import AnyTaskType, Dataflow, Input, Task

Amount: TypeAlias = Fraction | int | float
"""A rate, cost or selectivity as a caller has it; taken as the exact number that it is."""


class Weighed(Protocol):
    """A task whose work can be asked for: one of a dataflow, or a running one."""

    @property
    def type(self) -> AnyTaskType:
        """Its type."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The streams that enter it."""

    @property
    def config(self) -> dict[str, Any]:
        """Its canonical config."""


T = TypeVar("T", bound=Weighed)
N = TypeVar("N", bound=int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The events through a task in a second; made by `flows`."""

    taken: Fraction
    """Events that it takes; of a source, those that arrive."""
    given: Fraction
    """Events that leave each of its output ports."""


def declared(task: Weighed) -> Amount:
    """The selectivity of a task as its type declares it: one event of as many as it gathers, and else one for one."""
    kind = task.type
    return Fraction(1, task.config[kind.gathers]) if kind.gathers else 1


def each_step(task: Weighed) -> Amount:
    """Cost of 1 for an event at a step, and nothing at a source or an output: work is events times steps.

    Near what a task costs here: a source hands on what its spool holds, and an output what its task made.
    """
    return 0 if task.type.is_source or task.type.is_sink else 1


def each_task(_task: Weighed) -> Amount:
    """Cost of 1 for an event at any task, sources and outputs included, as where each task is a thread of its own."""
    return 1


def flows(
    tasks: Mapping[N, T], arriving: Callable[[T], Amount], selectivity: Callable[[T], Amount] = declared
) -> dict[int, Flow]:
    """The flow through each task, by the numbers with which inputs name their parents; parents come first.

    `arriving` gives the events a second of a source, `selectivity` how many events leave a task for one that it takes.
    """
    found: dict[int, Flow] = {}
    for number, task in tasks.items():
        if task.type.is_source:
            taken = Fraction(arriving(task))
        else:
            streams = [(edge.port, edge.times * found[edge.parent].given) for edge in task.inputs]
            taken = fired(task.type, streams)
        found[number] = Flow(taken=taken, given=taken * Fraction(selectivity(task)))
    return found


def fired(kind: AnyTaskType, streams: Sequence[tuple[str, Fraction]]) -> Fraction:
    """The times in a second that a task of a type works, given the port and the rate of each stream that enters it.

    Streams interleave, and every event makes it work; a task that joins works once for each complete set.

    >>> from dataclasses import replace
    >>> from dags import Config, TaskType
    >>> streams = [("in1", Fraction(2)), ("in2", Fraction(3)), ("in2", Fraction(1))]
    >>> step = TaskType(name="step", config=Config, inputs=("in1", "in2"), output_schema=lambda _config, _inputs: {})
    >>> str(fired(step, streams)), str(fired(replace(step, joins=True), streams))
    ('6', '2')
    """
    if not kind.joins:
        return sum((rate for _, rate in streams), Fraction())
    ports = dict.fromkeys(kind.inputs, Fraction())
    for port, rate in streams:
        ports[port] += rate
    return min(ports.values())


def works(
    tasks: Mapping[N, T],
    arriving: Callable[[T], Amount],
    *,
    cost: Callable[[T], Amount],
    selectivity: Callable[[T], Amount] = declared,
) -> dict[int, Fraction]:
    """The work of each task: what it takes in a second times the `cost` of an event.

    Services pass the CPU seconds that they measured for an event, replays `each_step`; `each_task` is the paper's view.
    """
    passing = flows(tasks, arriving, selectivity)
    return {number: passing[number].taken * Fraction(cost(task)) for number, task in tasks.items()}


def numbered(dataflow: Dataflow) -> dict[int, Task]:
    """The distinct tasks of a dataflow as `flows` and `works` take them; those of a running graph are so already."""
    return dict(enumerate(dataflow.tasks))


def work_saved(running: Amount, alone: Amount) -> float | None:
    """The part of the work that need not be done because tasks are shared, rounded once to the nearest float.

    `alone` is the sum over all dataflows of the work of their distinct tasks, `running` that of all that runs.

    >>> work_saved(6, 8), work_saved(0, 0)
    (0.25, None)
    """
    return float(1 - Fraction(running) / Fraction(alone)) if alone else None
