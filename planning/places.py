"""Places: where streams have a state, from what a source emits to what enters a step."""

from collections.abc import Iterator
from typing import NamedTuple

from planning.problem import Action, Input, Step, Stream


class Inlet(NamedTuple):
    """An input port at which several streams meet."""

    step: str
    port: str


class Entry(NamedTuple):
    """A step at which several input ports meet."""

    step: str


Place = Stream | Inlet | Entry


def inlet(step: Step, at: Input) -> Place:
    """Where the state of an input port is."""
    return at.streams[0] if len(at.streams) == 1 else Inlet(step.id, at.port)


def entry(step: Step) -> Place:
    """Where the state that a step continues is."""
    return inlet(step, step.inputs[0]) if len(step.inputs) == 1 else Entry(step.id)


def base(step: Step, action: Action) -> Place:
    """Where the types are that go on if an action does not affect them."""
    if not action.base:
        return inlet(step, step.inputs[0])
    return next(inlet(step, each) for each in step.inputs if each.port == action.base)


def meetings(step: Step) -> Iterator[tuple[Place, tuple[Place, ...]]]:
    """Where several states become one at a step, and which."""
    for each in step.inputs:
        if len(each.streams) > 1:
            yield Inlet(step.id, each.port), each.streams
    if len(step.inputs) > 1:
        yield Entry(step.id), tuple(inlet(step, each) for each in step.inputs)
