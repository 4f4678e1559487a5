"""Walks through jobs on changing hosts, and pictures of what running graphs are compared by.

Work is counted in sixty-fourths unless a law says otherwise: sums keep them exact, so that capacity is met exactly.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TypeVar

import networkx as nx
from hypothesis import strategies as st
from rpds import HashTrieMap

from dags import Dataflow, Key
from merge import (
    Assignment,
    Bridge,
    Change,
    Costs,
    DagId,
    Host,
    Image,
    Instance,
    JobId,
    Jobs,
    RunningDags,
    RunningGraph,
    consolidate,
    place,
    release,
)
from merge.placement.strategies import STRATEGIES
from tests.graphs import streams_of
from tests.strategies import Document, Walk, replay


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTask:
    """A running task without its instance."""

    text: bytes
    type: str
    streams: frozenset[tuple[str, Key, str, int]]
    """For each edge into it the port, the parent, the parent's port and the multiplicity."""
    users: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDataflow:
    """A submitted dataflow without its instances."""

    tenant: str
    name: str
    places: Mapping[str, Key]
    sinks: tuple[str, ...]
    parts: frozenset[frozenset[Key]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A running graph without instances and DAG ids."""

    tasks: Mapping[Key, SeenTask]
    dataflows: Mapping[str, SeenDataflow]
    dags: frozenset[frozenset[Key]]
    """For each running DAG its sources."""


def picture(running: RunningGraph) -> Picture:
    """What the running graph looks like."""
    keys = {instance: task.key for instance, task in running.tasks.items()}
    return Picture(
        tasks={
            task.key: SeenTask(
                text=task.text,
                type=task.type.name,
                streams=frozenset((e.port, keys[Instance(e.parent)], e.parent_port, e.times) for e in task.inputs),
                users=running.serves(instance),
            )
            for instance, task in running.tasks.items()
        },
        dataflows={
            name: SeenDataflow(
                tenant=submitted.tenant,
                name=submitted.name,
                places={task: keys[instance] for task, instance in submitted.places.items()},
                sinks=submitted.sinks,
                parts=frozenset(frozenset(keys[source] for source in part) for part in submitted.parts),
            )
            for name, submitted in running.dataflows.items()
        },
        dags=frozenset(
            frozenset(keys[source] for source in dag) for dag in sources_by_dag(running.running_dags).values()
        ),
    )


def sources_by_dag(dags: RunningDags) -> Mapping[DagId, frozenset[Instance]]:
    """The sources of each running DAG, as labels keep count of them."""
    sources: dict[DagId, set[Instance]] = {}
    for source, dag in dags.of_source.items():
        sources.setdefault(dag, set()).add(source)
    return {dag: frozenset(members) for dag, members in sources.items()}


def components(running: RunningGraph) -> frozenset[frozenset[Instance]]:
    """The running DAGs by definition: the weakly connected components of all that runs."""
    return frozenset(map(frozenset, nx.weakly_connected_components(streams_of(running))))


def expected(dataflows: Iterable[Dataflow]) -> Picture:
    """What a running graph has to look like when these are submitted, straight from what each of them needs."""
    tasks: dict[Key, SeenTask] = {}
    seen: dict[str, SeenDataflow] = {}
    together: nx.Graph[Key] = nx.Graph()
    for dataflow in dataflows:
        keys = [task.key for task in dataflow.tasks]
        for task in dataflow.tasks:
            others = tasks[task.key].users if task.key in tasks else frozenset()
            tasks[task.key] = SeenTask(
                text=task.text,
                type=task.type.name,
                streams=frozenset((e.port, keys[e.parent], e.parent_port, e.times) for e in task.inputs),
                users=others | {dataflow.id},
            )
            together.add_node(task.key)
            together.add_edges_from((task.key, keys[edge.parent]) for edge in task.inputs)
        seen[dataflow.id] = SeenDataflow(
            tenant=dataflow.tenant,
            name=dataflow.name,
            places={task: keys[place] for task, place in dataflow.places.items()},
            sinks=dataflow.sinks,
            parts=frozenset(frozenset(keys[source] for source in part) for part in dataflow.parts),
        )
    dags = (frozenset(key for key in dag if not tasks[key].streams) for dag in nx.connected_components(together))
    return Picture(tasks=tasks, dataflows=seen, dags=frozenset(dags))


Thing = TypeVar("Thing")

_FAST = Image(name="fast", tags=frozenset({"gpu"}), cores=1.5, start=90.0, price=2.0, most=2)
_FULL = Image(name="full", tags=frozenset({"gpu", "fpga"}), cores=1.0, price=4.0)
HOSTS = (
    Host(name="a", cores=1.5, tags=frozenset({"gpu"}), registered=_FAST),
    Host(name="b", cores=1.0),
    Host(name="c", cores=1.0, tags=frozenset({"gpu", "fpga"}), registered=_FULL),
    Host(name="d", cores=1.75),
)


_PLAIN = frozenset({"map", "scale", "echo", "count", "window", "fetch", "gpu", "lab:still"})
"""Types with one input and one output, in the place of which code may stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under which terms a walk is placed."""

    seed: int
    pace: float
    batch: float
    works: tuple[float, ...]
    """How busy tasks are: an instance as the one at its number, round and round."""

    def costs(self, running: RunningGraph) -> Costs:
        busy = {instance: self.works[instance % len(self.works)] for instance in running.tasks}
        return Costs(pace=self.pace, batch=self.batch, busy=busy, bridge=0.25, paused=0.125)


@dataclass(frozen=True, kw_only=True)
class Move:
    """One step of the jobs: what it was computed from, and what came of it."""

    by: str
    """A placement, `release` or `consolidate`."""
    change: Change
    running: RunningGraph
    before: Jobs
    hosts: tuple[Host, ...]
    costs: Costs

    @cached_property
    def assignment(self) -> Assignment:
        """What the step does to the jobs."""
        if self.by == "release":
            return release(self.change.stops, self.before)
        if self.by == "consolidate":
            return consolidate(self.running, self.before, self.hosts, self.costs)
        residue = self.change.residue
        return place(
            self.by, residue=residue, running=self.running.tasks, jobs=self.before, hosts=self.hosts, costs=self.costs
        )

    @cached_property
    def jobs(self) -> Jobs:
        """The jobs after it."""
        return self.before.apply(self.assignment)

    def fits_a_job(self, instances: frozenset[Instance]) -> bool:
        """Whether a new job could hold these."""
        offered = any(tags(instances, self.running) <= host.tags for host in self.hosts)
        trusted = len(owners(instances, self.running)) <= 1
        return offered and trusted and self.costs.fits(work(instances, self.costs))


@st.composite
def terms(draw: st.DrawFn, *, unit: float = 1 / 64) -> Terms:
    """Tasks from idle to too busy for any job, and batches that leave more or less room for them."""
    chance = draw(st.randoms(use_true_random=True))
    return Terms(
        seed=chance.getrandbits(32),
        pace=chance.choice((1.0, 2.0)),
        batch=chance.choice((0, 8, 16)) * unit,
        works=tuple(chance.choice((0, 0, 1, 2, 4, 8, 12, 16, 24, 40)) * unit for _ in range(7)),
    )


def moves(walk: Walk, terms: Terms, *strategies: str, often: float = 0.2) -> Iterator[Move]:
    """Place a walk, each submission in any of the ways, and consolidate so often."""
    chance = Random(terms.seed)
    jobs = Jobs()
    for stage in replay(walk):
        by = chance.choice(strategies or tuple(STRATEGIES)) if stage.change.submitted else "release"
        for step in (by, "consolidate") if chance.random() < often else (by,):
            move = Move(
                by=step,
                change=stage.change,
                running=stage.running,
                before=jobs,
                hosts=some_hosts(chance),
                costs=terms.costs(stage.running),
            )
            jobs = move.jobs
            yield move


def some_hosts(chance: Random) -> tuple[Host, ...]:
    """Hosts that come and go; one that offers what the walks need is always there."""
    return tuple(sorted({chance.choice((HOSTS[0], HOSTS[2])), *chance.sample(HOSTS, 2)}, key=lambda host: host.name))


def bridges(running: RunningGraph, homes: Mapping[Instance, JobId]) -> dict[Bridge, int]:
    """The bridges by definition: every stream into another job, with how many inputs read it there."""
    return Counter(
        Bridge(Instance(edge.parent), edge.parent_port, homes[instance])
        for instance, task in running.tasks.items()
        for edge in task.inputs
        if homes[Instance(edge.parent)] != homes[instance]
    )


def at_home(jobs: Jobs) -> dict[Instance, JobId]:
    """The job of each instance."""
    return {instance: home.job for instance, home in jobs.homes.items()}


def is_acyclic(running: RunningGraph, homes: Mapping[Instance, JobId]) -> bool:
    """Whether the graph of jobs has no cycles, straight from the running graph."""
    graph: nx.DiGraph[JobId] = nx.DiGraph()
    graph.add_edges_from((homes[bridge.parent], bridge.to) for bridge in bridges(running, homes))
    return nx.is_directed_acyclic_graph(graph)


def work(instances: frozenset[Instance], costs: Costs) -> float:
    return sum(costs.busy[instance] for instance in instances)


def has_room_or_none_helps(active: frozenset[Instance], costs: Costs) -> bool:
    """Whether a job is within capacity; or else one task alone is too much, and others are bearable or idle."""
    works = sorted(costs.busy[instance] for instance in active)
    bearable = costs.batch + costs.pace * sum(works) <= costs.pace * 0.8
    return costs.fits(sum(works)) or (not costs.fits(works[-1]) and (bearable or not any(works[:-1])))


def tags(instances: frozenset[Instance], running: RunningGraph) -> frozenset[str]:
    return frozenset[str]().union(*(running.tasks[instance].tags for instance in instances))


def owners(instances: Iterable[Instance], running: RunningGraph) -> set[str]:
    """Whose code is among these."""
    tasks = (running.tasks[instance] for instance in instances)
    return {str(task.config["owner"]) for task in tasks if task.type.name == "connecting_code"} - {""}


def coded(walk: Walk) -> Walk:
    """The walk with code of tenants, or of an operator, in the place of some of its tasks."""

    def written(document: Document, at: int) -> Document:
        tasks = [
            {**task, "type": "connecting_code", "config": {"owner": ("ann", "bob", "")[(at + number) % 3]}}
            if task["type"] in _PLAIN
            else task
            for number, task in enumerate(document["tasks"])
        ]
        return {**document, "tasks": tasks}

    return replace(walk, documents=tuple(written(each, at) for at, each in enumerate(walk.documents)))


def parts(instances: tuple[Instance, ...], running: RunningGraph) -> list[frozenset[Instance]]:
    """The connected parts of these, the oldest first."""
    streams: nx.Graph[Instance] = nx.Graph(streams_of(running).subgraph(instances))
    return sorted(map(frozenset, nx.connected_components(streams)), key=min)


def seen(jobs: Jobs) -> tuple[object, ...]:
    """Everything that jobs hold, as it is now."""
    return dict(jobs.jobs), dict(jobs.homes), dict(jobs.bridges), jobs.version, jobs.next_job


def otherwise_ordered(move: Move, chance: Random) -> Move:
    """The same step, with everything that has no order given in another one."""
    running, jobs = move.running, move.before
    return replace(
        move,
        running=replace(running, tasks=dict(_shuffled(running.tasks.items(), chance))),
        before=replace(
            jobs,
            jobs=HashTrieMap(_shuffled(jobs.jobs.items(), chance)),
            homes=HashTrieMap(_shuffled(jobs.homes.items(), chance)),
            bridges=HashTrieMap(_shuffled(jobs.bridges.items(), chance)),
        ),
        hosts=tuple(_shuffled(move.hosts, chance)),
        costs=replace(move.costs, busy=dict(_shuffled(move.costs.busy.items(), chance))),
    )


def _shuffled(things: Iterable[Thing], chance: Random) -> list[Thing]:
    mixed = list(things)
    chance.shuffle(mixed)
    return mixed
