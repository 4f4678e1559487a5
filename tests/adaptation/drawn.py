"""Dynamic documents, conditions and flows drawn at random, and the checks that documents must pass."""

import json
from typing import Any

from hypothesis import strategies as st

from adaptation.decision import ChoiceSpace, Permission
from adaptation.document_reader import read_dynamic
from adaptation.documents import DynamicDocument, Policy
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowGraph, FlowTask
from dags import Dataflow, Kind, Schema, Source
from dags.canonical import canonicalise
from engine import installed_catalogue

SOURCES = {"meters": Source(name="meters", owner="ann", schema=Schema.of(kw=Kind.FLOAT, house=Kind.STRING))}
CATALOGUE = installed_catalogue()
IMPLEMENTATIONS: tuple[dict[str, Any], ...] = (
    {"type": "noop"},
    {"type": "range_filter", "config": {"field": "kw", "min": 0, "max": 9}},
    {"type": "where", "config": {"expression": "kw > 1"}},
    {"type": "range_filter", "config": {"field": "kw", "min": 0, "max": 9, "outside": "drop"}},
)
"""All emit what enters."""


def canonical(raw: bytes) -> Dataflow:
    """The canonical dataflow of a document of ann's."""
    return canonicalise(raw, dataflow="d", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)


def read(value: Any, **options: Any) -> DynamicDocument:
    """The dynamic document of a JSON value, checked."""
    return read_dynamic(json.dumps(value), canonical=canonical, **options)


def module(name: str, config: Any) -> tuple[str, dict[str, Any], list[str]] | None:
    """The type, config and tags of the one module that there is."""
    return ("range_filter", {"field": "kw", "min": 0, **config}, ["fpga"]) if name == "plausible@1" else None


def metrics() -> st.SearchStrategy[dict[str, Any]]:
    """A bound on a metric."""
    bounds = st.sampled_from([0, 1, 2, 3])
    return st.builds(
        lambda metric, task, side, bound, lasts: {
            "metric": metric,
            **({} if task is None else {"task": task}),
            side: bound,
            **({} if lasts is None else {"for": lasts}),
        },
        st.sampled_from(["rate", "latency"]),
        st.sampled_from([None, "a"]),
        st.sampled_from(["above", "below"]),
        bounds,
        st.sampled_from([None, None, 2]),
    )


def events() -> st.SearchStrategy[dict[str, Any]]:
    """A domain event."""
    return st.builds(
        lambda name, test, within: {
            "event": name,
            **({} if test is None else {"where": {"field": "level", **test}}),
            **({} if within is None else {"within": within}),
        },
        st.sampled_from(["peak", "calm"]),
        st.sampled_from([None, {"above": 1}, {"below": 2}, {"equals": 2}, {"above": 2, "below": 1}]),
        st.sampled_from([None, 1, 3]),
    )


CLOCKS = st.sampled_from(
    [
        {"from": "22:00", "to": "06:00"},
        {"from": "00:00", "to": "12:00", "days": ["mon", "sat"], "zone": "Europe/Berlin"},
        {"from": "07:00", "to": "24:00"},
        {"from": "09:00", "to": "09:00"},
    ]
).map(lambda times: {"clock": times})


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    """Any condition."""

    def joined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        parts = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(
            parts.map(lambda found: {"all": found}),
            parts.map(lambda found: {"any": found}),
            inner.map(lambda found: {"not": found}),
            st.builds(lambda found, within: {"sequence": found, "within": within}, parts, st.sampled_from([2, 5])),
        )

    simple = metrics() | events() | CLOCKS
    # As often simple ones as such that join others.
    return st.one_of(simple, joined(simple), joined(simple | joined(simple)))


GUARDS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"activate": {"metric": "rate", "above": 5}},
    {"activate": {"metric": "latency", "above": 5}, "deactivate": {"metric": "latency", "below": 2}},
    {"activate": {"event": "peak"}, "deactivate": {"event": "calm", "within": 9}},
)


