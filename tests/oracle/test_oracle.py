"""Signatures, merge, unmerge, rates and savings against a second implementation from the definitions.

A task is what its ancestor graph says: itself and everything above it, with all streams between. Two tasks are
equivalent when these graphs are isomorphic, where tasks carry their type, version and complete config (sources: whose
stream they are) and streams both ports and how often they occur. The paper asks for less, a bijection of config-similar
ancestors that need not respect the streams; `literally_equivalent` keeps that reading for comparison. Nothing is signed
here, and only the catalogue and its types are shared with the code that this checks. Shareable types only.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import networkx as nx
import pytest
from hypothesis import given

from dags import AnyTaskType, Dataflow, Secret
from merge import (
    Amount,
    Instance,
    RunningGraph,
    TaskCounts,
    Weighed,
    counted,
    each_step,
    merge,
    numbered,
    work_saved,
    works,
)
from merge.work import flows
from tests.catalogue import SOURCES, type_of
from tests.graphs import applied, streams_of
from tests.notation import document, flow
from tests.strategies import START, Document, Submit, Walk, families, replay, walks


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


@given(family=families(least=2, most=2))
def test_equal_signatures_are_isomorphic_ancestor_graphs(family: tuple[Document, ...]) -> None:
    """Two tasks of one or two dataflows have equal signatures exactly if they are equivalent by definition."""
    flows = [(flow(written), plain(written, "ann")) for written in family]
    for signed, defined in flows:
        for other_signed, other_defined in flows:
            for task in signed.places:
                for other in other_signed.places:
                    assert equivalent(defined, task, other_defined, other) == (
                        _signature(signed, task) == _signature(other_signed, other)
                    )


@given(walk=walks(most=6))
def test_walks_agree_with_the_definitions(walk: Walk) -> None:
    """Each step starts and stops the right tasks; tasks, streams and DAGs then agree with the definitions."""
    before: dict[str, Plain] = {}
    for step, stage in zip(walk.steps, replay(walk), strict=True):
        if isinstance(step, Submit):
            arriving = plain(walk.documents[step.document], step.tenant)
            assert stage.change.submitted is not None
            started = set(stage.change.residue)
            places = stage.change.submitted.places
            assert residue(before, arriving) == {task for task, place in places.items() if place in started}
            assert set(places.values()) - started == set(stage.change.reuses)
            after = {**before, step.dataflow: arriving}
        else:
            classes = _classes(stage.before)
            assert stopped(before, step.dataflow) == {classes[task.instance] for task in stage.change.stops}
            after = {name: dataflow for name, dataflow in before.items() if name != step.dataflow}
        running, classes = stage.running, _classes(stage.running)
        assert running_tasks(after) == set(classes.values())
        assert len(running.tasks) == len(set(classes.values()))
        graph = streams_of(running)
        streams = {
            (classes[above], ports[0], classes[below], ports[1]): graph.edges[above, below, ports]["times"]
            for above, below, ports in graph.edges(keys=True)
        }
        assert running_streams(after) == streams
        dags: dict[int, set[Named]] = {}
        for instance, members in classes.items():
            dags.setdefault(running.dag_of(instance), set()).update(members)
        assert running_dags(after) == set(map(frozenset, dags.values()))
        before = after


@pytest.mark.parametrize(
    ("one", "other", "literally"),
    [
        pytest.param(
            "s:source > a:map{'add': 1} > b:scale{'factor': 2} > k:sink",
            "s:source > b:scale{'factor': 2} > a:map{'add': 1} > k:sink",
            True,
            id="the same ancestors in another order",
        ),
        pytest.param(
            "s:source > a:map > b:echo > k:sink",
            "s:source > a:map > b:echo > k:sink s > b",
            True,
            id="the same ancestors with a stream more",
        ),
        pytest.param(
            "s:source > p:split p.even > k:sink",
            "s:source > p:split p.odd > k:sink",
            True,
            id="only the port that a stream leaves by differs",
        ),
        pytest.param(
            "s:source > a:map > j:join.left > k:sink s > j.right",
            "s:source > a:map > j:join.right > k:sink s > j.left",
            True,
            id="only the ports that streams enter by differ",
        ),
        pytest.param(
            "s:source > a:map > k:sink s > b:map > k",
            "s:source > a:map > k:sink",
            True,
            id="twins that became one and feed twice",
        ),
        pytest.param(
            "s:source > a:map{'add': 1} > k:sink",
            "s:source > a:map{'add': 2} > k:sink",
            False,
            id="a config that differs is kept apart by both",
        ),
    ],
)
def test_ancestors_alone_do_not_make_tasks_equivalent(
    one: str,
    other: str,
    literally: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """The paper's bijection of ancestors equates these sinks, but their streams differ."""
    first, second = plain(document(one), "ann"), plain(document(other), "ann")
    assert literally_equivalent(first, "k", second, "k") is literally
    assert not equivalent(first, "k", second, "k")
    assert _signature(flow(one), "k") != _signature(flow(other), "k")
    running = applied(RunningGraph(), merge(RunningGraph(), flow(one, "first"), START))
    both = applied(running, merge(running, flow(other, "second"), START))
    assert both.produced("first") != both.produced("second")
    assert residue({"first": first}, second) == {
        task for task, place in both.dataflow("second").places.items() if place not in running.tasks
    }


def _signature(dataflow: Dataflow, task: str) -> bytes:
    return dataflow.tasks[dataflow.places[task]].key.signature


def _classes(running: RunningGraph) -> dict[Instance, Class]:
    """For each running task the tasks of submitted dataflows that it runs for."""
    members: dict[Instance, set[Named]] = {instance: set() for instance in running.tasks}
    for name, submitted in running.dataflows.items():
        for task, instance in submitted.places.items():
            members[instance].add(Named(name, task))
    return {instance: frozenset(found) for instance, found in members.items()}


