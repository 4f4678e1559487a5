"""Merging a second time, slowly, straight from the paper's definitions as the design corrects them.

A task is what its ancestor graph says: itself and everything above it, with all streams between. Two tasks are
equivalent when these graphs are isomorphic, where tasks carry their type, version and complete config (sources: whose
stream they are) and streams both ports and how often they occur. The paper asks for less, a bijection of config-similar
ancestors that need not respect the streams; `literally_equivalent` keeps that reading for comparison. Nothing is signed
here, and only the catalogue and its types are shared with the code that this checks. Shareable types only.
"""

import json
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import networkx as nx

from dags import AnyTaskType, Secret
from tests.catalogue import SOURCES, type_of
from tests.strategies import Document


class Plain(NamedTuple):
    """A dataflow without duplicates."""

    graph: "nx.DiGraph[str]"
    """Tasks, each with its `label`; streams with their `ports`: how often which pair of ports is joined."""
    places: Mapping[str, str]
    """The task that each of the document's tasks is equivalent to."""


class Named(NamedTuple):
    """A task of a submitted dataflow."""

    dataflow: str
    task: str


Class = frozenset[Named]
"""All tasks of all submitted dataflows that are equivalent: one of them has to run."""

Dataflows = Mapping[str, Plain]
"""What is submitted."""


def plain(document: Document, tenant: str) -> Plain:
    """The dataflow of a document: equivalent tasks become one, until none are left."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    types = {task["id"]: _type(task) for task in document["tasks"]}
    for task in document["tasks"]:
        graph.add_node(task["id"], label=_label(task, tenant))
    for stream in document["streams"]:
        from_port = stream.get("from_port", types[stream["from"]].outputs[0])
        to_port = stream.get("to_port", types[stream["to"]].inputs[0])
        _add_streams(graph, stream["from"], stream["to"], Counter([(from_port, to_port)]))
    places = {task: task for task in graph}
    while (twins := _twins(graph)) is not None:
        kept, dropped = twins
        for below in list(graph.successors(dropped)):
            _add_streams(graph, kept, below, graph.edges[dropped, below]["ports"])
        graph.remove_node(dropped)
        places = {task: kept if place == dropped else place for task, place in places.items()}
    return Plain(graph, places)


def ancestor_graph(dataflow: Plain, task: str) -> "nx.DiGraph[str]":
    """The task and all its ancestors with the streams between them."""
    return _ancestor_graph(dataflow.graph, dataflow.places[task])


def equivalent(one: Plain, task: str, other: Plain, other_task: str) -> bool:
    """Whether two tasks compute the same, so that one can replace the other."""
    return _isomorphic(ancestor_graph(one, task), ancestor_graph(other, other_task))


def literally_equivalent(one: Plain, task: str, other: Plain, other_task: str) -> bool:
    """The paper's definition to the letter: some bijection of the ancestors, whatever streams join them."""
    mine, theirs = ancestor_graph(one, task), ancestor_graph(other, other_task)
    return bool(
        mine.nodes[one.places[task]] == theirs.nodes[other.places[other_task]]
        and Counter(label for _, label in mine.nodes(data="label"))
        == Counter(label for _, label in theirs.nodes(data="label"))
    )


def running_tasks(dataflows: Dataflows) -> set[Class]:
    """Everything that has to run: each distinct task once."""
    classes: list[list[Named]] = []
    for name, dataflow in dataflows.items():
        for task in dataflow.places:
            for members in classes:
                if equivalent(dataflow, task, dataflows[members[0].dataflow], members[0].task):
                    members.append(Named(name, task))
                    break
            else:
                classes.append([Named(name, task)])
    return {frozenset(members) for members in classes}


def running_streams(dataflows: Dataflows) -> Counter[tuple[Class, str, Class, str]]:
    """Every stream between running tasks: from where and which port, to where and which port, how often."""
    of = {named: members for members in running_tasks(dataflows) for named in members}
    streams: Counter[tuple[Class, str, Class, str]] = Counter()
    for name, dataflow in dataflows.items():
        for above, below in dataflow.graph.edges:
            for (from_port, to_port), times in dataflow.graph.edges[above, below]["ports"].items():
                streams[of[Named(name, above)], from_port, of[Named(name, below)], to_port] = times
    return streams


def running_dags(dataflows: Dataflows) -> set[frozenset[Named]]:
    """What hangs together, through streams or by being one task."""
    together: nx.Graph[Named] = nx.Graph()
    for members in running_tasks(dataflows):
        nx.add_path(together, members)
    for name, dataflow in dataflows.items():
        together.add_edges_from((Named(name, above), Named(name, below)) for above, below in dataflow.graph.edges)
    return set(map(frozenset, nx.connected_components(together)))


def residue(dataflows: Dataflows, arriving: Plain) -> set[str]:
    """The tasks of an arriving dataflow that nothing submitted supplies; all others are reused."""
    return {
        task
        for task in arriving.places
        if not any(
            equivalent(arriving, task, dataflow, theirs) for dataflow in dataflows.values() for theirs in dataflow.graph
        )
    }


def stopped(dataflows: Dataflows, leaving: str) -> set[Class]:
    """What only a leaving dataflow needs: tasks in no ancestor graph of a sink of those that remain."""
    remaining = {name: dataflow for name, dataflow in dataflows.items() if name != leaving}
    return {
        members for members in running_tasks(dataflows) if not any(named.dataflow in remaining for named in members)
    }


def _type(task: Mapping[str, Any]) -> AnyTaskType:
    return type_of(task["type"], task["config"])


def _label(task: Mapping[str, Any], tenant: str) -> tuple[Any, ...]:
    """What must be equal for two tasks to be config-similar."""
    kind = _type(task)
    if kind.is_source:
        source = SOURCES[task["config"]["source"]]
        return kind.name, kind.version, source.owner, source.name
    config = kind.config.model_validate_json(json.dumps(task["config"]))
    if kind.normalise is not None:
        config = kind.normalise(config)
    # A secret belongs to the tenant that names it.
    owner = tenant if any(isinstance(value, Secret) for _, value in config) else None
    return kind.name, kind.version, config, owner


def _add_streams(graph: "nx.DiGraph[str]", above: str, below: str, ports: Counter[tuple[str, str]]) -> None:
    there: Counter[tuple[str, str]] = graph.edges[above, below]["ports"] if graph.has_edge(above, below) else Counter()
    graph.add_edge(above, below, ports=there + ports)


def _twins(graph: "nx.DiGraph[str]") -> tuple[str, str] | None:
    """Two equivalent tasks, if there are any."""
    for one, other in combinations(graph, 2):
        if _isomorphic(_ancestor_graph(graph, one), _ancestor_graph(graph, other)):
            return one, other
    return None


def _ancestor_graph(graph: "nx.DiGraph[str]", task: str) -> "nx.DiGraph[str]":
    return graph.subgraph({task, *nx.ancestors(graph, task)})


def _isomorphic(one: "nx.DiGraph[str]", other: "nx.DiGraph[str]") -> bool:
    """Whether two ancestor graphs are the same but for names.

    The task itself is the only one in its ancestor graph without a stream out of it, and so maps to the other.
    """
    return nx.is_isomorphic(
        one,
        other,
        node_match=lambda mine, theirs: mine["label"] == theirs["label"],
        edge_match=lambda mine, theirs: mine["ports"] == theirs["ports"],
    )
