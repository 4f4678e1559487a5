"""Isolation: what overloads a job, or is in quarantine, is moved to a job of its own.

**Quarantine.** The tasks of a tenant whose tasks were stopped again and again share no worker with those of others. A
task is in quarantine while nobody needs it but tenants that are; so are all tasks that it feeds. When they leave the
jobs that they share with others, streams lead from what stays to what leaves and not back.

**Overload.** What moves is closed within its job: with a task goes all that it feeds there, or all that feeds it. One
connected piece moves where that leaves the job within capacity, the one that needs the fewest bridges; else whole
connected parts, the busiest first; else whatever comes first or last in topological order.

Either way the graph of jobs stays acyclic. A job that another number of shards would help is left alone, and so is one
from which nothing can move without tearing a stream that is read on another root.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import accumulate

import networkx as nx

from merge.capacity import Costs
from merge.consolidation.bundles import bundled, pieces, regrouped
from merge.jobs import Assignment, Job, JobId, Jobs, crossings, parents
from merge.placement.board import Group, PlacementBoard, connected_parts
from merge.placement.hosts import Host, Roots
from merge.running_graph import RunningGraph
from merge.shards import divided_of, rescaled
from merge.tasks import Instance, downwards


def quarantine_of(tenants: Iterable[str], quarantined: Container[str]) -> str:
    """The tenant in whose jobs a task of these tenants runs; empty if one of them is not in quarantine.

    >>> quarantine_of(["eve"], {"eve"}), quarantine_of(["ann", "eve"], {"eve"})
    ('eve', '')
    """
    names = frozenset(tenants)
    return min(names, default="") if all(name in quarantined for name in names) else ""


def in_quarantine(running: RunningGraph, quarantined: Container[str]) -> Mapping[Instance, str]:
    """The tasks in quarantine, each with the tenant in whose jobs it runs."""
    return {instance: min(running.tenants_of(instance)) for instance in running.only_for(quarantined)}


def separated(  # noqa: PLR0913 - what runs, where, on what, at which cost, and who takes part, are seven things
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    *,
    quarantined: Mapping[Instance, str],
    own: Mapping[JobId, str],
    apart: Container[JobId] = frozenset(),
) -> Assignment | None:
    """The assignment that takes tasks in quarantine out of the first job that is not their own; None if there is none.

    `own` are the jobs that are somebody's own. A job that is apart is left alone, until it has caught up.
    """
    hosts = tuple(hosts)
    for job in sorted({jobs.homes[instance].job for instance in quarantined if instance in jobs.homes}):
        there = jobs.jobs[job]
        leaving = _leaving(running, there, quarantined, own.get(job, ""))
        if leaving and job not in apart and (ground := _ground(running, jobs, hosts, costs, there)) is not None:
            # No two tenants' tasks get one job.
            groups: list[Group] = []
            for tenant in sorted(set(leaving.values())):
                own_tasks = (running.tasks[instance] for instance, whose in leaving.items() if whose == tenant)
                groups += _grouped(ground, downwards(own_tasks))
            assignment = regrouped(running, ground, _staying(running, ground, there, leaving.keys()), groups)
            if Roots(hosts).keeps(running.tasks, jobs, assignment):
                return assignment
    return None


def _ground(running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs, job: Job) -> PlacementBoard | None:
    """A board with the hosts of the root that a job is on; None if none of them is there."""
    hosts = tuple(hosts)
    roots = Roots(hosts)
    sharing = (host for host in hosts if not roots.several or host.root == roots.of(job.host))
    board = PlacementBoard(running.tasks, jobs, sharing, costs)
    return board if board.hosts else None


def _leaving(running: RunningGraph, job: Job, quarantined: Mapping[Instance, str], own: str) -> Mapping[Instance, str]:
    """The tasks that leave a job, each with the tenant in whose jobs it runs from then on."""
    leaving = {
        instance: quarantined[instance] for instance in sorted(job.active) if quarantined.get(instance, own) != own
    }
    if not any(running.tasks[instance].inputs for instance in leaving):
        # Of a source the job has nothing to run.
        return {}
    rest = job.active - leaving.keys()
    if not any(running.tasks[instance].inputs for instance in rest):
        # What nobody reads there any more goes along, so that the job can stop.
        leaving |= dict.fromkeys(sorted(rest), min(leaving.values()))
    return leaving


def _staying(
    running: RunningGraph, ground: PlacementBoard, job: Job, leaving: AbstractSet[Instance]
) -> Mapping[JobId, Job]:
    """The jobs as they are without what leaves one."""
    others = {id_: other for id_, other in ground.jobs.jobs.items() if id_ != job.id}
    rest = job.active - leaving
    if not rest:
        return others
    return others | {
        job.id: replace(job, active=rest, busy=ground.work(running.tasks[instance] for instance in sorted(rest)))
    }


def _grouped(ground: PlacementBoard, tasks: Group) -> list[Group]:
    """Tasks that leave a job, grouped by the job that they get."""
    return bundled((pieces(part, ground) for part in connected_parts(tasks)), ground)


def overloaded(
    running: RunningGraph, jobs: Jobs, costs: Costs, batch_seconds: Mapping[JobId, float]
) -> tuple[JobId, ...]:
    """The jobs whose batches take too much of their pace by what was measured, the worst first.

    Only those for which their own tasks account. Batches may also be slow because a host has too much to do; then they
    would be as slow in any other job.
    """
    overfull = [
        job
        for job, seconds in batch_seconds.items()
        if job in jobs.jobs and not costs.bears(seconds) and not costs.holds(*_fullest(running, jobs.jobs[job], costs))
    ]
    return tuple(sorted(overfull, key=lambda job: (-batch_seconds[job], job)))


def isolate(  # noqa: PLR0913 - what runs, where, on what, at which cost, by what was measured, are six things
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    batch_seconds: Mapping[JobId, float],
    *,
    apart: Container[JobId] = frozenset(),
) -> Assignment | None:
    """The assignment that takes tasks out of the worst overloaded job that can be helped; None where none can.

    `batch_seconds` has the measured ones. A job that is apart is left alone: it is still catching up.
    """
    hosts = tuple(hosts)
    splitting = {rescale.job for rescale in rescaled(running, jobs, hosts, costs, batch_seconds, apart=apart)}
    for job in overloaded(running, jobs, costs, batch_seconds):
        if job not in apart and job not in splitting:
            measured = _as_measured(running, jobs.jobs[job], costs, batch_seconds[job])
            ground = _ground(running, jobs, hosts, measured, jobs.jobs[job])
            if ground is None or not (moving := _moving(running, ground, jobs.jobs[job])):
                continue
            leaving = frozenset(task.instance for group in moving for task in group)
            assignment = regrouped(running, ground, _staying(running, ground, jobs.jobs[job], leaving), moving)
            if Roots(hosts).keeps(running.tasks, jobs, assignment):
                return assignment
    return None


def _fullest(running: RunningGraph, job: Job, costs: Costs) -> tuple[float, float]:
    """The load of a job's tasks together, and of the busiest one; in its fullest shard, if it has several."""
    works = [costs.busy[instance] for instance in sorted(job.active)]
    if job.shards == 1:
        return sum(works), max(works, default=0.0)
    work = divided_of(job, running, costs.busy)
    return work.fullest(job.shards), work.busiest_of(job.shards)


