"""The board of a placement: the jobs while groups of tasks are put into them; and whose code may meet in a job.

The code of two owners is never placed in one job. Spark lends the workers of a host to all its jobs, one after the
other. What keeps code from others there are the cells in which it runs; only code that an operator vouches for runs in
the worker itself.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TypeAlias

import networkx as nx

from merge.capacity import Costs
from merge.errors import NoHost
from merge.jobs import JobId, Jobs, parents
from merge.placement.hosts import Host, Roots, Stream, machine_cores
from merge.shards import DividedWork, divided_work, shards_for, splits
from merge.tasks import Instance, RunningTask

OWNED_TYPES = frozenset({"code", "connecting_code", "stateful_code"})
"""The types whose tasks run what tenants wrote."""


def owner_of(task: RunningTask) -> str:
    """Whose code a task runs; empty if nobody's, or an operator's."""
    return str(task.config["owner"]) if task.type.name in OWNED_TYPES else ""


def owners_of(tasks: Iterable[RunningTask]) -> frozenset[str]:
    """Whose code is among tasks."""
    return frozenset(map(owner_of, tasks)) - {""}


def trusted(owners: frozenset[str]) -> bool:
    """Whether code of these owners may run together.

    >>> trusted(frozenset({"ann"})), trusted(frozenset({"ann", "bob"}))
    (True, False)
    """
    return len(owners) <= 1


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
        hosts = sorted(hosts, key=lambda host: host.name)
        self.running = running
        self.jobs = jobs
        self.apart = apart
        self.every_host = hosts
        self.roots = Roots(hosts)
        self.hosts = self.roots.there()
        self.costs = costs
        self.placed: dict[Instance, JobId] = {}
        self.opened: dict[JobId, str] = {}
        self.shards: dict[JobId, int] = {}
        """The shards of each job that was opened with several."""
        self.cores = machine_cores(self.hosts)
        """The cores of each host's machine."""
        self.tags_of_hosts = {host.name: host.tags for host in self.hosts}
        self._added: defaultdict[JobId, float] = defaultdict(float)
        self._feeding: defaultdict[JobId, set[JobId]] = defaultdict(set)
        self.readers: defaultdict[Stream, set[str]] = defaultdict(set)
        """The roots on which what was placed reads streams of other jobs."""

    def job_of(self, instance: Instance) -> JobId:
        """The job that runs an instance."""
        return self.placed[instance] if instance in self.placed else self.jobs.homes[instance].job

    def host_of(self, job: JobId) -> str:
        """The name of the host that runs a job."""
        return self.opened[job] if job in self.opened else self.jobs.jobs[job].host

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
        return Counter(self.job_of(parent) for parent, _ in streams_into(group))

    def offers(self, host: str, tags: frozenset[str]) -> bool:
        """Whether a host is there and offers the tags."""
        return host in self.tags_of_hosts and tags <= self.tags_of_hosts[host]

    def first(self, jobs: Iterable[JobId], group: Group, root: str | None = None) -> JobId | None:
        """The first of the jobs that can run a group: room, tags, trust, and the graph of jobs allow it.

        Where a root is given, it is on that one, and tears no stream.
        """
        work, tags, entering = self.work(group), tags_of(group), self.entering(group).keys()
        owners = owners_of(group)
        upstream: frozenset[JobId] | None = None
        for job in jobs:
            if job in self.apart:
                continue
            if not self._has_room(job, group, work) or not self.offers(self.host_of(job), tags):
                continue
            if root is not None and (root_of(self, job) != root or tears(self, group, job, root)):
                continue
            if owners and not trusted(owners | owners_in(self, job)):
                continue
            if entering <= {job}:
                return job
            upstream = self.upstream(entering) if upstream is None else upstream
            if job not in upstream:
                return job
        return None

    def put(self, group: Group, job: JobId) -> None:
        """Place a group in a job."""
        self._feeding[job].update(other for other in self.entering(group) if other != job)
        self.placed |= {task.instance: job for task in group}
        self._added[job] += self.work(group)
        if self.roots.several:
            for stream in streams_into(group):
                if self.running[stream[0]].inputs and self.job_of(stream[0]) != job:
                    self.readers[stream].add(root_of(self, job))

    def open(self, group: Group, root: str | None = None) -> None:
        """Place a group in a new job, on the host with most cores to spare of those that offer its tags.

        Of several on one machine, which share its cores, it is the one with least to do. Where it is too much for one
        core, hosts come first that have enough of them. Where a root is given, the host is on that one.
        """
        tags = tags_of(group)
        fitting = [host for host in self.roots.there(root) if tags <= host.tags]
        if not fitting:
            raise NoHost(group[0].type.name, tags)
        spare = cores_to_spare(self)
        work = None if self.costs.fits(self.work(group)) else self.divided(group)
        if work is not None:
            fitting = [host for host in fitting if splits(work, self.costs, self.cores[host.name])] or fitting
        taken = cores_taken(self)
        host = max(fitting, key=lambda host: (spare[host.name], -taken[host.name]))
        job = JobId(self.jobs.next_job + len(self.opened))
        self.opened[job] = host.name
        if work is not None and (shards := shards_for(work, self.costs, self.cores[host.name])) > 1:
            self.shards[job] = shards
        self.put(group, job)

    def suits(self, work: float, tags: frozenset[str], root: str | None = None) -> bool:
        """Whether a new job could do so much work and have these tags."""
        return self.costs.fits(work) and any(tags <= host.tags for host in self.roots.there(root))

    def divided(self, group: Iterable[RunningTask]) -> DividedWork:
        """The load of a group by how it can be divided."""
        return divided_work(group, self.running, self.costs.busy)

    def splits(self, group: Group, root: str | None = None) -> bool:
        """Whether one new job with several shards shall run a group that is too much for one core."""
        if not trusted(owners_of(group)):
            return False
        there = (host for host in self.roots.there(root) if tags_of(group) <= host.tags)
        cores = max((self.cores[host.name] for host in there), default=0.0)
        return cores > 1.0 and splits(self.divided(group), self.costs, cores)

    def cut(self, group: Group, holds: Callable[[float, float, frozenset[str]], bool]) -> Iterator[Group]:
        """A group, each task after its parents, in runs that a job holds, by their work, busiest task and tags.

        The code of two owners is in two runs.
        """
        run: list[RunningTask] = []
        work, busiest, tags, owners = 0.0, 0.0, frozenset[str](), frozenset[str]()
        for task in group:
            more, own = self.costs.busy[task.instance], owners_of((task,))
            work, busiest, tags, owners = work + more, max(busiest, more), tags | task.tags, owners | own
            if run and not (trusted(owners) and holds(work, busiest, tags)):
                yield tuple(run)
                run, work, busiest, tags, owners = [], more, more, task.tags, own
            run.append(task)
        yield tuple(run)

    def _has_room(self, job: JobId, group: Group, work: float) -> bool:
        """Whether a job is within capacity with a group; one with shards may be with those that it has."""
        if self.costs.fits(self.busy(job) + work):
            return True
        present = None if job in self.opened else self.jobs.jobs[job]
        if present is None or present.shards == 1 or job in self._added:
            return False
        loads = {instance: self.jobs.homes[instance].busy for instance in present.active} | dict(self.costs.busy)
        tasks = (*(self.running[instance] for instance in sorted(present.active)), *group)
        return self.costs.fits(divided_work(tasks, self.running, loads).fullest(present.shards))

    def upstream(self, jobs: Iterable[JobId]) -> frozenset[JobId]:
        """The jobs from which streams reach any of these, over however many bridges."""
        upstream: set[JobId] = set()
        ends = list(jobs)
        while ends:
            job = ends.pop()
            above = (self.jobs.feeding.get(job, _NONE) | self._feeding.get(job, _NONE)) - upstream
            upstream |= above
            ends += above
        return frozenset(upstream)


