"""What the laws are tried on: random documents over the test catalogue, families of them that share, and walks.

Hypothesis draws sizes and seeds; within them chance decides. Drawn choice by choice, dataflows that join what ran apart
came up too rarely to test anything; this way a smaller size is still a part of the same larger case, so that failures
shrink. Everything is built up, nothing filtered out: a dataflow grows task by task, each fed from what is there, and
every task that nobody consumes is led into a sink. Few types and few values make overlaps frequent, and the documents
of a family take most of their tasks from one pool.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from dags import Dataflow, Kind
from merge import Change, RunningGraph, merge, unmerge
from tests.catalogue import type_of
from tests.graphs import applied
from tests.notation import flow

Document = dict[str, Any]

START = datetime(2024, 3, 1, 7, 31, 5, 250, tzinfo=UTC)
"""When the first step of a walk happens; each further one comes forty minutes later."""
PACE = timedelta(minutes=40)

ANNS = ("weather", "traffic", "power", "diary")
"""What ann may read, the widest choice there is."""
SHARED = ("weather", "traffic", "power")
"""What both ann and bob may read."""
PUBLIC = ("weather", "traffic")
"""What everybody may read."""

_SHAREABLE: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (
    ("map", ({}, {"add": 0}, {"add": 1})),
    ("scale", ({"factor": 2}, {"factor": 2.0, "label": ""}, {"label": "é"})),
    ("split", ({},)),
    ("split", ({},)),
    ("join", ({},)),
    ("join", ({},)),
    ("prefer", ({},)),
    ("route", ({}, {"ways": ["a"]}, {"ways": ["a", "b"]})),
    ("echo", ({}, {"add": 1})),
    ("count", ({}, {"by": "place"}, {"by": "value"})),
    ("window", ({}, {"size": 2})),
    ("anyorder", ({"names": ["a", "b"]}, {"names": ["b", "a"]})),
    ("fetch", ({"password": {"secret": "key"}},)),
    ("gpu", ({},)),
    ("lab:still", ({}, {"add": 1})),
)
_CONFINED: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (("random", ({},)), ("look", ({},)), ("write", ({},)))
_NAMES = tuple("abcdefghijklmnopqrstuvwxyz") + tuple(f"{x}{y}" for x in "tuv" for y in "012345")
_CHANCE = st.randoms(use_true_random=True)


def _up_to(most: int) -> st.SearchStrategy[int]:
    """A size. Not of `integers`, since hypothesis would swap it with others of its kind and leave most cases small."""
    return st.sampled_from(range(most + 1))


class Stream(NamedTuple):
    """One stream into a vertex; the parent is a position."""

    parent: int
    from_port: str
    to_port: str


class Vertex(NamedTuple):
    """One task while its dataflow grows; it stands after its parents."""

    type: str
    config: dict[str, Any]
    streams: tuple[Stream, ...] = ()
    fresh: bool = False
    value: Kind = Kind.INTEGER
    """The kind of the events' value; streams of different kinds would lose the field where they meet."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The ports that it may be fed at."""
        return type_of(self.type, self.config).inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The ports that consumers may be fed from."""
        return type_of(self.type, self.config).outputs


@st.composite
def documents(draw: st.DrawFn, *, confined: bool = False, sources: Sequence[str] = ANNS, most: int = 7) -> Document:
    """A valid document of up to `most` tasks between sources and sinks.

    With `confined` it also has task types that may not be shared, and fresh tasks.
    """
    chance = draw(_CHANCE)
    pool = _pool(chance, sources, draw(_up_to(most)), confined=confined)
    return _document(chance, pool, confined=confined)


@st.composite
def families(
    draw: st.DrawFn, *, confined: bool = False, sources: Sequence[str] = ANNS, least: int = 1, most: int = 4
) -> tuple[Document, ...]:
    """Several documents, each a part of one pool of tasks and now and then some tasks more."""
    chance = draw(_CHANCE)
    seeds = [chance.getrandbits(32) for _ in range(most)]
    pool = _pool(chance, sources, draw(_up_to(7)), confined=confined)
    made: list[Document] = []
    for seed in seeds[: least + draw(_up_to(most - least))]:
        each = Random(seed)
        made.append(_document(each, _some_of(each, pool, confined=confined), confined=confined))
    return tuple(made)


class Submit(NamedTuple):
    """A step of a walk: one of its documents is submitted."""

    document: int
    dataflow: str
    tenant: str


class Remove(NamedTuple):
    """A step of a walk: a dataflow is removed."""

    dataflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Documents, and the order in which they come and go."""

    documents: tuple[Document, ...]
    steps: tuple[Submit | Remove, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a walk as it was done; made by `replay`."""

    before: RunningGraph
    change: Change
    running: RunningGraph
    dataflows: Mapping[str, Dataflow]
    """What is submitted after the step."""


@st.composite
def walks(
    draw: st.DrawFn,
    *,
    confined: bool = False,
    sources: Sequence[str] = SHARED,
    tenants: Sequence[str] = ("ann", "bob"),
    most: int = 12,
) -> Walk:
    """A walk of up to `most` steps; documents are submitted more than once, and ids of removed dataflows used again."""
    chance = draw(_CHANCE)
    family = draw(families(confined=confined, sources=sources, least=2, most=6))
    submitted: list[str] = []
    steps: list[Submit | Remove] = []
    for _ in range(draw(_up_to(most))):
        # While few are submitted, removing is the rarer step.
        if chance.randrange(len(submitted) + 5) < len(submitted):
            steps.append(Remove(submitted.pop(chance.randrange(len(submitted)))))
        else:
            dataflow = chance.choice([name for name in _NAMES[: len(submitted) + 3] if name not in submitted])
            submitted.append(dataflow)
            steps.append(Submit(chance.randrange(len(family)), dataflow, chance.choice(tenants)))
    return Walk(documents=family, steps=tuple(steps))


def replay(walk: Walk, running: RunningGraph | None = None) -> Iterator[Stage]:
    """Do a walk, from the empty running graph or a given one."""
    before = RunningGraph() if running is None else running
    dataflows: dict[str, Dataflow] = {}
    for number, step in enumerate(walk.steps):
        if isinstance(step, Submit):
            dataflow = flow(walk.documents[step.document], step.dataflow, step.tenant)
            dataflows = {**dataflows, step.dataflow: dataflow}
            change = merge(before, dataflow, START + number * PACE)
        else:
            dataflows = {name: dataflow for name, dataflow in dataflows.items() if name != step.dataflow}
            change = unmerge(before, step.dataflow)
        after = applied(before, change)
        yield Stage(before=before, change=change, running=after, dataflows=dataflows)
        before = after


def ran(walk: Walk) -> RunningGraph:
    """The running graph at the end of a walk."""
    running = RunningGraph()
    for stage in replay(walk):
        running = stage.running
    return running


def _pool(chance: Random, sources: Sequence[str], tasks: int, *, confined: bool) -> list[Vertex]:
    """Up to three sources and tasks below them, without sinks."""
    roots = chance.sample(sources, min(chance.choice((1, 2, 3, 3, 3)), len(sources)))
    grown = [Vertex("source", {"source": name}) for name in roots]
    for _ in range(tasks):
        grown.append(_vertex(chance, grown, confined=confined))
    return grown


def _vertex(chance: Random, grown: Sequence[Vertex], *, confined: bool) -> Vertex:
    """One task more: a twin of one that is there, or one fed from what is there."""
    if chance.random() < 0.2:
        return chance.choice(grown)
    name, configs = chance.choice(_SHAREABLE + _CONFINED if confined else _SHAREABLE)
    config = chance.choice(configs)
    kind = type_of(name, config)
    streams: dict[Stream, None] = {}
    first = chance.randrange(len(grown))
    for port in kind.inputs:
        if port in kind.optional and chance.random() < 0.5:
            continue
        # Often another port is fed by the same task, which also keeps tasks below different sources apart.
        first = first if chance.random() < 0.7 else chance.randrange(len(grown))
        alike = [place for place, vertex in enumerate(grown) if vertex.value is grown[first].value]
        for parent in (first, *chance.choices(alike, k=chance.choice((0, 0, 0, 0, 0, 0, 1, 2)))):
            streams[Stream(parent, chance.choice(grown[parent].outputs), port)] = None
    return Vertex(
        type=name,
        config=config,
        streams=tuple(streams),
        fresh=confined and chance.random() < 0.1,
        value=Kind.FLOAT if name == "scale" else grown[next(iter(streams)).parent].value,
    )


def _some_of(chance: Random, pool: Sequence[Vertex], *, confined: bool) -> list[Vertex]:
    """A few tasks of the pool with everything above them, and at most two tasks of their own."""
    needed = {chance.randrange(len(pool)) for _ in range(chance.choice((1, 1, 1, 2, 3)))}
    for place in range(len(pool) - 1, -1, -1):
        if place in needed:
            needed |= {stream.parent for stream in pool[place].streams}
    position = {place: new for new, place in enumerate(sorted(needed))}
    grown = [
        pool[place]._replace(streams=tuple(s._replace(parent=position[s.parent]) for s in pool[place].streams))
        for place in position
    ]
    for _ in range(chance.choice((0, 0, 1, 2))):
        grown.append(_vertex(chance, grown, confined=confined))
    return grown


def _document(chance: Random, grown: Sequence[Vertex], *, confined: bool) -> Document:
    """The vertices with sinks below them, written down in some order and under some ids."""
    consumed = {stream.parent for vertex in grown for stream in vertex.streams}
    loose = [place for place in range(len(grown)) if place not in consumed]
    also = chance.choices(range(len(grown)), k=chance.choice((0, 0, 1)))
    apart = chance.choice((0.0, 0.5, 0.9))
    sinks: list[dict[Stream, None]] = []
    for place in (*loose, *also):
        if not sinks or chance.random() < apart:
            sinks.append({})
        chance.choice(sinks[-2:])[Stream(place, chance.choice(grown[place].outputs), "in")] = None
    ends = [Vertex("file" if confined and chance.random() < 0.4 else "sink", {}, tuple(sink)) for sink in sinks if sink]
    document = written((*grown, *ends), chance)
    for task in document["tasks"]:
        if chance.random() < 0.1:
            task["tags"] = ["gpu"]
    return document


def written(grown: Sequence[Vertex], chance: Random) -> Document:
    """The document of some vertices; chance decides on ids, order, and which ports are spelt out."""
    ids = chance.sample(_NAMES, len(grown))
    tasks: list[dict[str, Any]] = []
    streams: list[dict[str, str]] = []
    for place, vertex in enumerate(grown):
        fresh = {"fresh": True} if vertex.fresh else {}
        tasks.append({"id": ids[place], "type": vertex.type, "config": dict(vertex.config), **fresh})
        for stream in vertex.streams:
            one_out, one_in = len(grown[stream.parent].outputs) == 1, len(vertex.inputs) == 1
            out = {} if one_out and chance.random() < 0.5 else {"from_port": stream.from_port}
            to = {} if one_in and chance.random() < 0.5 else {"to_port": stream.to_port}
            streams.append({"from": ids[stream.parent], **out, "to": ids[place], **to})
    chance.shuffle(tasks)
    chance.shuffle(streams)
    return {"version": 1, "name": "flow", "tasks": tasks, "streams": streams}
