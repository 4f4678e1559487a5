"""Shards: how many tasks a batch of a job runs as, and which shard has which key groups.

The number is chosen by how much work there is and how it can be divided. A job gets another shard when a batch is
predicted to take more than its share of the pace. It loses one only when it would do well without, so that a load that
goes up and down a little changes nothing. What cannot be divided is done by one shard: more of them than its load
leaves work for are never chosen.

Key groups are balanced so that all shards have about as much to do. A group that moves takes its state along, so few
move: the hot ones, and only where that makes a difference.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import networkx as nx

from dags.dataflow import GROUPS, DividedBy, TaskKeeping, divisibility, evenly, shard_of_whole
from merge.capacity import Costs
from merge.jobs import Assignment, Home, Job, JobId, Jobs, parents
from merge.placement.hosts import Host, machine_cores
from merge.running_graph import RunningGraph
from merge.tasks import Instance, RunningTask

UNEVEN = 1.25
"""How much more than the mean the fullest shard has to do before groups move."""
EVEN = 1.05
"""How much more it may have afterwards, so that no more groups move than need to."""
BETTER = 0.9
"""The part of its load that the fullest shard may keep at most; for less than that nothing moves."""


def loads_of(groups: Sequence[int], loads: Sequence[float], shards: int) -> list[float]:
    """The load of each shard.

    >>> loads_of((0, 0, 1), (1.0, 2.0, 4.0), 2)
    [3.0, 4.0]
    """
    totals = [0.0] * shards
    for group, load in enumerate(loads):
        totals[groups[group]] += load
    return totals


def balanced(groups: tuple[int, ...], loads: Sequence[float], shards: int) -> tuple[int, ...]:
    """The shard of each key group, given that of each now and its load; as now where that is good enough or unknown."""
    assigned = list(groups)
    full = loads_of(groups, loads, shards)
    before, mean = max(full), sum(full) / shards
    if before <= UNEVEN * mean:
        return groups
    for _ in groups:
        if max(full) <= EVEN * mean:
            break
        fullest, emptiest = full.index(max(full)), full.index(min(full))
        gap = full[fullest] - full[emptiest]
        # Both have less than the fullest had, as long as what moves is less than the gap; best is half of it.
        moves = [group for group, shard in enumerate(assigned) if shard == fullest and 0.0 < loads[group] < gap]
        if not moves:
            break
        group = min(moves, key=lambda group: (abs(loads[group] - gap / 2), group))
        assigned[group] = emptiest
        full[fullest] -= loads[group]
        full[emptiest] += loads[group]
    return tuple(assigned) if max(full) <= BETTER * before else groups


CALM = 0.75
"""The part of its share that a batch may be predicted to take with fewer shards. More shards must save as much where no
number of them is enough."""


class WholePart(NamedTuple):
    """Tasks that hang together and cannot be divided."""

    instances: frozenset[int]
    """With what enters them."""
    busy: float
    busiest: float
    """The load of the busiest task among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedWork:
    """The load of a job by how it can be divided; made by `divided_work`."""

    spread: float = 0.0
    """What all shards do together."""
    keyed: float = 0.0
    """The part of it that is divided by key."""
    hottest: float = 0.0
    """The part of that which is one key group's, as far as was measured: one shard does it."""
    busiest: float = 0.0
    """The load of the busiest task in it."""
    whole: tuple[WholePart, ...] = ()
    """What one shard does each."""

    def fullest(self, shards: int) -> float:
        """The load of the shard that has most to do."""
        alone: defaultdict[int, float] = defaultdict(float)
        for part in self.whole:
            alone[shard_of_whole(part.instances, shards)] += part.busy
        skew = self.keyed * max(0.0, self.hottest - 1 / shards)
        return self.spread / shards + skew + max(alone.values(), default=0.0)

    def busiest_of(self, shards: int) -> float:
        """The load of the busiest task in one shard."""
        return max(self.busiest / shards, max((part.busiest for part in self.whole), default=0.0))

    def most(self, cores: float) -> int:
        """The most shards that so many cores have use for: what one shard does alone bounds what division can bring."""
        most = max(1, min(GROUPS, math.floor(cores)))
        largest = max((self.keyed * self.hottest, *(part.busy for part in self.whole)))
        if not largest:
            return most
        return min(most, math.ceil((self.spread + sum(part.busy for part in self.whole)) / largest))


