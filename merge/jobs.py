"""Jobs as placement sees them: what runs in which job, on which host, what crosses between jobs, what pauses.

A task that nobody needs any more is paused: it stays in the plan of its job, and stops with the job.
"""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, NewType, TypeAlias, TypeVar

import networkx as nx
from rpds import HashTrieMap, HashTrieSet

from merge.errors import StaleChange
from merge.tasks import Instance, RunningTask

JobId = NewType("JobId", int)
End = TypeVar("End")
"""An end of a bridge."""


class Bridge(NamedTuple):
    """A stream that crosses jobs: the output of an instance, needed in another job than its own."""

    parent: Instance
    port: str
    to: JobId


if TYPE_CHECKING:
    _ByEnd: TypeAlias = HashTrieMap[End, HashTrieSet[Bridge]]


class Home(NamedTuple):
    """The job of an instance, and its estimated load when it was placed."""

    job: JobId
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One Spark streaming query and what its plan holds."""

    id: JobId
    host: str
    active: frozenset[Instance] = frozenset()
    paused: frozenset[Instance] = frozenset()
    busy: float = 0.0
    shards: int = 1
    """The tasks that a batch runs as."""
    groups: tuple[int, ...] = ()
    """The shard of each key group; empty to assign them in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A step of the jobs, as data; made by the placements, by `release`, `consolidate` and `isolate`."""

    base: int
    """The version of the jobs that it was computed from."""
    opens: tuple[tuple[JobId, str], ...] = ()
    """New jobs and their hosts."""
    places: tuple[tuple[Instance, Home], ...] = ()
    """Where instances go; one that has a home already moves."""
    pauses: tuple[Instance, ...] = ()
    """What nobody needs any more; it stays in its job's plan."""
    stops: tuple[JobId, ...] = ()
    """Jobs that end, with whatever is paused in them."""
    crossings: tuple[tuple[Bridge, int], ...] = ()
    """For each bridge by how many its consuming streams grow or shrink."""
    shards: tuple[tuple[JobId, int, tuple[int, ...]], ...] = ()
    """The shards of jobs that get others, and the shard of each key group; a new job has one shard otherwise."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Every job that runs. Persistent; begin with the empty one and apply assignments."""

    version: int = 0
    jobs: HashTrieMap[JobId, Job] = field(default_factory=HashTrieMap)
    homes: HashTrieMap[Instance, Home] = field(default_factory=HashTrieMap)
    """Active instances only."""
    bridges: HashTrieMap[Bridge, int] = field(default_factory=HashTrieMap)
    """Each with the number of streams in its job that it feeds."""
    next_job: JobId = JobId(1)
    leaving: HashTrieMap[Instance, HashTrieSet[Bridge]] = field(default_factory=HashTrieMap)
    """The bridges again, by the instance that they come from."""
    entering: HashTrieMap[JobId, HashTrieSet[Bridge]] = field(default_factory=HashTrieMap)
    """And by the job that they lead to, so that neither asks for a walk through all of them."""
    feeding: HashTrieMap[JobId, frozenset[JobId]] = field(default_factory=HashTrieMap)
    """For each job into which bridges lead the jobs that they come from; placing looks far up along these."""
    loads: Mapping[JobId, float] = field(default_factory=dict)
    """How busy each job is, once more: placing looks at all of them, and a persistent map is slow to walk through."""

    @classmethod
    def of(
        cls, jobs: Iterable[Job], homes: Mapping[Instance, Home], bridges: Mapping[Bridge, int], next_job: JobId
    ) -> Jobs:
        """The jobs that somebody has written down."""
        leaving: dict[Instance, set[Bridge]] = {}
        entering: dict[JobId, set[Bridge]] = {}
        for bridge in bridges:
            leaving.setdefault(bridge.parent, set()).add(bridge)
            entering.setdefault(bridge.to, set()).add(bridge)
        there = {job.id: job for job in jobs}
        return cls(
            jobs=HashTrieMap(there),
            homes=HashTrieMap(homes),
            bridges=HashTrieMap(bridges),
            next_job=next_job,
            leaving=HashTrieMap({parent: HashTrieSet(those) for parent, those in leaving.items()}),
            entering=HashTrieMap({job: HashTrieSet(those) for job, those in entering.items()}),
            feeding=HashTrieMap({job: _origins(those, homes) for job, those in entering.items()}),
            loads={job.id: job.busy for job in there.values()},
        )

    def apply(self, assignment: Assignment) -> Jobs:
        """The next jobs. An assignment computed from another version is refused."""
        if assignment.base != self.version:
            raise StaleChange(assignment.base, self.version)
        jobs, homes = self.jobs, self.homes
        drafts = {job: _Draft.of(Job(id=job, host=host)) for job, host in assignment.opens}

        def draft(job: JobId) -> _Draft:
            return drafts.get(job) or drafts.setdefault(job, _Draft.of(jobs[job]))

        for instance in assignment.pauses:
            draft(homes[instance].job).paused.add(instance)
        moving = [instance for instance, _ in assignment.places if instance in homes]
        for instance in (*assignment.pauses, *moving):
            left = homes[instance]
            draft(left.job).active.remove(instance)
            draft(left.job).busy -= left.busy
            homes = homes.remove(instance)
        for instance, home in assignment.places:
            draft(home.job).active.add(instance)
            draft(home.job).busy += home.busy
            homes = homes.insert(instance, home)
        for job, shards, groups in assignment.shards:
            draft(job).job = replace(draft(job).job, shards=shards, groups=groups)
        bridges, leaving, entering = self._crossed(assignment.crossings)
        feeding = self.feeding
        rewired = {bridge.to for bridge, _ in assignment.crossings}
        for job in rewired.union(bridge.to for instance in moving for bridge in leaving.get(instance, ())):
            origins = _origins(entering.get(job, ()), homes)
            feeding = feeding.insert(job, origins) if origins else feeding.discard(job)
        loads = dict(self.loads)
        for job, drafted in drafts.items():
            done = drafted.done()
            jobs, loads[job] = jobs.insert(job, done), done.busy
        for job in assignment.stops:
            jobs = jobs.remove(job)
            del loads[job]
        return Jobs(
            version=self.version + 1,
            jobs=jobs,
            homes=homes,
            bridges=bridges,
            next_job=JobId(self.next_job + len(assignment.opens)),
            leaving=leaving,
            entering=entering,
            feeding=feeding,
            loads=loads,
        )

    def _crossed(
        self, crossings: Iterable[tuple[Bridge, int]]
    ) -> tuple[HashTrieMap[Bridge, int], _ByEnd[Instance], _ByEnd[JobId]]:
        """The bridges after some of them have grown or shrunk, and the same by their ends."""
        bridges, leaving, entering = self.bridges, self.leaving, self.entering
        for bridge, more in crossings:
            count = bridges.get(bridge, 0) + more
            if not count:
                bridges = bridges.discard(bridge)
                leaving, entering = _without(leaving, bridge.parent, bridge), _without(entering, bridge.to, bridge)
            else:
                if bridge not in bridges:
                    leaving, entering = _with(leaving, bridge.parent, bridge), _with(entering, bridge.to, bridge)
                bridges = bridges.insert(bridge, count)
        return bridges, leaving, entering

    def streams_between(self) -> nx.DiGraph[JobId]:
        """The graph of jobs: an edge wherever a bridge leads. It has no cycles."""
        graph: nx.DiGraph[JobId] = nx.DiGraph()
        graph.add_nodes_from(self.jobs)
        graph.add_edges_from((self.homes[bridge.parent].job, bridge.to) for bridge in self.bridges)
        return graph