@st.composite
def dynamic_documents(draw: st.DrawFn) -> dict[str, Any]:
    """A sound document: a graph of tasks that pass events on, some with alternates, and streams, some with guards."""
    tasks: list[dict[str, Any]] = [{"id": "meters", "type": "source", "config": {"source": "meters"}}]
    streams: list[dict[str, Any]] = []

    def guarded() -> dict[str, Any]:
        guard = draw(st.sampled_from(GUARDS))
        return {} if guard is None else {"when": guard}

    for number in range(draw(st.integers(1, 5))):
        parents = draw(st.lists(st.integers(0, number), min_size=1, max_size=2, unique=True))
        streams += [{"from": tasks[each]["id"], "to": f"t{number}", **guarded()} for each in parents]
        if draw(st.booleans()):
            chosen = draw(st.permutations(IMPLEMENTATIONS))[: draw(st.integers(2, 4))]
            alternates = [
                {
                    "name": f"way {at}",
                    **each,
                    "value": draw(st.sampled_from([1, 0.5, {"event": "peak", "field": "level", "otherwise": 0.5}])),
                    "cost": draw(st.integers(0, 900)),
                    **guarded(),
                }
                for at, each in enumerate(chosen)
            ]
            first = {"first": "way 1"} if draw(st.booleans()) else {}
            tasks.append({"id": f"t{number}", "alternates": alternates, **first})
        else:
            tasks.append({"id": f"t{number}", **draw(st.sampled_from(IMPLEMENTATIONS))})
    fed = {each["from"] for each in streams}
    streams += [{"from": each["id"], "to": "out", **guarded()} for each in tasks if each["id"] not in fed]
    tasks.append({"id": "out", "type": "output"})
    policy = {"events": {"peak": {"output": "out"}, "calm": {"dataflow": "other", "output": "calm"}}}
    return {"version": 1, "name": "adapts", "tasks": tasks, "streams": streams, "policy": policy}


COSTS = st.sampled_from([0.0, 0.001, 0.002, 0.005, 0.01])
SHARES = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0])
VALUES = st.sampled_from([0.2, 0.5, 0.8, 1.0])
GATED = "s>k"
"""The one guarded stream that a flow may have."""


@st.composite
def flows(draw: st.DrawFn, most: int = 4, *, alike: bool = False) -> FlowGraph:
    """A source, and tasks with up to three alternates, each fed by some before it."""
    tasks = [FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=draw(st.integers(0, 90)))]
    for number in range(draw(st.integers(1, most))):
        share = draw(SHARES)
        names = [ONLY] if draw(st.integers(0, 4)) == 0 else ["a", "b", "c"][: draw(st.integers(2, 3))]
        alternates = {
            name: FlowAlternate(draw(COSTS), share if alike else draw(SHARES), draw(VALUES)) for name in names
        }
        parents = draw(st.lists(st.integers(0, number), min_size=1, max_size=2, unique=True))
        edges = [FlowEdge(each, GATED if draw(st.integers(0, 4)) == 0 else None) for each in parents]
        tasks.append(FlowTask(id=f"t{number}", feeds=tuple(edges), alternates=alternates))
    return FlowGraph(tasks=tuple(tasks))


def dynamic_in(flow: FlowGraph) -> dict[str, list[str]]:
    """The alternates of each task that has some."""
    return {each.id: sorted(each.alternates) for each in flow.tasks if each.is_dynamic}


@st.composite
def spaces(draw: st.DrawFn, *, alike: bool = False) -> ChoiceSpace:
    """A flow, with some of its alternates permitted."""
    flow = draw(flows(alike=alike))
    every = dynamic_in(flow)
    return ChoiceSpace(
        flow=flow,
        alternates={
            task: sorted(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
            for task, names in every.items()
        },
        opened={GATED: draw(st.booleans())},
        present={task: draw(st.sampled_from(names)) for task, names in every.items()},
    )


@st.composite
def permissions(draw: st.DrawFn, flow: FlowGraph) -> Permission:
    """Some of the alternates of a flow."""
    return Permission(
        alternates={
            task: frozenset(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
            for task, names in dynamic_in(flow).items()
        },
        opened={GATED: draw(st.booleans())},
        rules={},
        unguarded=frozenset(),
    )


POLICIES = st.builds(
    Policy,
    throughput=st.sampled_from([0.5, 0.8, 1.0]),
    tolerance=st.sampled_from([0.0, 0.05, 0.2]),
    latency=st.sampled_from([None, None, 1.0]),
    cores=st.sampled_from([None, 0.3, 2.0]),
)
CORES = st.sampled_from([0.05, 0.1, 0.3, 0.5, 1.0, 3.0])
