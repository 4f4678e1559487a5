"""An interpreter of the test catalogue's task types: dataflows become outputs, one raw event after the other.

It runs a document as its tenant wrote it, each task on its own. It also runs what the document becomes: the canonical
dataflow, in which equivalent tasks are one, and the running graph, in which it shares tasks with other dataflows. All
three must give the same outputs in the same order, so the order of events may depend on nothing that merging changes:

1. One raw event is worked off in the whole graph before the next comes. Its position is that of all it causes.
2. What a task emits for one position is numbered from 0, over all its ports: the emission index.
3. A task takes what its parents emitted for a position in the order of (its own port, parent's signature, parent's
   scope, parent's port, emission index).
4. A stream with multiplicity n delivers each event n times, right after one another.

Twins that collapse have equal signature and scope, and so, if collapsing is right, equal emissions. By 3 their equal
events have equal places and meet right after one another: where both twins feed one port, the order is x0 x0 x1 x1 and
never x0 x1 x0 x1, which is just what 4 makes of the one that is left of them. That is why the emission index comes
last, and why which twin an event came from has no part in the order. Twins of different scope may have different
emissions; there the scope decides, which a document and the running graph have in common.

The signature of a task is taken from the canonical dataflow and used for this order only; what a task of a document
does comes from the document's own words. A type that may not be shared and a secret have outputs that depend on whose
they are, so that sharing them shows.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from dags import AnyTaskType, Dataflow, Key, Task
from merge import RunningTask
from tests.catalogue import CATALOGUE, type_of


class Event(NamedTuple):
    """What travels in streams."""

    place: str
    value: float


class Raw(NamedTuple):
    """An event as its registered source emits it; its position is its place in the list of all of them."""

    source: str
    event: Event


N = TypeVar("N", bound=Hashable)
"""What tasks are named by: ids in a document, positions in a canonical dataflow, instances in a running graph."""

Rank: TypeAlias = tuple[bytes, tuple[str, str]]
State: TypeAlias = dict[Any, Any]
Emitted: TypeAlias = Iterable[tuple[str, Event]]


class Stream(NamedTuple, Generic[N]):
    """One stream into a task."""

    port: str
    parent: N
    rank: Rank
    """The parent's signature and scope."""
    parent_port: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Generic[N]):
    """One task as the interpreter runs it."""

    type: str
    config: Mapping[str, Any]
    own: str
    """Whose it is: what a type that may not be shared makes its outputs of."""
    streams: tuple[Stream[N], ...] = ()
    start: int = 0
    """The position before which it does not run yet."""


def as_written(
    document: Mapping[str, Any], canonical: Dataflow, starts: Mapping[str, int] | None = None
) -> dict[str, Node[str]]:
    """A document's tasks, each on its own; each may start at a position of its own."""
    places = canonical.places
    types = {task["id"]: type_of(task["type"], task["config"]) for task in document["tasks"]}
    streams: dict[str, list[Stream[str]]] = {task: [] for task in types}
    for stream in document["streams"]:
        origin, to = stream["from"], stream["to"]
        port = stream.get("to_port") or types[to].inputs[0]
        parent_port = stream.get("from_port") or types[origin].outputs[0]
        streams[to].append(Stream(port, origin, _rank(canonical.tasks[places[origin]].key), parent_port))
    return {
        task["id"]: Node(
            type=task["type"],
            config=_with_owner(task["config"], canonical.tenant),
            own=f"{canonical.id} {task['id']}",
            streams=tuple(streams[task["id"]]),
            start=starts[task["id"]] if starts else 0,
        )
        for task in document["tasks"]
    }


def as_merged(tasks: Iterable[tuple[int, Task | RunningTask]]) -> dict[int, Node[int]]:
    """The tasks of a canonical dataflow by position, or of a running graph by instance."""
    named = dict(tasks)
    return {
        name: Node(
            type=task.type.name,
            config=json.loads(task.text)[3],
            own=" ".join(task.key.scope or ("nobody",)),
            streams=tuple(
                Stream(edge.port, edge.parent, _rank(named[edge.parent].key), edge.parent_port, edge.times)
                for edge in task.inputs
            ),
        )
        for name, task in named.items()
    }