def anew(ground: PlacementBoard) -> PlacementBoard:
    """Another board for the same, on which nothing was placed yet."""
    return PlacementBoard(ground.running, ground.jobs, ground.every_host, ground.costs, ground.apart)


def owners_in(ground: PlacementBoard, job: JobId) -> frozenset[str]:
    """Whose code a job runs with what was placed so far."""
    active = () if job in ground.opened else ground.jobs.jobs[job].active
    here = (instance for instance, to in ground.placed.items() if to == job)
    return owners_of(ground.running[instance] for instance in (*active, *here))


def tags_of(group: Iterable[RunningTask]) -> frozenset[str]:
    """The tags that a host needs to run every task of a group."""
    return frozenset[str]().union(*(task.tags for task in group))


def streams_into(group: Group) -> set[Stream]:
    """The streams that enter a group from outside."""
    inside = {task.instance for task in group}
    streams = {(Instance(edge.parent), edge.parent_port) for task in group for edge in task.inputs}
    return {stream for stream in streams if stream[0] not in inside}


def connected_parts(tasks: Group) -> Iterator[Group]:
    """The tasks in groups that share no stream, each in the given order."""
    streams: nx.Graph[Instance] = nx.Graph()
    there = {task.instance: task for task in tasks}
    streams.add_nodes_from(there)
    streams.add_edges_from((task.instance, parent) for task in tasks for parent in parents(task) if parent in there)
    places = {instance: place for place, instance in enumerate(there)}
    for part in sorted(nx.connected_components(streams), key=min):
        yield tuple(there[instance] for instance in sorted(part, key=places.__getitem__))


def root_of(ground: PlacementBoard, job: JobId) -> str:
    """The root of the host that runs a job."""
    return ground.roots.of(ground.host_of(job))


def read_on(ground: PlacementBoard, stream: Stream) -> set[str]:
    """The roots that a stream is sent to."""
    placed = ground.readers.get(stream, set())
    here = stream[0] in ground.jobs.homes
    return placed | ground.roots.readers(stream, ground.running, ground.jobs) if here else placed


def is_elsewhere(ground: PlacementBoard, stream: Stream, root: str) -> bool:
    """Whether a stream is sent to another root, so that it cannot be to this one."""
    read = read_on(ground, stream)
    return bool(read) and root not in read


def tears(ground: PlacementBoard, group: Group, job: JobId | None, root: str) -> bool:
    """Whether a stream would be sent to two roots if a group ran in a job on this one; None is a new job."""
    entering = (stream for stream in streams_into(group) if ground.job_of(stream[0]) != job)
    return any(is_elsewhere(ground, stream, root) for stream in entering)


def cores_to_spare(ground: PlacementBoard) -> dict[str, float]:
    """The cores that each host's machine has to spare; below 0 where the jobs there take more than it has."""
    on_host = cores_taken(ground)
    taken: defaultdict[str, float] = defaultdict(float)
    for host in ground.hosts:
        taken[host.shares_cores_with] += on_host[host.name]
    return {host.name: ground.cores[host.name] - taken[host.shares_cores_with] for host in ground.hosts}


def cores_taken(ground: PlacementBoard) -> defaultdict[str, float]:
    """The cores that the jobs of each host take."""
    taken: defaultdict[str, float] = defaultdict(float)
    # In order, because a sum's last digit depends on it and may not decide between two hosts.
    for job in sorted((*ground.jobs.jobs, *ground.opened)):
        taken[ground.host_of(job)] += ground.costs.cores(ground.busy(job))
    return taken
