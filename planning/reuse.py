"""Reuse: which tasks of a plan already run, or are the same as others of the plan.

Every stream gets a producer, the task that makes its events: an equal running task if there is one, an equal vertex of
the plan that comes before it, or the vertex itself. A vertex that does nothing passes its producer on; of several
streams that enter it, what it passes on counts as made by itself, and nothing below is found among what runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import TypeVar

from ortools.sat.python import cp_model

from planning.formulas import Formulas, Literal, Values
from planning.planning_problem import Inflow, Outlet, PlanningProblem, RunningVertex, Vertex
from planning.reach import Reach

T = TypeVar("T")
_MOST_ORDERS = 4
"""Streams that meet at one port are compared in every order, up to this many."""
_NOTHING = "nothing"


class Residue:
    """The tasks of a plan that have to be started."""

    def __init__(
        self, problem: PlanningProblem, left: Reach, options: Mapping[str, Values], formulas: Formulas
    ) -> None:
        self._left = left
        self._options = options
        self._formulas = formulas
        self._texts = {vertex.id: self._texts_of(vertex) for vertex in problem.vertices}
        self._made: dict[str, Values] = {}
        self._producers: dict[Outlet, Values] = {
            stream: {_running(problem.origins.get(stream.origin, stream.origin), stream.port): True}
            for stream in problem.given
        }
        running: dict[str, list[RunningVertex]] = {}
        for task in problem.running:
            running.setdefault(task.computes, []).append(task)
        for at, vertex in enumerate(problem.vertices):
            texts = self._texts[vertex.id]
            equals = [each for each in problem.vertices[:at] if texts.keys() & self._texts[each.id].keys()]
            self._add(
                vertex,
                [task for text in texts for task in running.get(text, ()) if _like(vertex.inputs, task.inputs)],
                [each for each in equals if _like(vertex.inputs, each.inputs)],
            )
        self.figure: cp_model.LinearExprT = sum(self._made[vertex.id][_new(vertex.id)] for vertex in problem.vertices)

    def _texts_of(self, vertex: Vertex) -> Values:
        """The literal of each text that a vertex may compute and share."""
        found: dict[str, list[Literal]] = {}
        for option in self._left.options[vertex.id]:
            if option.computes and not option.is_no_op:
                found.setdefault(option.computes, []).append(self._options[vertex.id][option.name])
        return {text: self._formulas.some_of(literals) for text, literals in found.items()}

    def _add(self, vertex: Vertex, tasks: Sequence[RunningVertex], equals: Sequence[Vertex]) -> None:
        idle = self._formulas.some_of(
            [self._options[vertex.id][each.name] for each in self._left.options[vertex.id] if each.is_no_op]
        )
        made = self._formulas.choice(
            [
                _new(vertex.id),
                *(_running(task.id) for task in tasks),
                *(_new(each.id) for each in equals),
                *([] if idle is False else [_NOTHING]),
            ]
        )
        self._made[vertex.id] = made
        self._formulas.require([made.get(_NOTHING, False)], when=[idle])
        self._formulas.require([idle], when=[made.get(_NOTHING, False)])
        for task in tasks:
            self._runs_as(vertex, task, made[_running(task.id)])
        for other in equals:
            self._is_as(vertex, other, made[_new(other.id)])
        for stream in vertex.streams():
            self._producers[stream] = self._producer(vertex, stream.port, made)

    def _producer(self, vertex: Vertex, port: str, made: Values) -> Values:
        own = {_at(maker, port): literal for maker, literal in made.items() if maker != _NOTHING}
        if _NOTHING not in made:
            return own
        streams = vertex.inputs[0].streams
        entering = self._producers[streams[0]] if len(streams) == 1 else {_at(_new(vertex.id), port): True}
        found = self._formulas.choice(own.keys() | entering.keys())
        for maker, literal in own.items():
            self._formulas.require([found[maker]], when=[literal])
        for maker, literal in entering.items():
            self._formulas.require([found[maker]], when=[literal, made[_NOTHING]])
        return found

    def _runs_as(self, vertex: Vertex, task: RunningVertex, literal: Literal) -> None:
        """A vertex is a running task only if it computes the same, of what the same tasks make."""
        self._formulas.require([self._texts[vertex.id][task.computes]], when=[literal])
        wanted = {each.port: [_running(*stream) for stream in each.streams] for each in task.inputs}
        for each in vertex.inputs:
            producers = [self._producers[stream] for stream in each.streams]
            self._some_order(
                [
                    [producer.get(maker, False) for producer, maker in zip(producers, order, strict=True)]
                    for order in _orders(wanted[each.port])
                ],
                literal,
            )

    def _is_as(self, vertex: Vertex, other: Vertex, literal: Literal) -> None:
        """A vertex is one before it only if that one is started, and both compute the same of the same."""
        self._formulas.require([self._made[other.id][_new(other.id)]], when=[literal])
        texts = self._texts[other.id]
        self._formulas.require(self._texts[vertex.id].values(), when=[literal])
        for text, chosen in self._texts[vertex.id].items():
            self._formulas.require([texts.get(text, False)], when=[literal, chosen])
        ports = {each.port: each.streams for each in other.inputs}
        for each in vertex.inputs:
            self._some_order(
                [
                    [self._same(one, two) for one, two in zip(each.streams, order, strict=True)]
                    for order in _orders(ports[each.port])
                ],
                literal,
            )

    def _same(self, one: Outlet, two: Outlet) -> Literal:
        """The literal that two streams have the same producer."""
        if one == two:
            return True
        ours, theirs = self._producers[one], self._producers[two]
        return self._formulas.some_of(
            [self._formulas.all_of([ours[maker], theirs[maker]]) for maker in sorted(ours.keys() & theirs.keys())]
        )

    def _some_order(self, orders: Iterable[list[Literal]], literal: Literal) -> None:
        self._formulas.require([self._formulas.all_of(order) for order in orders], when=[literal])


def _new(vertex: str) -> str:
    return f"new {vertex}"


def _running(task: str, port: str = "") -> str:
    return _at(f"runs {task}", port) if port else f"runs {task}"


def _at(maker: str, port: str) -> str:
    return f"{maker}/{port}"


def _orders(streams: Sequence[T]) -> Iterable[Sequence[T]]:
    return permutations(streams) if len(streams) <= _MOST_ORDERS else [streams]


def _like(one: Sequence[Inflow], two: Sequence[Inflow]) -> bool:
    """Whether as many streams enter at the same ports."""
    return {each.port: len(each.streams) for each in one} == {each.port: len(each.streams) for each in two}
