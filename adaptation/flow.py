"""The flow of a dynamic dataflow in numbers: what enters its tasks, and the cores that they need for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from adaptation.documents import DynamicDocument, Selection
from adaptation.guards import ValueGuard

ONLY = ""
"""The name of the only alternate of a plain task."""
_MICROSECONDS = 1_000_000


class TaskMeasure(NamedTuple):
    """What was measured of a task: core-seconds an event, and events out for one in. None if it was not."""

    cost: float | None = None
    selectivity: float | None = None


class FlowAlternate(NamedTuple):
    """An alternate in numbers."""

    cost: float
    """Core-seconds an event."""
    selectivity: float
    value: float
    """How good its results are, where the best of its task counts 1."""


class FlowEdge(NamedTuple):
    """A stream into a task."""

    parent: int
    stream: str | None
    """Its name if it has a guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTask:
    """A task in numbers."""

    id: str
    feeds: tuple[FlowEdge, ...]
    alternates: Mapping[str, FlowAlternate]
    """By name; a plain task has one, which is named `ONLY`."""
    rate: float = 0.0
    """Events a second that it makes itself, as a source."""

    @property
    def is_dynamic(self) -> bool:
        """Whether there is something to choose."""
        return ONLY not in self.alternates


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    """The tasks of a dataflow, each after those that feed it; made by `flow_of`."""

    tasks: tuple[FlowTask, ...]

    @property
    def dynamic(self) -> tuple[int, ...]:
        """The positions of the tasks with alternates."""
        return tuple(at for at, task in enumerate(self.tasks) if task.is_dynamic)

    def chosen(self, alternates: Mapping[str, str]) -> list[FlowAlternate]:
        """The alternate of each task."""
        return [task.alternates[alternates[task.id] if task.is_dynamic else ONLY] for task in self.tasks]

    def entering(self, chosen: Sequence[FlowAlternate], opened: Mapping[str, bool]) -> list[float]:
        """Events a second into each task."""
        leaving: list[float] = []
        rates: list[float] = []
        for task, alternate in zip(self.tasks, chosen, strict=True):
            fed = sum(leaving[feed.parent] for feed in task.feeds if is_open(feed, opened))
            rates.append(fed + task.rate)
            leaving.append(rates[-1] * alternate.selectivity)
        return rates

    def need(self, choice: Selection) -> float:
        """The cores that a selection needs."""
        chosen = self.chosen(choice.alternates)
        rates = self.entering(chosen, choice.opened)
        return sum(rate * alternate.cost for rate, alternate in zip(rates, chosen, strict=True))

    def part_of_need(self, choice: Selection, users: Mapping[str, int]) -> float:
        """The part of its need that falls to it, if each task's falls in equal parts to so many dataflows."""
        chosen = self.chosen(choice.alternates)
        rates = self.entering(chosen, choice.opened)
        needs = [rate * alternate.cost for rate, alternate in zip(rates, chosen, strict=True)]
        own = sum(need / users.get(task.id, 1) for need, task in zip(needs, self.tasks, strict=True))
        return own / sum(needs) if sum(needs) else 1.0

    def value(self, alternates: Mapping[str, str]) -> float:
        """The mean value of the tasks with alternates; 1 if there are none."""
        values = [task.alternates[alternates[task.id]].value for task in self.tasks if task.is_dynamic]
        return sum(values) / len(values) if values else 1.0


def is_open(feed: FlowEdge, opened: Mapping[str, bool]) -> bool:
    """Whether events pass on a stream."""
    return feed.stream is None or opened[feed.stream]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFigures:
    """What is known of a dataflow besides its document; made by who observes it."""

    rates: Mapping[str, float] = field(default_factory=dict)
    """Events a second of source tasks, by id: those observed, or a higher forecast."""
    measured: Mapping[tuple[str, str], TaskMeasure] = field(default_factory=dict)
    """By task and alternate, which is `ONLY` for a plain task."""
    numbers: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """The newest numbers for value guards, by event and field."""


_NOT_MEASURED = TaskMeasure()
_PASSES_ON = FlowAlternate(cost=0.0, selectivity=1.0, value=1.0)
_NO_FIGURES = FlowFigures()


def flow_of(dynamic: DynamicDocument, figures: FlowFigures = _NO_FIGURES) -> FlowGraph:
    """A document in numbers: declared ones, where nothing was measured.

    A plain task that was not measured costs nothing and passes on what it gets.
    """
    names = {stream.at: stream.name for stream in dynamic.streams.values()}
    into: dict[str, list[tuple[str, str | None]]] = {task: [] for task in dynamic.ids}
    for at, stream in enumerate(dynamic.written["streams"]):
        if stream["from"] in into and stream["to"] in into:
            into[stream["to"]].append((stream["from"], names.get(at)))
    parents = {task: [parent for parent, _ in streams] for task, streams in into.items()}
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        raise ValueError("the document has a cycle, so nothing can be said of what flows in it") from error
    positions = {task: at for at, task in enumerate(order)}
    return FlowGraph(
        tasks=tuple(
            FlowTask(
                id=task,
                feeds=tuple(FlowEdge(positions[parent], name) for parent, name in into[task]),
                alternates=_alternates(task, dynamic, figures),
                rate=figures.rates.get(task, 0.0),
            )
            for task in order
        )
    )


def _alternates(task: str, dynamic: DynamicDocument, figures: FlowFigures) -> Mapping[str, FlowAlternate]:
    if task not in dynamic.tasks:
        return {ONLY: _measured(_PASSES_ON, figures.measured.get((task, ONLY), _NOT_MEASURED))}
    known = dynamic.tasks[task].alternates
    values = {name: _value(alternate.value, figures.numbers) for name, alternate in known.items()}
    best = max(values.values(), default=0.0) or 1.0
    return {
        name: _measured(
            FlowAlternate(alternate.cost / _MICROSECONDS, alternate.selectivity, values[name] / best),
            figures.measured.get((task, name), _NOT_MEASURED),
        )
        for name, alternate in known.items()
    }


def _value(guard: ValueGuard | float, numbers: Mapping[tuple[str, str], float]) -> float:
    return guard.of(numbers.get((guard.event, guard.field))) if isinstance(guard, ValueGuard) else guard


def _measured(declared: FlowAlternate, measured: TaskMeasure) -> FlowAlternate:
    return declared._replace(
        cost=declared.cost if measured.cost is None else measured.cost,
        selectivity=declared.selectivity if measured.selectivity is None else measured.selectivity,
    )
