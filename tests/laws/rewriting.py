"""Other ways to write the same dataflow down, and the small changes that make it another one."""

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import networkx as nx

from dags import AnyTaskType
from tests import catalogue
from tests.strategies import ANNS, Document


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
