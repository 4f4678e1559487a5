"""Regions: parts of what runs that can be consolidated one at a time, while all the others run on.

Running DAGs that read one source are cut together, so they make a body, which moves as one or not at all. A region is
made of jobs to be emptied, with all the bodies that run something there, also what these run elsewhere: as many as may
stand still at the same time. First come the jobs that take most for how much has to stand still.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from networkx.utils import UnionFind

from merge.capacity import Costs
from merge.consolidation.defragmentation import forwarded
from merge.jobs import Job, JobId, Jobs, parents
from merge.placement.hosts import Host
from merge.running_dags import DagId
from merge.running_graph import RunningGraph
from merge.task import Instance, RunningTask
from merge.task_order import downwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Some bodies as if there were no others; what is computed of it holds for all jobs. Made by `regions`."""

    running: RunningGraph
    """With these tasks only."""
    jobs: Jobs
    """With those that run any of them, and of each only what it runs of them."""
    shared: frozenset[JobId]
    """The jobs that run something else as well."""
    hosts: tuple[Host, ...]
    """With the cores that all else leaves."""


def regions(running: RunningGraph, jobs: Jobs, hosts: Iterable[Host], costs: Costs, *, most: int) -> Iterator[Region]:
    """Cut what runs into regions of so many tasks at most, but for single jobs with larger bodies; the dearest first.

    Every running task has a home.
    """
    hosts = tuple(hosts)
    if len(running.tasks) <= most:
        yield Region(running=running, jobs=jobs, shared=frozenset(), hosts=hosts)
        return
    bodies = _bodies(running)
    in_job: defaultdict[JobId, list[int]] = defaultdict(list)
    for number, body in enumerate(bodies):
        for job in {jobs.homes[task.instance].job for task in body}:
            in_job[job].append(number)
    sizes = [len(body) for body in bodies]
    for numbers in _packed(_dearest(running, jobs, costs, in_job, sizes), in_job, sizes, most):
        inside = {task.instance: task for number in sorted(numbers) for task in bodies[number]}
        yield _region(running, jobs, hosts, costs, inside)


def _bodies(running: RunningGraph) -> list[list[RunningTask]]:
    """The bodies, which are cut together, each task after its parents."""
    found: UnionFind[DagId | str] = UnionFind()
    dag_of: dict[Instance, DagId] = {}
    tasks = downwards(running.tasks.values())
    for task in tasks:
        instance = task.instance
        if (above := next(parents(task), None)) is not None:
            dag_of[instance] = dag_of[above]
        else:
            dag_of[instance] = running.dag_of(instance)
            if task.type.reads_source:
                found.union(dag_of[instance], task.config["source"])
    bodies: defaultdict[DagId | str, list[RunningTask]] = defaultdict(list)
    for task in tasks:
        bodies[found[dag_of[task.instance]]].append(task)
    return list(bodies.values())


def _dearest(
    running: RunningGraph, jobs: Jobs, costs: Costs, in_job: Mapping[JobId, Iterable[int]], sizes: list[int]
) -> list[JobId]:
    """The jobs; first those that take most cores for how much stands still where they are emptied."""
    bridges = Counter(bridge.to for bridge in forwarded(running, jobs))

    def price(job: JobId) -> tuple[float, JobId]:
        still = sum(sizes[each] for each in in_job[job])
        paused = len(jobs.jobs[job].paused) * costs.paused
        return -(costs.cores(0.0) + bridges[job] * costs.bridge + paused) / max(1, still), job

    return sorted(in_job, key=price)


def _packed(
    found: Iterable[JobId], in_job: Mapping[JobId, Iterable[int]], sizes: list[int], most: int
) -> Iterator[frozenset[int]]:
    """Bodies together, of one job after the other, as long as they have no more tasks than that."""
    done: set[int] = set()
    together: set[int] = set()
    size = 0
    for job in found:
        new = set(in_job[job]) - together - done
        more = sum(sizes[each] for each in new)
        if more > most:
            done |= new
            yield frozenset(new)
            continue
        if together and size + more > most:
            done |= together
            yield frozenset(together)
            together, size = set(), 0
        together |= new
        size += more
    if together:
        yield frozenset(together)


def _region(
    running: RunningGraph,
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    inside: dict[Instance, RunningTask],
) -> Region:
    homes = {instance: jobs.homes[instance] for instance in inside}
    active: defaultdict[JobId, list[Instance]] = defaultdict(list)
    for instance, home in homes.items():
        active[home.job].append(instance)
    shared = frozenset(job for job, ran in active.items() if len(ran) < len(jobs.jobs[job].active))
    here = {job: jobs.jobs[job] for job in sorted(active)}
    for job in shared:
        # What is paused there stays with whatever else it runs.
        busy = sum(homes[instance].busy for instance in active[job])
        here[job] = replace(here[job], active=frozenset(active[job]), paused=frozenset(), busy=busy)
    bridges = {
        bridge: jobs.bridges[bridge] for job in here for bridge in jobs.entering.get(job, ()) if bridge.parent in inside
    }
    return Region(
        running=replace(running, tasks=inside),
        jobs=replace(Jobs.of(here.values(), homes, bridges, jobs.next_job), version=jobs.version),
        shared=shared,
        hosts=tuple(_left(hosts, jobs, costs, here)),
    )


def _left(hosts: Iterable[Host], jobs: Jobs, costs: Costs, here: Mapping[JobId, Job]) -> Iterator[Host]:
    """The hosts, less what all takes that is not in a region."""
    taken: defaultdict[str, float] = defaultdict(float)
    # In order, because a sum's last digit depends on it and may not decide between two hosts.
    for name, job in sorted(jobs.jobs.items()):
        taken[job.host] += job.busy - here[name].busy if name in here else costs.cores(job.busy)
    for host in hosts:
        yield replace(host, cores=host.cores - taken[host.name])
