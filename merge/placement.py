"""Placement: which job runs the tasks that a merge starts.

All strategies share one frame. The residue is cut into groups; for each the strategy names the jobs it would like,
best first, and the first that has room, offers the tags and keeps the graph of jobs acyclic takes the whole group.
Where none does, new jobs are opened: the group in topological order, cut wherever the capacity or the tags of one host
end. Streams lead only forwards across such cuts and nothing leads out of a new job yet, so no cycle can arise.

A group that is too much for one core is not cut if it can be divided: its job gets as many shards as it needs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import networkx as nx

from merge.capacity import Costs
from merge.errors import NoHost
from merge.jobs import Assignment, Home, Host, JobId, Jobs, crossings, parents
from merge.shards import DividedWork, divided_work, shards_for, splits
from merge.task import Instance, RunningTask
from merge.task_order import downwards

Group: TypeAlias = tuple[RunningTask, ...]
"""Tasks that are placed together, each after its parents."""


_NONE: frozenset[JobId] = frozenset()


class PlacementBoard:
    """The jobs while groups are being placed; lives as long as one placement."""

    def __init__(
        self,
        running: Mapping[Instance, RunningTask],
        jobs: Jobs,
        hosts: Iterable[Host],
        costs: Costs,
        apart: Container[JobId] = frozenset(),
    ) -> None:
        self.running = running
        self.jobs = jobs
        self.apart = apart
        self.hosts = sorted(hosts, key=lambda host: host.name)
        self.costs = costs
        self.placed: dict[Instance, JobId] = {}
        self.opened: dict[JobId, str] = {}
        self.shards: dict[JobId, int] = {}
        """The shards of each job that was opened with several."""
        self._tags_of = {host.name: host.tags for host in self.hosts}
        self._added: defaultdict[JobId, float] = defaultdict(float)
        self._feeding: defaultdict[JobId, set[JobId]] = defaultdict(set)

    def job_of(self, instance: Instance) -> JobId:
        """The job that runs an instance."""
        return self.placed[instance] if instance in self.placed else self.jobs.homes[instance].job

    def host_of(self, job: JobId) -> str:
        """The name of the host that runs a job."""
        return self.opened[job] if job in self.opened else self.jobs.jobs[job].host

    def every_job(self) -> Iterator[JobId]:
        """The jobs there are, old and newly opened."""
        yield from self.jobs.jobs
        yield from self.opened

    def busy(self, job: JobId) -> float:
        """The load of a job with what was placed so far."""
        return self._added.get(job, 0.0) + (self.jobs.jobs[job].busy if job not in self.opened else 0.0)

    @property
    def loads(self) -> Mapping[JobId, float]:
        """The load of each job with what was placed so far, old and newly opened."""
        return {**self.jobs.loads, **{job: self.busy(job) for job in self._added}}

    def work(self, group: Iterable[RunningTask]) -> float:
        """The load of a group."""
        return sum(self.costs.busy[task.instance] for task in group)

    def entering(self, group: Group) -> Counter[JobId]:
        """The jobs from which streams enter a group, with how many do."""
        inside = {task.instance for task in group}
        streams = {(Instance(edge.parent), edge.parent_port) for task in group for edge in task.inputs}
        return Counter(self.job_of(parent) for parent, _ in streams if parent not in inside)

    def offers(self, host: str, tags: frozenset[str]) -> bool:
        """Whether a host is there and offers the tags."""
        return host in self._tags_of and tags <= self._tags_of[host]

    def first(self, jobs: Iterable[JobId], group: Group) -> JobId | None:
        """The first of the jobs that can run a group: its room, its host's tags, and the graph of jobs allow it."""
        work, tags, entering = self.work(group), tags_of(group), self.entering(group).keys()
        upstream: frozenset[JobId] | None = None
        for job in jobs:
            if job in self.apart:
                continue
            if not self._has_room(job, group, work) or not self.offers(self.host_of(job), tags):
                continue
            if entering <= {job}:
                return job
            upstream = self._upstream(entering) if upstream is None else upstream
            if job not in upstream:
                return job
        return None

    def put(self, group: Group, job: JobId) -> None:
        """Place a group in a job."""
        self._feeding[job].update(other for other in self.entering(group) if other != job)
        self.placed |= {task.instance: job for task in group}
        self._added[job] += self.work(group)

    def open(self, group: Group) -> None:
        """Place a group in a new job, on the host with most cores to spare of those that offer its tags.

        Where it is too much for one core, hosts come first that have enough of them.
        """
        tags = tags_of(group)
        fitting = [host for host in self.hosts if tags <= host.tags]
        if not fitting:
            raise NoHost(group[0].type.name, tags)
        taken: defaultdict[str, float] = defaultdict(float)
        # In order, because a sum's last digit depends on it and may not decide between two hosts.
        for job in sorted(self.every_job()):
            taken[self.host_of(job)] += self.costs.cores(self.busy(job))
        work = None if self.costs.fits(self.work(group)) else self.divided(group)
        if work is not None:
            fitting = [host for host in fitting if splits(work, self.costs, host.cores)] or fitting
        host = max(fitting, key=lambda host: host.cores - taken[host.name])
        job = JobId(self.jobs.next_job + len(self.opened))
        self.opened[job] = host.name
        if work is not None and (shards := shards_for(work, self.costs, host.cores)) > 1:
            self.shards[job] = shards
        self.put(group, job)

    def suits(self, work: float, tags: frozenset[str]) -> bool:
        """Whether a new job could do so much work and have these tags."""
        return self.costs.fits(work) and any(tags <= host.tags for host in self.hosts)

    def divided(self, group: Iterable[RunningTask]) -> DividedWork:
        """The load of a group by how it can be divided."""
        return divided_work(group, self.running, self.costs.busy)

    def splits(self, group: Group) -> bool:
        """Whether one new job with several shards shall run a group that is too much for one core."""
        cores = max((host.cores for host in self.hosts if tags_of(group) <= host.tags), default=0.0)
        return cores > 1.0 and splits(self.divided(group), self.costs, cores)

    def runs(self, group: Group) -> Iterator[Group]:
        """A group cut so that one new job can take each run; a task too busy for any job gets one to itself."""
        if not self.costs.fits(self.work(group)) and self.splits(group):
            yield group
            return
        run: list[RunningTask] = []
        work, tags = 0.0, frozenset[str]()
        for task in group:
            more = self.costs.busy[task.instance]
            work, tags = work + more, tags | task.type.tags
            if run and not self.suits(work, tags):
                yield tuple(run)
                run, work, tags = [], more, task.type.tags
            run.append(task)
        yield tuple(run)

    def _has_room(self, job: JobId, group: Group, work: float) -> bool:
        """Whether a job is within capacity with a group; one with shards may be with those that it has."""
        if self.costs.fits(self.busy(job) + work):
            return True
        present = None if job in self.opened else self.jobs.jobs[job]
        if present is None or present.shards == 1 or job in self._added:
            return False
        loads = {each: self.jobs.homes[each].busy for each in present.active} | dict(self.costs.busy)
        tasks = (*(self.running[each] for each in sorted(present.active)), *group)
        return self.costs.fits(divided_work(tasks, self.running, loads).fullest(present.shards))

    def _upstream(self, jobs: Iterable[JobId]) -> frozenset[JobId]:
        """The jobs from which streams reach any of these, over however many bridges."""
        found: set[JobId] = set()
        ends = list(jobs)
        while ends:
            job = ends.pop()
            above = (self.jobs.feeding.get(job, _NONE) | self._feeding.get(job, _NONE)) - found
            found |= above
            ends += above
        return frozenset(found)


