"""Fragmentation and its cure: how far the jobs are from the fewest that would do, and which those are."""

from dataclasses import dataclass

import networkx as nx

from merge.jobs import Assignment, Costs, Home, Host, JobId, Jobs, crossings
from merge.placement import Ground, Group, connected_parts
from merge.running_graph import RunningGraph
from merge.task import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """What scattered jobs cost, against the consolidated ones."""

    jobs: int
    fewest: int
    """How many jobs consolidation would leave."""
    bridges: int
    paused: int
    hops: int
    """The most bridges in a row."""
    cores: float
    """Taken by the jobs beyond the fewest, by bridges and by paused tasks."""
    latency: float
    """Seconds that the longest row of bridges adds: a pace for each."""


def fragmentation(running: RunningGraph, jobs: Jobs, hosts: tuple[Host, ...], costs: Costs) -> Fragmentation:
    """Measure it."""
    target = jobs.apply(consolidate(running, jobs, hosts, costs))
    paused = sum(len(job.paused) for job in jobs.jobs.values())
    hops = nx.dag_longest_path_length(jobs.streams_between()) if jobs.bridges else 0
    beyond = len(jobs.jobs) - len(target.jobs)
    return Fragmentation(
        jobs=len(jobs.jobs),
        fewest=len(target.jobs),
        bridges=len(jobs.bridges),
        paused=paused,
        hops=hops,
        cores=beyond * costs.batch / costs.pace + len(jobs.bridges) * costs.bridge + paused * costs.paused,
        latency=hops * costs.pace,
    )


def consolidate(running: RunningGraph, jobs: Jobs, hosts: tuple[Host, ...], costs: Costs) -> Assignment:
    """The target of a defragmentation: which instances move to which new jobs, and which jobs stop.

    Running DAGs stay whole as far as one job can hold them; the busiest are packed first, each where it just fits. One
    that no job can hold is cut in topological order, and no two such runs meet in a job, so that the graph of jobs
    stays acyclic. A job that is as it should be, with nothing paused, is left alone.
    """
    ground = Ground(Jobs(next_job=jobs.next_job), hosts, costs)
    everything = tuple(running.tasks[instance] for instance in sorted(running.tasks))
    wholes: list[Group] = []
    for dag in connected_parts(everything):
        runs = tuple(ground.runs(dag))
        if len(runs) == 1:
            wholes.append(dag)
        else:
            for run in runs:
                ground.open(run)
    for dag in sorted(wholes, key=lambda dag: (-ground.work(dag), dag[0].instance)):
        fullest = sorted(ground.opened, key=lambda job: (-ground.busy(job), job))
        job = next((job for job in fullest if ground.takes(job, dag)), None)
        if job is None:
            ground.open(dag)
        else:
            ground.put(dag, job)
    return _moves(running, jobs, ground)


def _moves(running: RunningGraph, jobs: Jobs, ground: Ground) -> Assignment:
    """From the jobs as they are to the ones on the ground."""
    members: dict[JobId, set[Instance]] = {job: set() for job in ground.opened}
    for instance, job in ground.placed.items():
        members[job].add(instance)
    settled = {job.active: job for job in jobs.jobs.values() if not job.paused}
    renamed: dict[JobId, JobId] = {}
    opens: list[tuple[JobId, str]] = []
    for job, instances in members.items():
        same = settled.get(frozenset(instances))
        # Ids are given anew, because those of jobs that turn out to be there already are not used.
        renamed[job] = same.id if same else JobId(jobs.next_job + len(opens))
        if same is None:
            opens.append((renamed[job], ground.opened[job]))
    kept = set(renamed.values())
    homes = {instance: renamed[job] for instance, job in ground.placed.items()}
    before = {instance: home.job for instance, home in jobs.homes.items()}
    tasks = [running.tasks[instance] for instance in sorted(homes)]
    moved = [task for task in tasks if homes[task.instance] != before.get(task.instance)]
    crossing = dict(crossings(tasks, before, -1))
    for bridge, count in crossings(tasks, homes):
        crossing[bridge] = crossing.get(bridge, 0) + count
    return Assignment(
        base=jobs.version,
        opens=tuple(opens),
        places=tuple((task.instance, Home(homes[task.instance], ground.work([task]))) for task in moved),
        stops=tuple(sorted(job for job in jobs.jobs if job not in kept)),
        crossings=tuple(sorted((bridge, more) for bridge, more in crossing.items() if more)),
    )
