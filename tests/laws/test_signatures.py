"""Laws of the canonical form: only what a task computes decides its signature, and all that it computes."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import AnyTaskType, Catalogue, Dataflow, InvalidDocument, Kind, Source
from dags.canonical import canonicalise
from tests import catalogue
from tests.catalogue import CATALOGUE, SCHEMA, SOURCES, TYPES
from tests.notation import document as written_in
from tests.notation import flow
from tests.strategies import ANNS, Document, documents


def ids_of(document: Document) -> list[str]:
    return [task["id"] for task in document["tasks"]]


def type_of(task: Mapping[str, Any]) -> AnyTaskType:
    return catalogue.type_of(task["type"], task["config"])


def below(document: Document, task: str) -> set[str]:
    """The task and all below it."""
    streams: nx.DiGraph[str] = nx.DiGraph([(stream["from"], stream["to"]) for stream in document["streams"]])
    return {task, *nx.descendants(streams, task)}


def with_ports(document: Document) -> Document:
    """The document with every port spelt out."""
    types = {task["id"]: type_of(task) for task in document["tasks"]}
    streams = [
        {"from_port": types[stream["from"]].outputs[0], "to_port": types[stream["to"]].inputs[0], **stream}
        for stream in document["streams"]
    ]
    return {**document, "streams": streams}


def rewritten(document: Document, names: Mapping[str, str], chance: Random) -> Document:
    """The same computation in other words."""

    def shuffled(values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(chance.sample(list(values.items()), len(values)))

    tasks: list[dict[str, Any]] = []
    for task in document["tasks"]:
        config = type_of(task).config.model_validate_json(json.dumps(task["config"]))
        complete = json.loads(config.model_dump_json()) if chance.random() < 0.5 else task["config"]
        if task["type"] == "anyorder":
            complete = {"names": chance.sample(complete["names"], len(complete["names"]))}
        tasks.append(shuffled({"fresh": False, **task, "id": names[task["id"]], "config": shuffled(complete)}))
    streams = [
        shuffled({**stream, "from": names[stream["from"]], "to": names[stream["to"]]})
        for stream in (with_ports(document) if chance.random() < 0.5 else document)["streams"]
    ]
    chance.shuffle(tasks)
    chance.shuffle(streams)
    return shuffled({"version": 1, "name": "rewritten", "tasks": tasks, "streams": streams})


Changes = Iterator[tuple[Document, str]]
"""Changed documents, each with the first task that the change concerns."""

_OTHER_VALUES: Mapping[str, tuple[dict[str, Any], ...]] = {
    "source": tuple({"source": name} for name in ANNS),
    "map": ({"add": 7},),
    "scale": ({"factor": 7.5}, {"label": "z"}),
    "echo": ({"add": 7},),
    "count": ({"by": "place"}, {"by": "value"}),
    "window": ({"size": 7},),
    "anyorder": ({"names": ["a", "b", "b"]},),
    "fetch": ({"password": {"secret": "other"}},),
    "gpu": ({"needs": "x"},),
    "lab:still": ({"add": 7},),
}
_OTHER_TYPES = {"map": "echo", "random": "look", "look": "write", "write": "random", "sink": "file", "file": "sink"}


def _other_value(document: Document) -> Changes:
    for place, task in enumerate(document["tasks"]):
        complete = {"by": "place"} if task["type"] == "count" else {}
        for value in _OTHER_VALUES.get(task["type"], ()):
            config = {**complete, **task["config"]}
            if config != {**config, **value}:
                yield _with_task(document, place, {**task, "config": {**config, **value}}), task["id"]


def _other_type(document: Document) -> Changes:
    for place, task in enumerate(document["tasks"]):
        if task["type"] in _OTHER_TYPES:
            yield _with_task(document, place, {**task, "type": _OTHER_TYPES[task["type"]]}), task["id"]


def _with_task(document: Document, place: int, task: dict[str, Any]) -> Document:
    return {**document, "tasks": [*document["tasks"][:place], task, *document["tasks"][place + 1 :]]}


def _other_port(side: str) -> Callable[[Document], Changes]:
    def changes(document: Document) -> Changes:
        types = {task["id"]: type_of(task) for task in document["tasks"]}
        streams = document["streams"]
        for place, stream in enumerate(streams):
            kind = types[stream[side]]
            for port in kind.outputs if side == "from" else kind.inputs:
                moved = {**stream, f"{side}_port": port}
                if moved not in streams:
                    yield {**document, "streams": [*streams[:place], moved, *streams[place + 1 :]]}, stream["to"]

    return changes


def _stream_less(document: Document) -> Changes:
    streams = document["streams"]
    for place, stream in enumerate(streams):
        yield {**document, "streams": [*streams[:place], *streams[place + 1 :]]}, stream["to"]


def _stream_more(document: Document) -> Changes:
    types = {task["id"]: type_of(task) for task in document["tasks"]}
    for to, kind in types.items():
        for origin in types.keys() - below(document, to):
            for from_port in types[origin].outputs:
                for to_port in kind.inputs:
                    more = {"from": origin, "from_port": from_port, "to": to, "to_port": to_port}
                    if more not in document["streams"]:
                        yield {**document, "streams": [*document["streams"], more]}, to


CHANGES = (_other_value, _other_type, _other_port("from"), _other_port("to"), _stream_less, _stream_more)


CHANCE = st.randoms(use_true_random=True)


@given(document=documents(), chance=CHANCE)
def test_how_a_dataflow_is_written_down_changes_nothing(document: Document, chance: Random) -> None:
    """Other ids, another order of tasks, streams and keys, defaults spelt out, another name: the same computation."""
    renamed = dict(zip(ids_of(document), chance.sample(range(100, 1000), len(document["tasks"])), strict=True))
    names = {task: f"x{number}" for task, number in renamed.items()}
    one, other = flow(document), flow(rewritten(document, names, chance), "other")
    assert one.tasks == other.tasks
    assert one.parts == other.parts
    assert sorted((names[task], place) for task, place in one.places.items()) == list(other.places.items())
    assert tuple(sorted(names[sink] for sink in one.sinks)) == other.sinks
    assert [(d.id, d.name, d.tenant) for d in (one, other)] == [("flow", "flow", "ann"), ("other", "rewritten", "ann")]


@given(document=documents(confined=True), chance=CHANCE)
def test_the_order_of_a_document_changes_nothing(document: Document, chance: Random) -> None:
    """As long as ids stay scopes stay too: a confined dataflow in another order is the same one."""
    one, other = flow(document), flow(rewritten(document, {task: task for task in ids_of(document)}, chance))
    assert (one.tasks, one.parts, one.sinks) == (other.tasks, other.parts, other.sinks)
    assert list(one.places.items()) == list(other.places.items())


@given(document=documents(confined=True), chance=CHANCE)
def test_ids_change_scopes_and_no_signature(document: Document, chance: Random) -> None:
    """Under other ids every task of a confined dataflow keeps its signature, and is confined or not as before."""
    names = {task: f"{task}-{chance.randrange(1000)}" for task in ids_of(document)}
    one, other = flow(document), flow(rewritten(document, names, chance))
    assert {names[task]: signature for task, signature in _signatures(one).items()} == _signatures(other)
    shared = {task for task, place in one.places.items() if one.tasks[place].key.scope is None}
    assert {names[task] for task in shared} == {
        task for task, place in other.places.items() if other.tasks[place].key.scope is None
    }


@given(document=documents(confined=True), chance=CHANCE)
def test_a_change_shows_in_all_that_follows_and_nowhere_else(document: Document, chance: Random) -> None:
    """Any other config value, type, port or stream changes the signature at and below it, and no other signature."""
    document = with_ports(document)
    before = _signatures(flow(document))
    held = 0
    for change in CHANGES:
        candidates = list(change(document))
        for changed, task in chance.sample(candidates, min(len(candidates), 3)):
            try:
                after = _signatures(flow(changed))
            except InvalidDocument:  # another field is missing then, or nothing feeds a port
                continue
            assert below(changed, task) == {other for other in before if before[other] != after[other]}
            held += 1
    assert held > 0


@given(document=documents(confined=True))
def test_scopes_begin_where_sharing_ends(document: Document) -> None:
    """A task has a scope exactly when it, or one above it, is fresh or of a type that may not be shared."""
    dataflow = flow(document)
    begins = [task["id"] for task in document["tasks"] if task.get("fresh") or not type_of(task).shareable]
    confined = set[str]().union(*(below(document, task) for task in begins))
    assert confined == {t for t, place in dataflow.places.items() if dataflow.tasks[place].key.scope is not None}
    for task in begins:
        assert dataflow.tasks[dataflow.places[task]].key.scope == ("flow", task)


@given(document=documents(), number=st.integers(0, 20))
def test_fresh_confines_and_changes_no_signature(document: Document, number: int) -> None:
    """Asking for a fresh task gives it and all that follows it a scope, and every task the signature it had."""
    fresh = document["tasks"][number % len(document["tasks"])]
    changed = {**document, "tasks": [{**task, "fresh": task is fresh} for task in document["tasks"]]}
    shared, confined = flow(document), flow(changed)
    assert _signatures(shared) == _signatures(confined)
    scopes = {task: confined.tasks[place].key.scope for task, place in confined.places.items()}
    assert below(document, fresh["id"]) == {task for task, scope in scopes.items() if scope is not None}
    assert {task.key.scope for task in shared.tasks} == {None}


@given(document=documents(confined=True))
def test_collapsing_loses_no_stream(document: Document) -> None:
    """Each task of the document is fed as its place among the canonical tasks is: same parents, ports and number."""
    dataflow = flow(document)
    entering: dict[str, Counter[tuple[str, int, str]]] = {task: Counter() for task in ids_of(document)}
    for stream in with_ports(document)["streams"]:
        edge = (stream["to_port"], dataflow.places[stream["from"]], stream["from_port"])
        entering[stream["to"]][edge] += 1
    assert sorted(entering) == list(dataflow.places)
    assert set(range(len(dataflow.tasks))) == set(dataflow.places.values())
    for task, edges in entering.items():
        place = dataflow.places[task]
        assert sorted((*edge, times) for edge, times in edges.items()) == [*dataflow.tasks[place].inputs]
        assert all(edge.parent < place for edge in dataflow.tasks[place].inputs)


@given(document=documents(confined=True))
def test_no_task_is_left_twice(document: Document) -> None:
    """No two canonical tasks have the same signature and scope."""
    keys = [task.key for task in flow(document).tasks]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("s:source > p:split p.even > a:map > k:sink", "s:source > p:split p.odd > a:map > k:sink", "ak"),
        (
            "s:source > a:map > j:join.left > k:sink s > j.right",
            "s:source > a:map > j:join.right > k:sink s > j.left",
            "jk",
        ),
        ("s:source > a:map > k:sink s > b:map > k", "s:source > a:map > k:sink s > b:map > l:sink", "k"),
        (
            "s:source > p:split p.even > a:map > k:sink p.odd > a",
            "s:source > p:split p.even > a:map > k:sink p.odd > l:sink",
            "ak",
        ),
        ("s:source > a:map > b:echo > k:sink", "s:source > b:echo > a:map > k:sink", "abk"),
        ("s:source > a:scale{'label': 'é'} > k:sink", "s:source > a:scale{'label': 'e\u0301'} > k:sink", "ak"),
        ("s:source > a:scale{'factor': 0} > k:sink", "s:source > a:scale{'factor': -0.0} > k:sink", ""),
        ("s:source > a:scale{'factor': 5} > k:sink", "s:source > a:scale{'factor': 5.0} > k:sink", ""),
    ],
)
def test_examples_of_what_a_signature_tells_apart(one: str, other: str, differ: str) -> None:
    """Ports at either end, multiplicity and order of tasks tell apart; how a number or a text is written need not."""
    first, second = _signatures(flow(one)), _signatures(flow(other))
    assert set(differ) == {task for task in first.keys() & second.keys() if first[task] != second[task]}


@pytest.mark.parametrize(
    ("catalogue", "source", "same"),
    [
        (CATALOGUE, SOURCES["weather"], True),
        (CATALOGUE, replace(SOURCES["weather"], readers=frozenset({"eve"})), True),
        (CATALOGUE, replace(SOURCES["weather"], owner="bob"), False),
        (CATALOGUE, replace(SOURCES["weather"], name="climate"), False),
        (CATALOGUE, replace(SOURCES["weather"], schema=SCHEMA.plus("value", Kind.FLOAT)), False),
        (Catalogue.of(replace(kind, version=2) if kind.name == "source" else kind for kind in TYPES), None, False),
        (Catalogue.of(replace(kind, tags=frozenset({"x"})) for kind in TYPES), None, True),
    ],
)
def test_the_registered_source_and_the_version_are_signed(
    catalogue: Catalogue,
    source: Source | None,
    same: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Owner, name and schema of a source and a type's version are part of a signature; names tenants use are not."""
    line = written_in("s:source{'source': 'wx'} > k:sink")
    usual = _signatures(flow("s:source > k:sink"))
    registered = {"wx": source or SOURCES["weather"]}
    other = canonicalise(json.dumps(line), dataflow="flow", tenant="ann", catalogue=catalogue, sources=registered)
    assert [same] * 2 == [signature == usual[task] for task, signature in sorted(_signatures(other).items())]


def test_secrets_are_signed_with_their_owner() -> None:
    """Two tenants' secrets of one name are different configs; one tenant's are the same."""
    line = "s:source > f:fetch{'password': {'secret': 'key'}} > k:sink"
    anns, bobs = _signatures(flow(line, tenant="ann")), _signatures(flow(line, tenant="bob"))
    assert {"f", "k"} == {task for task in anns if anns[task] != bobs[task]}
    assert anns == _signatures(flow(line, "other", tenant="ann"))


def _signatures(dataflow: Dataflow) -> dict[str, bytes]:
    return {task: dataflow.tasks[place].key.signature for task, place in dataflow.places.items()}
