"""The work of tasks: the events that each takes in a second, times the cost of one; declared or estimated.

Rates go down from the sources; a task with several inputs interleaves them, so their rates add up, and an edge counts
as often as it is there. A signature covers all ancestors, so a task takes the same events in every dataflow that has
it, and work alone and work that runs are sums over the same numbers. These are fractions, so that sums which are kept
up by adding what starts and taking away what stops do not drift.

An estimate says how busy a task would keep its job, from what was measured of it or of tasks of its type, times the
events that its sources send. What was not measured is assumed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, TypeVar

from dags import AnyTaskType, Dataflow, Key, Task
from dags.vocabulary import Basis
from merge.tasks import Instance, RunningTask

Amount: TypeAlias = Fraction | int | float
"""A rate, cost or selectivity as a caller has it; taken as the exact number that it is."""


Weighed: TypeAlias = Task | RunningTask
"""A task whose work can be asked for: one of a dataflow, or a running one."""
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


def flows(
    tasks: Mapping[N, T], arriving: Callable[[T], Amount], selectivity: Callable[[T], Amount] = declared
) -> dict[int, Flow]:
    """The flow through each task, by the numbers with which inputs name their parents; parents come first.

    `arriving` gives the events a second of a source, `selectivity` how many events leave a task for one that it takes.
    """
    passing: dict[int, Flow] = {}
    for number, task in tasks.items():
        if task.type.is_source:
            taken = Fraction(arriving(task))
        else:
            streams = [(edge.port, edge.times * passing[edge.parent].given) for edge in task.inputs]
            taken = fired(task.type, streams)
        passing[number] = Flow(taken=taken, given=taken * Fraction(selectivity(task)))
    return passing


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

    Services pass the CPU seconds that they measured for an event, and replays `each_step`.
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


EVENT_SECONDS = 20e-6
"""Seconds of CPU that an event is assumed to cost a task whose type was never measured."""
ASSUMED_BUSY = 2.0**-10
"""The part of each second that a task is assumed to work where no rate is known. A power of two: sums are exact."""
LEAST_BUSY = 2.0**-11
"""The least that a task counts for: it costs something in each batch, even one without events."""
_GRAIN = 2.0**-20
"""Placed tasks count in multiples of this, so that sums are exact in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """Costs and rates as measured; begin with the empty one."""

    busy: Mapping[int, float] = field(default_factory=dict)
    """For each instance the part of each second that it works."""
    by_type: Mapping[str, float] = field(default_factory=dict)
    """For each task type the seconds of CPU for an event, over all its instances."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """For each source the events that come in a second."""
    selectivity: Mapping[int, Fraction] = field(default_factory=dict)
    """For each instance the events that leave it for one that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEstimate:
    """One task's share of a core; made by `estimated`."""

    busy: float
    basis: Basis
    known: bool
    """Whether the rates of all its sources are known."""


def estimated(
    dataflow: Dataflow, instances: Sequence[Instance | None], measured: MeasuredCosts
) -> tuple[TaskEstimate, ...]:
    """The share of each distinct task; `instances` has where it runs, and None where it would start."""
    sources = _sources_above(dataflow)
    taken = _taken(dataflow, instances, measured)
    return tuple(
        _estimate(task.type.name, instance, above, rate, measured)
        for task, instance, above, rate in zip(dataflow.tasks, instances, sources, taken, strict=True)
    )


def placed_busy(estimate: TaskEstimate) -> float:
    """The share that placement counts on."""
    if not estimate.known and estimate.basis is not Basis.MEASURED:
        return ASSUMED_BUSY
    return max(LEAST_BUSY, round(estimate.busy / _GRAIN) * _GRAIN)


def _estimate(
    type_: str, instance: Instance | None, above: frozenset[str], rate: float, measured: MeasuredCosts
) -> TaskEstimate:
    known = above <= measured.rates.keys()
    if instance is not None and instance in measured.busy:
        return TaskEstimate(busy=measured.busy[instance], basis=Basis.MEASURED, known=known)
    if not known:
        # Where no source is known each counts as one event, which shows at least where streams meet.
        times = rate if above.isdisjoint(measured.rates) else 1.0
        return TaskEstimate(busy=ASSUMED_BUSY * times, basis=Basis.ASSUMED, known=False)
    if type_ in measured.by_type:
        return TaskEstimate(busy=measured.by_type[type_] * rate, basis=Basis.TYPE, known=True)
    return TaskEstimate(busy=EVENT_SECONDS * rate, basis=Basis.ASSUMED, known=True)


def _sources_above(dataflow: Dataflow) -> list[frozenset[str]]:
    """For each task the names of the sources that it depends on."""
    sources: list[frozenset[str]] = []
    for task in dataflow.tasks:
        if task.type.is_source:
            # The rate of a task that makes its events itself is never known.
            sources.append(frozenset({task.config["source"] if task.type.reads_source else ""}))
        else:
            sources.append(frozenset[str]().union(*(sources[edge.parent] for edge in task.inputs)))
    return sources


def _taken(dataflow: Dataflow, instances: Sequence[Instance | None], measured: MeasuredCosts) -> tuple[float, ...]:
    """The events that each task takes in a second; an unknown source sends one."""
    rates, selectivity = dict[Key, float](), dict[Key, Fraction]()
    for task, instance in zip(dataflow.tasks, instances, strict=True):
        if task.type.is_source:
            rates[task.key] = measured.rates.get(task.config["source"], 1.0) if task.type.reads_source else 1.0
        elif instance is not None and instance in measured.selectivity:
            selectivity[task.key] = measured.selectivity[instance] / max(1, len(task.type.outputs))
    passing = flows(
        numbered(dataflow), lambda task: rates[task.key], lambda task: selectivity.get(task.key, declared(task))
    )
    return tuple(float(flow.taken) for flow in passing.values())