class Strategy(NamedTuple):
    """The difference between one placement and another."""

    groups: Callable[[Group], Iterable[Group]]
    """How a residue is cut into groups."""
    likes: Callable[[PlacementBoard, Group], Iterable[JobId]]
    """The jobs that a group would join, best first."""


def place(  # noqa: PLR0913 - what starts, what runs, and the ground it is placed on are seven things
    strategy: str,
    *,
    residue: Iterable[Instance],
    running: Mapping[Instance, RunningTask],
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    apart: Container[JobId] = frozenset(),
) -> Assignment:
    """Place the residue; `running` are all tasks that run, with it already. Jobs that are apart take none."""
    ground = PlacementBoard(running, jobs, hosts, costs, apart)
    started = downwards(running[instance] for instance in residue)
    for group in STRATEGIES[strategy].groups(started):
        job = ground.first(STRATEGIES[strategy].likes(ground, group), group)
        if job is not None:
            ground.put(group, job)
        else:
            for run in ground.runs(group):
                ground.open(run)
    homes = {parent: ground.job_of(parent) for task in started for parent in parents(task)}
    return Assignment(
        base=jobs.version,
        opens=tuple(ground.opened.items()),
        places=tuple(
            (task.instance, Home(ground.placed[task.instance], costs.busy[task.instance])) for task in started
        ),
        crossings=crossings(started, homes | ground.placed),
        shards=tuple((job, shards, ()) for job, shards in ground.shards.items()),
    )


def connected_parts(tasks: Group) -> Iterator[Group]:
    """The tasks in groups that share no stream, each in the given order."""
    streams: nx.Graph[Instance] = nx.Graph()
    there = {task.instance: task for task in tasks}
    streams.add_nodes_from(there)
    streams.add_edges_from((task.instance, parent) for task in tasks for parent in parents(task) if parent in there)
    places = {instance: place for place, instance in enumerate(there)}
    for part in sorted(nx.connected_components(streams), key=min):
        yield tuple(there[instance] for instance in sorted(part, key=places.__getitem__))


def tags_of(group: Iterable[RunningTask]) -> frozenset[str]:
    """The tags that a host needs to run every task of a group."""
    return frozenset[str]().union(*(task.type.tags for task in group))


def _whole(residue: Group) -> Iterable[Group]:
    return [residue] if residue else []


def _likes_new(_ground: PlacementBoard, _group: Group) -> Iterable[JobId]:
    return ()


def _likes_its_inputs_job(ground: PlacementBoard, group: Group) -> Iterable[JobId]:
    jobs = list(ground.entering(group))
    return jobs if len(jobs) == 1 else ()


def _likes_company(ground: PlacementBoard, group: Group) -> Iterable[JobId]:
    entering = ground.entering(group)
    yield from sorted(entering, key=lambda job: (-entering[job], job))
    # Most jobs are full, and need no order.
    work, fits = ground.work(group), ground.costs.fits
    roomy = [(-busy, job) for job, busy in ground.loads.items() if fits(busy + work) and job not in entering]
    yield from (job for _, job in sorted(roomy))


STRATEGIES = MappingProxyType(
    {
        "launch": Strategy(_whole, _likes_new),
        "graft": Strategy(connected_parts, _likes_its_inputs_job),
        "pack": Strategy(connected_parts, _likes_company),
    }
)
