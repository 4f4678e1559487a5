"""What running graphs are compared by where instance and DAG ids may differ: everything else, named by keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx

from dags import Dataflow, Key
from merge import DagId, Instance, RunningDags, RunningGraph
from tests.graphs import streams_of


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
