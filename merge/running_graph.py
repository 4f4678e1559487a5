"""The running graph: every distinct task that some submitted dataflow needs, and who needs it.

`merge` and `unmerge` read the graph and return a `Change`; only advancing by it changes the graph, at a cost that
depends on the change alone. Plain dictionaries hold the tasks, because persistent maps were measured twice as slow at
lookups by key. The users of a task are a small tuple for most tasks, which takes a quarter of a set's memory, and a set
for the popular ones, where a tuple would be copied whole at every submission.

Running DAGs are the connected components of the graph, tracked on the small graph of its sources: two are connected
exactly when a chain of dataflows' connected parts joins them. Each part of a submitted dataflow links its sources into
a path, and links are counted. Joining relabels the smaller side. Only a link that falls to zero causes a search, which
walks from both ends by turns and so costs no more than the smaller side of a split.
"""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NewType, TypeAlias

from rpds import HashTrieMap

from dags import Key
from merge.errors import NoSuchDataflow, StaleChange
from merge.tasks import FIRST_INSTANCE, Instance, RunningTask, Submitted

DagId = NewType("DagId", int)
Parts = Iterable[tuple[Instance, ...]]


@dataclass(frozen=True, slots=True)
class RunningDags:
    """The running DAG of each source, and the counted links that connect sources."""

    of_source: HashTrieMap[Instance, DagId] = field(default_factory=HashTrieMap)
    links: HashTrieMap[Instance, HashTrieMap[Instance, int]] = field(default_factory=HashTrieMap)
    next_dag: DagId = DagId(1)

    def join(self, parts: Parts) -> RunningDags:
        """Add the links of a submitted dataflow's parts. Running DAGs that become one take the id of the larger.

        >>> sorted(RunningDags().join([(1, 2), (3,)]).join([(2, 3)]).of_source.items())
        [(1, 1), (2, 1), (3, 1)]
        """
        dags = self
        for part in parts:
            if part[0] not in dags.of_source:
                dags = replace(_relabelled(dags, part[:1], dags.next_dag), next_dag=DagId(dags.next_dag + 1))
            for one, other in pairwise(part):
                if other not in dags.of_source:
                    dags = _relabelled(dags, [other], dags.of_source[one])
                elif dags.of_source[one] != dags.of_source[other]:
                    side = _smaller_side(dags, one, other) or frozenset()
                    dags = _relabelled(dags, side, dags.of_source[other if one in side else one])
                dags = _counted(dags, one, other, +1)
        return dags

    def leave(self, parts: Parts, stopped: frozenset[Instance]) -> RunningDags:
        """Take back the links of a removed dataflow's parts, whose stopped sources go; what falls apart gets new ids.

        >>> sorted(RunningDags().join([(1, 2)]).leave([(1, 2)], frozenset()).of_source.items())
        [(1, 2), (2, 1)]
        """
        dags = self
        for part in parts:
            for one, other in pairwise(part):
                if one in stopped or other in stopped:
                    dags = _counted(dags, one, other, -1)
            left = [source for source in part if source not in stopped]
            neighbours = set(pairwise(part))
            # Sources that were joined only through a stopped one get a link of their own for the moment: taking back
            # one link after the other, each separation is found with the rest still in place.
            for pair in pairwise(left):
                if pair not in neighbours:
                    dags = _counted(dags, *pair, +1)
            for one, other in pairwise(left):
                dags = _counted(dags, one, other, -1)
                if other not in dags.links.get(one, {}) and (side := _smaller_side(dags, one, other)) is not None:
                    dags = replace(_relabelled(dags, side, dags.next_dag), next_dag=DagId(dags.next_dag + 1))
            for source in stopped.intersection(part):
                dags = replace(dags, of_source=dags.of_source.remove(source))
        return dags


def _relabelled(dags: RunningDags, sources: Iterable[Instance], dag: DagId) -> RunningDags:
    of_source = dags.of_source
    for source in sources:
        of_source = of_source.insert(source, dag)
    return replace(dags, of_source=of_source)


def _counted(dags: RunningDags, one: Instance, other: Instance, more: int) -> RunningDags:
    links = dags.links
    for here, there in ((one, other), (other, one)):
        around = links.get(here, HashTrieMap())
        count = around.get(there, 0) + more
        around = around.insert(there, count) if count else around.discard(there)
        links = links.insert(here, around) if around else links.discard(here)
    return replace(dags, links=links)


def _smaller_side(dags: RunningDags, one: Instance, other: Instance) -> frozenset[Instance] | None:
    """The side that is walked through first, or None where the two are connected."""
    seen: tuple[set[Instance], set[Instance]] = ({one}, {other})
    walks = _walk(dags, one, seen[0]), _walk(dags, other, seen[1])
    while True:
        for mine, theirs, walk in ((seen[0], seen[1], walks[0]), (seen[1], seen[0], walks[1])):
            source = next(walk, None)
            if source is None:
                return frozenset(mine)
            if source in theirs:
                return None


def _walk(dags: RunningDags, start: Instance, seen: set[Instance]) -> Iterator[Instance]:
    """Follow the links, one at each step, noting what was seen."""
    open_ends = [start]
    while open_ends:
        for source in dags.links.get(open_ends.pop(), HashTrieMap()):
            if source not in seen:
                seen.add(source)
                open_ends.append(source)
            yield source