def _origins(bridges: Iterable[Bridge], homes: Mapping[Instance, Home]) -> frozenset[JobId]:
    return frozenset(homes[bridge.parent].job for bridge in bridges)


def _with(bridges: _ByEnd[End], end: End, bridge: Bridge) -> _ByEnd[End]:
    return bridges.insert(end, bridges.get(end, HashTrieSet()).insert(bridge))


def _without(bridges: _ByEnd[End], end: End, bridge: Bridge) -> _ByEnd[End]:
    left = bridges.get(end, HashTrieSet()).discard(bridge)
    return bridges.insert(end, left) if left else bridges.discard(end)


@dataclass(slots=True)
class _Draft:
    """A job while an assignment is applied to it."""

    job: Job
    active: set[Instance]
    paused: set[Instance]
    busy: float

    @classmethod
    def of(cls, job: Job) -> _Draft:
        return cls(job, set(job.active), set(job.paused), job.busy)

    def done(self) -> Job:
        # An empty job is idle exactly; a difference of sums need not be.
        busy = self.busy if self.active else 0.0
        return replace(self.job, active=frozenset(self.active), paused=frozenset(self.paused), busy=busy)


def crossings(
    tasks: Iterable[RunningTask], homes: Mapping[Instance, JobId], sign: int = 1
) -> tuple[tuple[Bridge, int], ...]:
    """The bridges that the tasks' inputs need, counted by stream and signed; parents need homes too."""
    counts: Counter[Bridge] = Counter()
    for task in tasks:
        to = homes[task.instance]
        for edge in task.inputs:
            parent = Instance(edge.parent)
            if homes[parent] != to:
                counts[Bridge(parent, edge.parent_port, to)] += sign
    return tuple(sorted(counts.items()))


def parents(task: RunningTask) -> Iterator[Instance]:
    """The instances from which streams enter a task."""
    return (Instance(edge.parent) for edge in task.inputs)


MOST_PAUSED = 100
"""The paused tasks that a job keeps, the newest; one that dataflows come to and leave would gather ever more."""


def release(stops: Iterable[RunningTask], jobs: Jobs) -> Assignment:
    """The assignment after an unmerge: pause each stopped task; a job left without active tasks stops."""
    gone = tuple(stops)
    concerned = {instance for task in gone for instance in (task.instance, *parents(task))}
    homes = {instance: jobs.homes[instance].job for instance in concerned}
    left = Counter(homes[task.instance] for task in gone)
    return Assignment(
        base=jobs.version,
        pauses=tuple(task.instance for task in gone),
        stops=tuple(sorted(job for job, count in left.items() if count == len(jobs.jobs[job].active))),
        crossings=crossings(gone, homes, -1),
    )


def trimmed(jobs: Jobs, pausing: Iterable[JobId], stops: Iterable[RunningTask]) -> Jobs:
    """The jobs without the paused tasks that no plan keeps: sources, which have no slot, and all but the newest."""
    sources = {task.instance for task in stops if not task.inputs}
    left = jobs.jobs
    for job in pausing:
        if (placed := left.get(job)) is not None:
            left = left.insert(job, replace(placed, paused=frozenset(sorted(placed.paused - sources)[-MOST_PAUSED:])))
    return replace(jobs, jobs=left)
