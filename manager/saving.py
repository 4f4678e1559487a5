"""What sharing saves: the cores that a dataflow's reused tasks, and a job of its own, would have taken.

Where a reused task runs, the kernel measures its CPU and its events: what it takes there, a copy of it would take too.
For one that was started just now, or has yet to start, the mean of its type stands in, times the events that come to it
from its sources. What is not known even so is assumed. A job costs something for each of its batches, whatever these
hold; a dataflow that opens no job saves that. The work saved is what the reused tasks take of what all would take.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dags import Dataflow, Key
from engine.plan import Plan
from manager.answers import Basis, Saving
from manager.committing.seen import JobSeen, Measured
from manager.figures import per_second, stream_rate
from merge import declared, flows, numbered

EVENT = 20e-6
"""Seconds of CPU that an event is taken to cost a task of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """A task of a dataflow that is not submitted yet; made for an explanation, before anything is measured of it."""

    instance: int | None
    """Where it runs; None where it would start."""
    type: str
    is_source: bool = False
    streams: frozenset[str] = frozenset()
    """The raw streams that it depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured of all that runs; made by `known`."""

    busy: Mapping[int, float] = field(default_factory=dict)
    """For each instance the part of a second that it works in a second, where it runs."""
    by_type: Mapping[str, float] = field(default_factory=dict)
    """For each type the seconds of CPU for an event, over all its instances."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """For each raw stream how many events come in a second."""
    selectivity: Mapping[int, Fraction] = field(default_factory=dict)
    """For each instance how many events leave it for one that it takes, where it runs."""


def known(prospects: Sequence[Prospect], plans: Iterable[Plan], seen: Mapping[str, JobSeen], now: float) -> Known:
    """What was measured of these tasks, their types and their streams, in the jobs of these plans."""
    instances = {each.instance for each in prospects}
    types = {each.type for each in prospects}
    streams = {stream for each in prospects for stream in each.streams}
    busy: dict[int, float] = {}
    selectivity: dict[int, Fraction] = {}
    rates: dict[str, float] = {}
    spent, taken = Counter[str](), Counter[str]()
    for plan in plans:
        job = seen.get(plan.job)
        measured = job.measured if job is not None else ()
        for slot in plan.slots if measured else ():
            if slot.type not in types:
                continue
            did = measured[-1].instances.get(slot.instance)
            if did is not None and did.taken:
                spent[slot.type] += did.cpu_ns
                taken[slot.type] += did.taken
                if slot.instance not in instances:
                    continue
                selectivity[slot.instance] = Fraction(did.emitted, did.taken)
                if (rate := _taken_per_second(measured, slot.instance, now)) is not None:
                    busy[slot.instance] = did.cpu_ns / 1e9 / did.taken * rate
        for ingress in plan.ingress:
            if ingress.stream in streams and (rate := stream_rate(measured, ingress.stream, now)) is not None:
                # A job that has just begun may have less behind it than another that reads the same.
                rates[ingress.stream] = max(rate, rates.get(ingress.stream, 0.0))
    return Known(
        busy=busy,
        by_type={name: spent[name] / 1e9 / events for name, events in taken.items()},
        rates=rates,
        selectivity=selectivity,
    )


def taken(dataflow: Dataflow, prospects: Sequence[Prospect], measured: Known) -> tuple[float, ...]:
    """How many events a second each of a dataflow's tasks would take.

    Rates of sources and selectivities of tasks that run are as measured; a source that nobody knows gives one
    event, and a task that would start gives what its type declares.
    """
    rates, selectivity = dict[Key, float](), dict[Key, Fraction]()
    for task, each in zip(dataflow.tasks, prospects, strict=True):
        if each.is_source:
            rates[task.key] = sum(measured.rates.get(stream, 1.0) for stream in each.streams)
        elif each.instance is not None and each.instance in measured.selectivity:
            selectivity[task.key] = measured.selectivity[each.instance] / max(1, len(task.type.outputs))
    found = flows(
        numbered(dataflow), lambda task: rates[task.key], lambda task: selectivity.get(task.key, declared(task))
    )
    return tuple(float(each.taken) for each in found.values())


def saving(  # noqa: PLR0913 - what a dataflow has, what is known, and what a job costs are six things
    prospects: Sequence[Prospect],
    rates: Sequence[float],
    measured: Known,
    *,
    opened: int,
    job: float,
    busy: float,
) -> Saving:
    """What a dataflow with these tasks saves, which take so many events a second, and which opens so many jobs.

    `job` is the cores that the batches of a job cost whatever they hold, and `busy` those that a task takes of which
    not even the rate of its sources is known. A source does nothing itself.
    """
    reused, every = Counter[Basis](), Counter[Basis]()
    saved = whole = 0.0
    for each, rate in zip(prospects, rates, strict=True):
        if each.is_source:
            continue
        cores, basis = _busy(each, rate, measured, busy)
        whole += cores
        every[basis] += 1
        if each.instance is not None:
            saved += cores
            reused[basis] += 1
    batches = job * max(0, 1 - opened)
    return Saving(
        tasks=sum(each.instance is not None for each in prospects),
        of_tasks=len(prospects),
        cores=round(saved + batches, 6),
        task_cores=round(saved, 6),
        batch_cores=round(batches, 6),
        rests_on={basis: reused[basis] for basis in Basis},
        work=round(saved / whole, 6) if whole else None,
        work_rests_on={basis: every[basis] for basis in Basis},
    )


def _busy(task: Prospect, rate: float, measured: Known, otherwise: float) -> tuple[float, Basis]:
    """The part of a second that a task works in a second, and what that rests on."""
    if task.instance is not None and task.instance in measured.busy:
        return measured.busy[task.instance], Basis.MEASURED
    if not task.streams <= measured.rates.keys():
        # Where none of them is known either, each counts as one event, which tells at least where streams meet.
        return otherwise * (rate if task.streams.isdisjoint(measured.rates) else 1.0), Basis.ASSUMED
    if task.type in measured.by_type:
        return measured.by_type[task.type] * rate, Basis.TYPE
    return EVENT * rate, Basis.ASSUMED


def _taken_per_second(measured: tuple[Measured, ...], instance: int, now: float) -> float | None:
    def grown(base: Measured, last: Measured) -> int:
        before = base.instances.get(instance)
        return last.instances[instance].taken - (before.taken if before else 0)

    return per_second(measured, grown, now)
