"""Loads: how many tasks of each kind there are in a replay, and how much work they do. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from dags import AnyTaskType, Dataflow
from merge import Amount, Change, Instance, TaskCounts, Weighed, counted, numbered, works
from workloads.workload import Workload

Cost: TypeAlias = Callable[[Weighed], Amount]
"""How much work an event is for a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What some tasks are together; begin with the empty one, of none."""

    counts: TaskCounts = field(default_factory=TaskCounts)
    work: Fraction = field(default_factory=Fraction)

    def plus(self, more: "Load") -> "Load":
        """Both together."""
        return Load(counts=self.counts.plus(more.counts), work=self.work + more.work)

    def minus(self, less: "Load") -> "Load":
        """This one without what is part of it."""
        return Load(counts=self.counts.minus(less.counts), work=self.work - less.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Weighs the tasks of a workload's dataflows; made by `scales_of`."""

    arriving: Mapping[str, Fraction]
    """The events a second of each source."""
    cost: Cost

    def load(self, dataflow: Dataflow) -> Load:
        """The load of a dataflow by itself."""
        return _together([task.type for task in dataflow.tasks], self._works(dataflow).values())

    def loads(self, dataflow: Dataflow, change: Change) -> dict[Instance, Load]:
        """The load of each task that a dataflow starts when it is submitted."""
        work, starts = self._works(dataflow), set(change.residue)
        places = {} if change.submitted is None else change.submitted.places
        return {
            places[task]: _together([dataflow.tasks[place].type], [work[place]])
            for task, place in dataflow.places.items()
            if places[task] in starts
        }

    def _works(self, dataflow: Dataflow) -> dict[int, Fraction]:
        return works(numbered(dataflow), self._arriving, cost=self.cost)

    def _arriving(self, source: Weighed) -> Fraction:
        """What makes its events itself is taken to give one a second."""
        return self.arriving[source.config["source"]] if source.type.reads_source else Fraction(1)


def scales_of(workload: Workload, *, rate: float, cost: Cost) -> Scales:
    """The scales of a workload whose sources send as often as it says, times `rate`."""
    arriving = {each.name: Fraction(each.per_second) * Fraction(rate) for each in workload.sources}
    return Scales(arriving=arriving, cost=cost)


def _together(kinds: list[AnyTaskType], work: Iterable[Fraction]) -> Load:
    return Load(counts=counted(kinds), work=sum(work, Fraction()))