ARRIVING: Mapping[str, Fraction] = {
    "weather": Fraction(1, 10),
    "traffic": Fraction(3),
    "power": Fraction(7, 3),
    "diary": Fraction(0),
}
SELECTIVITY: Mapping[str, Fraction] = {"window": Fraction(1, 3), "split": Fraction(1, 2), "echo": Fraction(2)}
COST: Mapping[str, Fraction] = {"source": Fraction(1, 4), "sink": Fraction(1, 8), "join": Fraction(3)}


def each_task(_task: Weighed) -> Amount:
    """Cost of 1 for an event at any task, sources and outputs included, as where each task is a thread of its own."""
    return 1


@given(walk=walks(most=6))
def test_work_is_that_of_every_path(walk: Walk) -> None:
    """For what runs, and for each dataflow alone, it is the cost of events on every path from a source."""
    submitted: dict[str, Plain] = {}
    for step, stage in zip(walk.steps, replay(walk), strict=True):
        if isinstance(step, Submit):
            submitted[step.dataflow] = plain(walk.documents[step.document], step.tenant)
            alone = sum(_work(submitted[step.dataflow], task) for task in submitted[step.dataflow].graph)
            dataflow = numbered(flow(walk.documents[step.document], step.dataflow, step.tenant))
            assert alone == sum(works(dataflow, _arriving, cost=_cost, selectivity=_selectivity).values())
        else:
            del submitted[step.dataflow]
        running = works(stage.running.tasks, _arriving, cost=_cost, selectivity=_selectivity)
        assert _running(submitted) == sum(running.values())


def test_rates_of_interleaved_streams_add_up() -> None:
    """A task takes the events of all its inputs, and a double edge brings them twice."""
    found = flows(numbered(flow("s:source > a:map > j:join.left > k:sink s > b:map > j.left s > j.right")), lambda _: 5)
    assert [5, 5, 15, 15] == sorted(each.taken for each in found.values())


def test_selectivity_reduces_the_work_downstream() -> None:
    """Events that a task drops are no work for later tasks."""
    dataflow = numbered(flow("s:source > w:window > m:map > k:sink"))
    found = works(dataflow, lambda _: 6, cost=each_task, selectivity=_selectivity)
    assert {"source": 6, "window": 6, "map": 2, "sink": 2} == {
        task.type.name: found[number] for number, task in dataflow.items()
    }


@pytest.mark.parametrize(("cost", "saved"), [(each_step, 0.0), (each_task, 1 / 6)])
def test_a_shared_source_is_worth_what_an_event_costs_there(cost: Callable[[Weighed], Amount], saved: float) -> None:
    """It saves nothing if sources cost nothing, and one task of six if all cost the same."""
    running = RunningGraph()
    alone = Fraction()
    for name, factor in (("first", 2), ("second", 3)):
        dataflow = flow(f"s:source > b:scale{{'factor': {factor}}} > k:sink", name)
        alone += sum(works(numbered(dataflow), lambda _: 10, cost=cost).values())
        running.advance(merge(running, dataflow, START))
    runs = sum(works(running.tasks, lambda _: 10, cost=cost).values())
    assert work_saved(runs, alone) == saved


def test_a_type_declares_of_how_many_events_it_makes_one() -> None:
    """It counts if the task's selectivity is unknown otherwise, and the config has the number."""
    dataflow = flow("s:source > w:window{'size': 4} > m:map > k:sink")
    found = flows(numbered(dataflow), lambda _: 6)
    assert [6, 6, 1.5, 1.5] == [found[dataflow.places[task]].taken for task in "swmk"]


def test_an_empty_graph_saves_nothing() -> None:
    """No work can be saved."""
    assert work_saved(0, 0) is None


def test_counts_distinguish_kinds_of_tasks() -> None:
    """Sources, steps and outputs, by their ports."""
    dataflow = flow("s:source > a:map > b:map{'add': 3} > k:sink a > l:sink")
    found = counted(task.type for task in dataflow.tasks)
    assert TaskCounts(sources=1, steps=2, outputs=2) == found
    assert found.total == len(dataflow.tasks)


def _running(submitted: Dataflows) -> Fraction:
    members = [next(iter(each)) for each in running_tasks(submitted)]
    return sum((_work(submitted[named.dataflow], named.task) for named in members), Fraction())


def _work(dataflow: Plain, task: str) -> Fraction:
    graph, place = dataflow.graph, dataflow.places[task]
    rate = Fraction()
    for source in (each for each in graph if not graph.in_degree(each)):
        paths = [[place]] if source == place else nx.all_simple_paths(graph, source, place)
        arriving = ARRIVING[graph.nodes[source]["label"][3]]
        rate += sum((arriving * _through(graph, path) for path in paths), Fraction())
    return rate * COST.get(_kind(graph, place), Fraction(1))


def _through(graph: "nx.DiGraph[str]", path: list[str]) -> Fraction:
    """How many of a source's events come down a path, for one that arrives."""
    found = Fraction(1)
    for above, below in pairwise(path):
        found *= SELECTIVITY.get(_kind(graph, above), Fraction(1)) * graph.edges[above, below]["ports"].total()
    return found


def _kind(graph: "nx.DiGraph[str]", task: str) -> str:
    return str(graph.nodes[task]["label"][0])


def _arriving(task: Weighed) -> Fraction:
    return ARRIVING[task.config["source"]]


def _selectivity(task: Weighed) -> Fraction:
    return SELECTIVITY.get(task.type.name, Fraction(1))


def _cost(task: Weighed) -> Fraction:
    return COST.get(task.type.name, Fraction(1))