def _as_measured(running: RunningGraph, job: Job, costs: Costs, seconds: float) -> Costs:
    """The costs, with the tasks of a job as much dearer as its batches take longer than these would account for."""
    work, _ = _fullest(running, job, costs)
    dearer = max(1.0, (seconds - costs.batch) / costs.pace / work) if work else 1.0
    return replace(costs, busy={**costs.busy, **{instance: costs.busy[instance] * dearer for instance in job.active}})


def _moving(running: RunningGraph, ground: PlacementBoard, job: Job) -> list[Group]:
    """The groups that leave a job, each for a job of its own; none where that would not help."""
    tasks = downwards(running.tasks[instance] for instance in job.active)
    parts = sorted(connected_parts(tasks), key=lambda part: (-ground.work(part), part[0].instance))

    def groups_of(moving: frozenset[Instance]) -> list[Group]:
        return _grouped(ground, tuple(task for task in tasks if task.instance in moving))

    def helps(moving: frozenset[Instance]) -> bool:
        rest = [task for task in tasks if task.instance not in moving]
        # A source alone is nothing to run: its readers take its raw stream from the spool.
        if not any(task.inputs for task in rest):
            return False
        work = ground.work(rest) if job.shards == 1 else ground.divided(rest).fullest(job.shards)
        return ground.costs.fits(work)

    def price(moving: frozenset[Instance]) -> tuple[int, int, int, int, list[Instance]]:
        groups = groups_of(moving)
        # The bridges that lead to the job's tasks once the groups have left it.
        homes = {parent: ground.job_of(parent) for task in tasks for parent in parents(task)}
        homes |= {task.instance: ground.job_of(task.instance) for task in tasks}
        homes |= {task.instance: JobId(-number) for number, group in enumerate(groups, 1) for task in group}
        bridges = [bridge for bridge, _ in crossings(tasks, homes)]
        sent = sum(bool(running.tasks[bridge.parent].inputs) for bridge in bridges)
        return sent, len(groups), len(bridges), len(moving), sorted(moving)

    unions = accumulate(map(_instances, parts), lambda one, other: one | other)
    for family in (_pieces(parts), unions, _ends(tasks)):
        if helping := [moving for moving in dict.fromkeys(family) if helps(moving)]:
            return groups_of(min(helping, key=price))
    return []


def _pieces(parts: Iterable[Group]) -> Iterator[frozenset[Instance]]:
    """The connected parts, and of each what is below or above one of its tasks, with that."""
    for part in parts:
        instances = _instances(part)
        yield instances
        streams: nx.DiGraph[Instance] = nx.DiGraph()
        streams.add_nodes_from(instances)
        streams.add_edges_from(
            (parent, task.instance) for task in part for parent in parents(task) if parent in instances
        )
        for instance in sorted(instances):
            yield frozenset({instance, *nx.descendants(streams, instance)})
            yield frozenset({instance, *nx.ancestors(streams, instance)})


def _ends(tasks: Group) -> Iterator[frozenset[Instance]]:
    """The first so many tasks, and all but them."""
    for place in range(1, len(tasks)):
        yield _instances(tasks[:place])
        yield _instances(tasks[place:])


def _instances(group: Group) -> frozenset[Instance]:
    return frozenset(task.instance for task in group)
