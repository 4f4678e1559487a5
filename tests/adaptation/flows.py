"""Flows drawn at random, for tests of decisions."""

from hypothesis import strategies as st

from adaptation.decision import ChoiceSpace, Permission
from adaptation.documents import Policy
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowGraph, FlowTask

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