def divided_work(
    tasks: Iterable[RunningTask], running: Mapping[Instance, RunningTask], busy: Mapping[Instance, float]
) -> DividedWork:
    """The load of a job's tasks; `running` has the sources above them."""
    working = {task.instance: task for task in tasks if task.inputs}
    streams: nx.Graph[int | str] = nx.Graph()
    for instance, task in working.items():
        for parent in parents(task):
            streams.add_edge(instance, parent)
            above = running.get(parent)
            if above is not None and above.type.reads_source:
                # Two that read the same stream meet in it.
                streams.add_edge(parent, above.config["source"])
    spread, keyed, busiest, whole = 0.0, 0.0, 0.0, list[WholePart]()
    for part in nx.connected_components(streams):
        instances = frozenset(node for node in part if isinstance(node, int))
        own = [Instance(instance) for instance in sorted(instances) if instance in working]
        loads = [busy[instance] for instance in own]
        by = divisibility({instance: _keeping(working[instance]) for instance in own}).by
        if by is DividedBy.NOTHING:
            whole.append(WholePart(instances, sum(loads), max(loads)))
        else:
            spread, busiest = spread + sum(loads), max(busiest, *loads)
            keyed += sum(loads) if by is DividedBy.KEY else 0.0
    ordered = tuple(sorted(whole, key=lambda part: min(part.instances)))
    return DividedWork(spread=spread, keyed=keyed, busiest=busiest, whole=ordered)


def shards_for(work: DividedWork, costs: Costs, cores: float, present: int = 1) -> int:
    """The number of shards that a job should have on a host with so many cores, if it has `present` ones."""
    most = work.most(cores)
    present = min(present, most)
    if costs.fits(work.fullest(present)):
        calm = (count for count in range(1, present) if costs.fits(work.fullest(count) / CALM))
        return next(calm, present)
    every = range(1, most + 1)
    enough = next((count for count in every if costs.fits(work.fullest(count))), None)
    if enough is not None:
        return enough
    best = min(every, key=lambda count: (work.fullest(count), count))
    return best if work.fullest(best) <= CALM * work.fullest(present) else present


def splits(work: DividedWork, costs: Costs, cores: float) -> bool:
    """Whether one job with several shards has the capacity for some work on a host."""
    return any(costs.fits(work.fullest(count)) for count in range(2, work.most(cores) + 1))


class Rescale(NamedTuple):
    """A job that should have another number of shards, or other key groups in them; made by `rescaled`."""

    job: JobId
    shards: int
    busy: Mapping[Instance, float]
    """The load of its tasks by which that was decided."""
    why: str
    groups: tuple[int, ...] = ()
    """The shard of each key group; empty to assign them in turn."""

    def assignment(self, jobs: Jobs) -> Assignment:
        """The step of the jobs; its tasks are noted as busy as was measured."""
        return Assignment(
            base=jobs.version,
            places=tuple((instance, Home(self.job, load)) for instance, load in sorted(self.busy.items())),
            shards=((self.job, self.shards, self.groups),),
        )


