"""Landmarks: options of which every plan has at least one, found backwards from what plans have to reach.

They say nothing new. But a solver cannot see that a value is on one of two streams only if some option above both sets
it, and so cannot tell how little the best plan costs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from planning.constraint import All, Constraint, Equals, affected, narrowed
from planning.places import Junction, Place, base, entry, inlet, meetings
from planning.planning_problem import Meeting, Option, Outlet, PlanningProblem, Vertex
from planning.reach import Reach


class ChosenOption(NamedTuple):
    """An option of a vertex."""

    vertex: str
    option: str


Landmark = frozenset[ChosenOption]


class _Fact(NamedTuple):
    """A variable has a value at a place."""

    place: Place
    name: str
    value: str


_Either = frozenset[_Fact]
"""Facts of which every plan has at least one."""


def landmarks(problem: PlanningProblem, left: Reach) -> Iterator[Landmark]:
    """Each landmark that follows from goals, from what points want, and from landmarks below it."""
    search = _Search(problem, left)
    waiting: list[_Either] = [frozenset({fact}) for fact in search.wanted()]
    seen = set(waiting)
    while waiting:
        setters = search.setters(waiting.pop())
        if setters is None:
            continue
        yield frozenset(ChosenOption(vertex.id, option.name) for vertex, option in setters)
        above = set(search.required(setters)) - seen
        seen |= above
        waiting += above


class _Search:
    def __init__(self, problem: PlanningProblem, left: Reach) -> None:
        self._problem = problem
        self._left = left
        self._types = frozenset(each.name for each in problem.variables if each.is_type)
        self._meetings = {place: (vertex, parts) for vertex in problem.vertices for place, parts in meetings(vertex)}

    def wanted(self) -> Iterator[_Fact]:
        """What every plan has, whatever its options are."""
        for goal in self._problem.goals:
            for stream in goal.streams:
                yield from _facts(stream, goal.holds)
        for vertex in self._problem.vertices:
            yield from _facts(entry(vertex), vertex.requires)
            for stream in vertex.streams():
                yield from _facts(stream, vertex.ensures)
            if len(self._left.options[vertex.id]) == 1:
                yield from self._needs(vertex, self._left.options[vertex.id][0])

    def setters(self, either: _Either) -> Sequence[tuple[Vertex, Option]] | None:
        """The options that make one of some facts true; None if a fact may be true without any."""
        found: dict[ChosenOption, tuple[Vertex, Option]] = {}
        waiting, seen = list(either), set(either)
        while waiting:
            place, name, value = waiting.pop()
            if value not in self._left.domains[place][name]:
                continue
            above = [_Fact(part, name, value) for part in self._parts(place, name)]
            if not above:
                if not isinstance(place, Outlet) or place.origin not in self._problem.by_id:
                    return None
                vertex = self._problem.by_id[place.origin]
                for option in self._left.options[vertex.id]:
                    ensured = option.ensured(place.port)
                    if name not in affected(ensured):
                        carried = base(vertex, option) if name in self._types else entry(vertex)
                        above.append(_Fact(carried, name, value))
                    elif narrowed(ensured, {**self._left.domains[place], name: frozenset({value})}) is not None:
                        found[ChosenOption(vertex.id, option.name)] = vertex, option
            waiting += set(above) - seen
            seen |= set(above)
        return list(found.values())

    def required(self, setters: Iterable[tuple[Vertex, Option]]) -> Iterator[_Either]:
        """For each variable of which all of some options require a value: that one of them has it."""
        needs = [list(self._needs(*each)) for each in setters]
        for name in set.intersection(*({fact.name for fact in each} for each in needs)) if needs else ():
            yield frozenset(next(fact for fact in each if fact.name == name) for each in needs)

    def _parts(self, place: Place, name: str) -> Sequence[Place]:
        """The places on one of which a variable has the value that it has where they meet."""
        if place not in self._meetings:
            return ()
        vertex, parts = self._meetings[place]
        if name in self._types:
            is_equal = isinstance(place, Junction) or not vertex.mixes_types
        else:
            is_equal = vertex.meeting is Meeting.EQUAL
        return parts[:1] if is_equal else parts

    def _needs(self, vertex: Vertex, option: Option) -> Iterator[_Fact]:
        for each in vertex.inputs:
            if each.port in option.requires:
                yield from _facts(inlet(vertex, each), option.requires[each.port])


def _facts(place: Place, constraint: Constraint) -> Iterator[_Fact]:
    if isinstance(constraint, Equals):
        yield _Fact(place, constraint.variable, constraint.value)
    elif isinstance(constraint, All):
        for part in constraint.parts:
            yield from _facts(place, part)
