"""What sharing saves: the cores that a dataflow's reused tasks, and a job of its own, would have taken.

Where a reused task runs, the kernel measures its CPU and its events: what it takes there, a copy of it would take too.
For one that was started just now the mean of its type stands in, times the events of its sources. What is not known
even so is assumed. A job costs something for each of its batches, whatever these hold; a dataflow that opens no job
saves that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.plan import Plan
from manager.answers import Basis, Saving
from manager.committing.seen import JobSeen, Measured
from manager.figures import per_second, stream_rate

EVENT = 20e-6
"""Seconds of CPU that an event is taken to cost a task of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """A task that need not run again, but for sources; made by whoever foretells a submission."""

    instance: int
    type: str
    streams: frozenset[str] = frozenset()
    """The raw streams that it hangs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured of all that runs; made by `known`."""

    busy: Mapping[int, float] = field(default_factory=dict)
    """For each instance the part of a second that it works in a second, where it runs."""
    by_type: Mapping[str, float] = field(default_factory=dict)
    """For each type the seconds of CPU for an event, over all its instances."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """For each raw stream how many events come in a second."""


def known(reused: Sequence[Reused], plans: Iterable[Plan], seen: Mapping[str, JobSeen], now: float) -> Known:
    """What was measured of these tasks, their types and their streams, in the jobs of these plans."""
    instances = {each.instance for each in reused}
    types = {each.type for each in reused}
    streams = {stream for each in reused for stream in each.streams}
    busy: dict[int, float] = {}
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
                if slot.instance in instances and (
                    (rate := _taken_per_second(measured, slot.instance, now)) is not None
                ):
                    busy[slot.instance] = did.cpu_ns / 1e9 / did.taken * rate
        for ingress in plan.ingress:
            if ingress.stream in streams and (rate := stream_rate(measured, ingress.stream, now)) is not None:
                # A job that has just begun may have less behind it than another that reads the same.
                rates[ingress.stream] = max(rate, rates.get(ingress.stream, 0.0))
    return Known(busy=busy, by_type={name: spent[name] / 1e9 / events for name, events in taken.items()}, rates=rates)


def saving(  # noqa: PLR0913 - what is reused, what is known, and what a job costs are six things
    tasks: int, reused: Iterable[Reused], measured: Known, *, opened: int, job: float, busy: float
) -> Saving:
    """What a dataflow saves that reuses so many tasks, and opens so many jobs.

    `job` is the cores that the batches of a job cost whatever they hold, and `busy` those that a task takes of which
    not even the rate of its sources is known.
    """
    rests = Counter[Basis]()
    cores = 0.0
    for each in reused:
        part, basis = _busy(each, measured, busy)
        cores += part
        rests[basis] += 1
    batches = job * max(0, 1 - opened)
    return Saving(
        tasks=tasks,
        cores=round(cores + batches, 6),
        task_cores=round(cores, 6),
        batch_cores=round(batches, 6),
        rests_on={basis: rests[basis] for basis in Basis},
    )


def _busy(task: Reused, measured: Known, otherwise: float) -> tuple[float, Basis]:
    """The part of a second that a task works in a second, and what that rests on."""
    if task.instance in measured.busy:
        return measured.busy[task.instance], Basis.MEASURED
    if not task.streams <= measured.rates.keys():
        return otherwise, Basis.ASSUMED
    rate = sum(measured.rates[stream] for stream in task.streams)
    if task.type in measured.by_type:
        return measured.by_type[task.type] * rate, Basis.TYPE
    return EVENT * rate, Basis.ASSUMED


def _taken_per_second(measured: tuple[Measured, ...], instance: int, now: float) -> float | None:
    def grown(base: Measured, last: Measured) -> int:
        before = base.instances.get(instance)
        return last.instances[instance].taken - (before.taken if before else 0)

    return per_second(measured, grown, now)
