"""Places: where streams have a state, from what a source emits to what enters a vertex."""

from collections.abc import Iterator
from typing import NamedTuple

from planning.planning_problem import Inflow, Option, Outlet, Vertex


class Inlet(NamedTuple):
    """An input port at which several streams meet."""

    vertex: str
    port: str


class Junction(NamedTuple):
    """A vertex at which several input ports meet."""

    vertex: str


Place = Outlet | Inlet | Junction


def inlet(vertex: Vertex, at: Inflow) -> Place:
    """Where the state of an input port is."""
    return at.streams[0] if len(at.streams) == 1 else Inlet(vertex.id, at.port)


def entry(vertex: Vertex) -> Place:
    """Where the state that a vertex continues is."""
    return inlet(vertex, vertex.inputs[0]) if len(vertex.inputs) == 1 else Junction(vertex.id)


def base(vertex: Vertex, option: Option) -> Place:
    """Where the types are that go on if an option does not affect them."""
    if not option.base:
        return inlet(vertex, vertex.inputs[0])
    return next(inlet(vertex, each) for each in vertex.inputs if each.port == option.base)


def meetings(vertex: Vertex) -> Iterator[tuple[Place, tuple[Place, ...]]]:
    """Where several states become one at a vertex, and which."""
    for each in vertex.inputs:
        if len(each.streams) > 1:
            yield Inlet(vertex.id, each.port), each.streams
    if len(vertex.inputs) > 1:
        yield Junction(vertex.id), tuple(inlet(vertex, each) for each in vertex.inputs)
