"""Loads: the number of tasks of each kind in a replay, and their work. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from dags import AnyTaskType, Dataflow
from merge import Amount, Change, Instance, TaskCounts, Weighed, counted, numbered, works
from workloads.workload import Workload

Cost: TypeAlias = Callable[[Weighed], Amount]
"""The work that an event is for a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The count and the work of some tasks; without arguments, of none."""

    counts: TaskCounts = field(default_factory=TaskCounts)
    work: Fraction = field(default_factory=Fraction)

    def plus(self, more: "Load") -> "Load":
        """The sum of both."""
        return Load(counts=self.counts.plus(more.counts), work=self.work + more.work)

    def minus(self, less: "Load") -> "Load":
        """The difference."""
        return Load(counts=self.counts.minus(less.counts), work=self.work - less.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """The rates and costs by which tasks are weighed; made by `scales_of`."""

    arriving: Mapping[str, Fraction]
    """Events per second of each source."""
    cost: Cost

    def load(self, dataflow: Dataflow) -> Load:
        """The load of a dataflow by itself."""
        return _together([task.type for task in dataflow.tasks], self._works(dataflow).values())

    def loads(self, dataflow: Dataflow, change: Change) -> dict[Instance, Load]:
        """The load of each task that the submission of a dataflow starts."""
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
        """The rate of a source; a task that generates events counts as one a second."""
        return self.arriving[source.config["source"]] if source.type.reads_source else Fraction(1)


def scales_of(workload: Workload, *, rate: float, cost: Cost) -> Scales:
    """The scales of a workload; `rate` is a factor on the rates of its sources."""
    arriving = {each.name: Fraction(each.per_second) * Fraction(rate) for each in workload.sources}
    return Scales(arriving=arriving, cost=cost)


def _together(kinds: list[AnyTaskType], work: Iterable[Fraction]) -> Load:
    return Load(counts=counted(kinds), work=sum(work, Fraction()))