Users: TypeAlias = tuple[str, ...] | set[str]

FEW = 8


def with_user(users: Users, dataflow: str) -> Users:
    """The users and one more; a set is changed in place.

    >>> with_user(("a",), "b")
    ('a', 'b')
    """
    if isinstance(users, set):
        users.add(dataflow)
        return users
    return (*users, dataflow) if len(users) < FEW else {*users, dataflow}


def without_user(users: Users, dataflow: str) -> Users:
    """The users less one; a set is changed in place, until few are left.

    >>> without_user(("a", "b"), "a")
    ('b',)
    """
    if isinstance(users, set):
        users.discard(dataflow)
        return users if len(users) > FEW else tuple(sorted(users))
    return tuple(user for user in users if user != dataflow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the running graph; made by `merge`, `unmerge` and `swap`, applied by `RunningGraph.advance`."""

    base: int
    """The version of the running graph that it was computed from."""
    submitted: Submitted | None = None
    """The dataflow that arrives."""
    removed: Submitted | None = None
    """The dataflow that goes."""
    starts: tuple[RunningTask, ...] = ()
    """The residue: what nothing running can supply. Each after its parents."""
    reuses: tuple[Instance, ...] = ()
    """What already runs and serves the dataflow too."""
    releases: tuple[Instance, ...] = ()
    """What runs on, for others only."""
    stops: tuple[RunningTask, ...] = ()
    """What nobody needs any more. Each before its parents."""
    running_dags: RunningDags
    """The running DAGs afterwards."""
    next_instance: Instance

    @property
    def residue(self) -> tuple[Instance, ...]:
        """The instances that start."""
        return tuple(task.instance for task in self.starts)


@dataclass(slots=True)
class RunningGraph:
    """All that runs, and for whom. Begin with the empty one; one committer applies changes, in order."""

    version: int = 0
    tasks: dict[Instance, RunningTask] = field(default_factory=dict)
    index: dict[Key, Instance] = field(default_factory=dict)
    users: dict[Instance, Users] = field(default_factory=dict)
    """The dataflows that each task serves."""
    dataflows: dict[str, Submitted] = field(default_factory=dict)
    running_dags: RunningDags = field(default_factory=RunningDags)
    next_instance: Instance = FIRST_INSTANCE

    def advance(self, change: Change) -> None:
        """Become the next running graph. A change computed from another version is refused and leaves no trace."""
        if change.base != self.version:
            raise StaleChange(change.base, self.version)
        if (removed := change.removed) is not None:
            del self.dataflows[removed.id]
            for instance in change.releases:
                self.users[instance] = without_user(self.users[instance], removed.id)
            for task in change.stops:
                del self.tasks[task.instance], self.index[task.key], self.users[task.instance]
        if (submitted := change.submitted) is not None:
            self.dataflows[submitted.id] = submitted
            for instance in change.reuses:
                self.users[instance] = with_user(self.users[instance], submitted.id)
            for task in change.starts:
                self.users[task.instance] = (submitted.id,)
                self.tasks[task.instance] = task
                self.index[task.key] = task.instance
        self.version += 1
        self.running_dags = change.running_dags
        self.next_instance = change.next_instance

    def snapshot(self) -> RunningGraph:
        """A copy that stays as it is, made in some milliseconds for a hundred thousand tasks."""
        return replace(
            self, tasks=dict(self.tasks), index=dict(self.index), users=dict(self.users), dataflows=dict(self.dataflows)
        )

    def dataflow(self, dataflow: str) -> Submitted:
        """The submitted dataflow of that id."""
        submitted = self.dataflows.get(dataflow)
        if submitted is None:
            raise NoSuchDataflow(dataflow)
        return submitted

    def produced(self, dataflow: str) -> dict[str, Instance]:
        """The instance that produces each sink of a dataflow."""
        submitted = self.dataflow(dataflow)
        places = submitted.places
        return {sink: places[sink] for sink in submitted.sinks}

    def serves(self, instance: Instance) -> frozenset[str]:
        """The dataflows that a running task serves."""
        return frozenset(self.users[instance])

    def tenants_of(self, instance: Instance) -> frozenset[str]:
        """The tenants that a task serves; none if it does not run."""
        return frozenset(self.dataflows[user].tenant for user in self.users.get(instance, ()))

    def only_for(self, tenants: Container[str]) -> frozenset[Instance]:
        """The tasks that nobody needs but some of these tenants."""
        theirs = (dataflow for dataflow in self.dataflows.values() if dataflow.tenant in tenants)
        instances = frozenset(instance for dataflow in theirs for instance in dataflow.instances)
        return frozenset(
            instance for instance in instances if all(name in tenants for name in self.tenants_of(instance))
        )

    def dag_of(self, instance: Instance) -> DagId:
        """The running DAG that a task belongs to: that of any source above it."""
        while (task := self.tasks[instance]).inputs:
            instance = Instance(task.inputs[0].parent)
        return self.running_dags.of_source[instance]

    def dags_of(self, dataflow: str) -> frozenset[DagId]:
        """The running DAGs that a dataflow is in: one for each of its connected parts, fewer where others join them."""
        return frozenset(self.running_dags.of_source[part[0]] for part in self.dataflow(dataflow).parts)