class Machine(Generic[N]):
    """Runs tasks and keeps their state, also while some stop and others start."""

    def __init__(self, nodes: Mapping[N, Node[N]]) -> None:
        self._states: dict[N, State] = {}
        self.become(nodes)

    def become(self, nodes: Mapping[N, Node[N]], copies: Mapping[N, N] = MappingProxyType({})) -> None:
        """Run these tasks from now on. Those that ran before go on with their state, the others start empty.

        `copies` has for a task that starts with the state of another one that other.
        """
        self._nodes = nodes
        self._states = {
            name: self._states[name] if name in self._states else deepcopy(self._states.get(copies.get(name, name), {}))
            for name in nodes
        }
        parents = {name: [stream.parent for stream in node.streams] for name, node in nodes.items()}
        self._order = tuple(TopologicalSorter(parents).static_order())
        self.sinks = tuple(name for name, node in nodes.items() if _type(node.type).is_sink)

    def take(self, position: int, raw: Raw) -> dict[N, list[Event]]:
        """Work off one raw event; what reached each sink."""
        emitted: dict[N, list[tuple[str, Event]]] = {}
        for name in self._order:
            node = self._nodes[name]
            behaviour = BEHAVIOURS[node.type.partition(":")[0]]
            emitted[name] = []
            if position >= node.start:
                for port, event in _arriving(node, raw, emitted):
                    emitted[name] += behaviour(node, self._states[name], port, event)
        return {name: [event for _, event in emitted[name]] for name in self.sinks}


def _arriving(node: Node[N], raw: Raw, emitted: Mapping[N, list[tuple[str, Event]]]) -> list[tuple[str, Event]]:
    """What a task takes for one raw event, in the order that the module's docstring gives."""
    if node.type == "source":
        return [("", raw.event)] if node.config["source"] == raw.source else []
    deliveries = [
        ((stream.port, stream.rank, stream.parent_port, index), event)
        for stream in node.streams
        for index, (port, event) in enumerate(emitted[stream.parent])
        if port == stream.parent_port
        for _ in range(stream.times)
    ]
    deliveries.sort(key=lambda delivery: delivery[0])
    return [(place[0], event) for place, event in deliveries]


def _rank(key: Key) -> Rank:
    return key.signature, key.scope or ("", "")


def _type(name: str) -> AnyTaskType:
    found = CATALOGUE.find(name)
    assert found is not None
    return found


def _with_owner(config: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """A config whose secrets belong to the tenant that wrote it, as in a canonical config."""
    return {
        key: {**value, "owner": tenant} if isinstance(value, dict) and "secret" in value else value
        for key, value in config.items()
    }


def _pass_on(_node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    yield "out", event


def _map(node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    yield "out", event._replace(value=event.value + int(node.config.get("add", 0)))


def _scale(node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    yield "out", event._replace(value=event.value * float(node.config.get("factor", 1)))


def _split(_node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    yield "odd" if event.value % 2 else "even", event


def _route(node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    ways = node.config.get("ways", ("even", "odd"))
    yield ways[int(event.value) % len(ways)], event


def _join(_node: Node[N], state: State, port: str, event: Event) -> Emitted:
    if port == "right":
        state["right"] = event.value
    else:
        yield "out", event._replace(value=event.value - state.get("right", 0))


def _echo(node: Node[N], state: State, port: str, event: Event) -> Emitted:
    for _ in range(2):
        yield from _map(node, state, port, event)


def _count(node: Node[N], state: State, _port: str, event: Event) -> Emitted:
    key = getattr(event, node.config.get("by", "place"))
    state[key] = state.get(key, 0) + 1
    yield "out", event._replace(value=state[key])


def _window(node: Node[N], state: State, _port: str, event: Event) -> Emitted:
    block = state.setdefault("block", [])
    block.append(event.value)
    if len(block) == int(node.config.get("size", 3)):
        yield "out", event._replace(value=sum(block))
        block.clear()


def _its_own(node: Node[N], state: State, _port: str, event: Event) -> Emitted:
    """What it emits is drawn from whose it is and how much it has emitted."""
    state["count"] = state.get("count", 0) + 1
    yield "out", event._replace(value=event.value + _drawn(node.type, node.own, state["count"]))


def _fetch(node: Node[N], _state: State, _port: str, event: Event) -> Emitted:
    """What it fetches depends on the secret, and a secret is its owner's."""
    password = node.config["password"]
    yield "out", event._replace(value=event.value + _drawn(password["owner"], password["secret"]))


def _drawn(*words: object) -> int:
    return crc32(repr(words).encode()) % 1_000


BEHAVIOURS: Mapping[str, Callable[[Node[Any], State, str, Event], Emitted]] = {
    "source": _pass_on,
    "map": _map,
    "scale": _scale,
    "split": _split,
    "join": _join,
    "prefer": _pass_on,
    "route": _route,
    "echo": _echo,
    "count": _count,
    "window": _window,
    "random": _its_own,
    "look": _its_own,
    "write": _its_own,
    "fetch": _fetch,
    "anyorder": _pass_on,
    "gpu": _pass_on,
    "fpga": _pass_on,
    "either": _pass_on,
    "lab": _pass_on,
    "sink": _pass_on,
    "file": _pass_on,
}
"""What each type does; for a namespace, what all of its types do."""