def rescaled(  # noqa: PLR0913 - what runs, where, on what, at which cost, by what was measured, are six things
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    batch_seconds: Mapping[JobId, float],
    *,
    apart: Container[JobId] = frozenset(),
    groups: Mapping[JobId, Sequence[float]] = MappingProxyType({}),
) -> tuple[Rescale, ...]:
    """The jobs that should have other shards by what was measured, those with most to do first.

    A job whose batches were not measured, or that is apart because it is still catching up, is left as it is. `groups`
    has how much each key group has to do, in any unit, for jobs of which that is known.
    """
    there = [host for host in hosts if not host.away]
    cores, machine_of = machine_cores(there), {host.name: host.shares_cores_with for host in there}
    on_machine = Counter(machine_of.get(job.host) for job in jobs.jobs.values())
    rescales: list[tuple[float, Rescale]] = []
    for name, seconds in sorted(batch_seconds.items()):
        job = jobs.jobs.get(name)
        if job is None or job.host not in cores or name in apart or not job.active:
            continue
        busy = {instance: costs.busy[instance] for instance in sorted(job.active)}
        if job.shards == 1 and costs.fits(sum(busy.values())):
            continue
        loads = groups.get(name, ())
        hottest = max(loads, default=0.0) / sum(loads) if any(loads) else 0.0
        work = replace(divided_of(job, running, busy), hottest=hottest)
        work = as_measured(work, costs, seconds, job.shards)
        shards = shards_for(work, costs, cores[job.host], job.shards)
        if on_machine[machine_of[job.host]] > 1 and not costs.fits(work.fullest(shards)):
            # Its batches take all the time there is, so the others need a core that it leaves alone.
            shards = shards_for(work, costs, cores[job.host] - 1, job.shards)
        present = job.groups or evenly(job.shards)
        assigned = balanced(present if shards == job.shards else evenly(shards), loads, shards)
        if shards != job.shards:
            why = _why(job.shards, shards, work, costs)
        elif assigned != present:
            why = _why_moved(present, assigned, loads, shards)
        else:
            continue
        assigned = () if assigned == evenly(shards) else assigned
        rescales.append((work.fullest(job.shards), Rescale(name, shards, busy, why, assigned)))
    return tuple(rescale for _, rescale in sorted(rescales, key=lambda pair: (-pair[0], pair[1].job)))


def divided_of(job: Job, running: RunningGraph, busy: Mapping[Instance, float]) -> DividedWork:
    """The load of a job that runs."""
    return divided_work((running.tasks[instance] for instance in sorted(job.active)), running.tasks, busy)


def as_measured(work: DividedWork, costs: Costs, seconds: float, shards: int) -> DividedWork:
    """The work as much dearer as batches take longer than it accounts for, if it is more than its share at all.

    Else a batch is slow because its host has too much to do, and more shards would not help.
    """
    fullest = work.fullest(shards)
    dearer = (seconds - costs.batch) / costs.pace / fullest if fullest and not costs.fits(fullest) else 1.0
    if dearer <= 1.0:
        return work
    return replace(
        work,
        spread=work.spread * dearer,
        keyed=work.keyed * dearer,
        busiest=work.busiest * dearer,
        whole=tuple(WholePart(part.instances, part.busy * dearer, part.busiest * dearer) for part in work.whole),
    )


def _why(present: int, shards: int, work: DividedWork, costs: Costs) -> str:
    total = work.spread + sum(part.busy for part in work.whole)
    before, after = (costs.batch_of(work.fullest(count)) for count in (present, shards))
    return (
        f"its tasks take {total:.2f} cores, so a batch takes {before:.2f} s of its {costs.pace:g} s with"
        f" {_counted(present)} and {after:.2f} s with {_counted(shards)}"
    )


def _why_moved(before: Sequence[int], after: Sequence[int], loads: Sequence[float], shards: int) -> str:
    most, least = (max(loads_of(groups, loads, shards)) / sum(loads) for groups in (before, after))
    moved = sum(one != two for one, two in zip(before, after, strict=True))
    return (
        f"the fullest of its {shards} shards has {most:.0%} of the events that are divided by key, and {least:.0%} when"
        f" {'1 key group has' if moved == 1 else f'{moved} key groups have'} moved"
    )


def _counted(shards: int) -> str:
    return "1 shard" if shards == 1 else f"{shards} shards"


def _keeping(task: RunningTask) -> TaskKeeping | None:
    """What a task keeps; None if its type is not known here as it runs."""
    if task.keeping is not None:
        return replace(task.keeping, parents=tuple(parents(task)))
    config = task.typed_config
    return None if config is None else TaskKeeping.of(task.type, config, parents(task))
