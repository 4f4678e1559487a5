"""Estimates: how busy each task of a dataflow would keep its job, from what was measured of tasks like it.

A running task has its own figures. A task that would start takes the mean cost of its type, times the events that its
sources send. What was not measured is assumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dags import Dataflow, Key
from merge.task import Instance
from merge.work import declared, flows, numbered

EVENT_SECONDS = 20e-6
"""Seconds of CPU that an event is assumed to cost a task whose type was never measured."""
ASSUMED_BUSY = 2.0**-10
"""The part of each second that a task is assumed to work where no rate is known. A power of two: sums are exact."""
LEAST_BUSY = 2.0**-11
"""The least that a task counts for: it costs something in each batch, even one without events."""
_GRAIN = 2.0**-20
"""Placed tasks count in multiples of this, so that sums are exact in any order."""


class Basis(StrEnum):
    """The ground of an estimate, best first."""

    MEASURED = "measured"
    """The CPU and the events of the task itself, where it runs already."""
    TYPE = "type"
    """The mean cost of an event to tasks of its type, and the rate of its sources."""
    ASSUMED = "assumed"


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
    found: list[frozenset[str]] = []
    for task in dataflow.tasks:
        if task.type.is_source:
            # The rate of a task that makes its events itself is never known.
            found.append(frozenset({task.config["source"] if task.type.reads_source else ""}))
        else:
            found.append(frozenset[str]().union(*(found[edge.parent] for edge in task.inputs)))
    return found


def _taken(dataflow: Dataflow, instances: Sequence[Instance | None], measured: MeasuredCosts) -> tuple[float, ...]:
    """The events that each task takes in a second; an unknown source sends one."""
    rates, selectivity = dict[Key, float](), dict[Key, Fraction]()
    for task, instance in zip(dataflow.tasks, instances, strict=True):
        if task.type.is_source:
            rates[task.key] = measured.rates.get(task.config["source"], 1.0) if task.type.reads_source else 1.0
        elif instance is not None and instance in measured.selectivity:
            selectivity[task.key] = measured.selectivity[instance] / max(1, len(task.type.outputs))
    found = flows(
        numbered(dataflow), lambda task: rates[task.key], lambda task: selectivity.get(task.key, declared(task))
    )
    return tuple(float(each.taken) for each in found.values())
