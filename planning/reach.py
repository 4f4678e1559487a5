"""Reach: the options and values that can occur in some plan, and landmarks, which occur in every one.

Reach is found by narrowing from both ends. It may keep what occurs in no plan, but never drops what occurs in one. A
solver could find the same, but a model of everything costs more to build than to solve: 200 vertices with 200 options
each are 40,000 literals.

A landmark is a set of options of which every plan has at least one, found backwards from what plans have to reach.
Landmarks say nothing new. But a solver cannot see that a value is on one of two streams only if some option above both
sets it, and so cannot tell how little the best plan costs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planning.constraint import UNSET, All, Constraint, Domains, Equals, affected, narrowed, union
from planning.plan import TimeLeft, look
from planning.problem import (
    Goal,
    Junction,
    Option,
    Outlet,
    Place,
    PlanningProblem,
    Vertex,
    base,
    entry,
    inlet,
    meetings,
)

_ROUNDS = 4
"""Sweeps there and back; few problems change after the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What is left of a problem."""

    options: Mapping[str, tuple[Option, ...]]
    """Those of each vertex."""
    domains: Mapping[Place, Domains]


class _Empty(Exception):
    """Nothing is left at some place."""


def reach(problem: PlanningProblem, time_left: TimeLeft) -> Reach | None:
    """What can occur in some plan; None if there is certainly no plan. Raises `OutOfTime`."""
    try:
        return _Narrowing(problem).result(time_left)
    except _Empty:
        return None


class _Narrowing:
    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.types = problem.types
        self.full = {variable.name: variable.domain for variable in problem.variables}
        self.domains: dict[Place, Domains] = {}
        self.options = {vertex.id: vertex.options for vertex in problem.vertices}
        for stream, given in problem.given.items():
            self.domains[stream] = {name: frozenset({given.get(name, UNSET)}) for name in self.full}

    def result(self, time_left: TimeLeft) -> Reach:
        goals: dict[Outlet, list[Goal]] = {}
        for goal in self.problem.goals:
            for stream in goal.streams:
                goals.setdefault(stream, []).append(goal)
        for stream in self.problem.given:
            self._aim(stream, goals)
        for _ in range(_ROUNDS):
            before = dict(self.domains)
            for vertex in self.problem.vertices:
                look(time_left)
                self._meet(vertex)
                self._pass(vertex)
                for stream in vertex.streams():
                    self._aim(stream, goals)
            for vertex in reversed(self.problem.vertices):
                look(time_left)
                self._pass(vertex)
                self._part(vertex)
            self._agree()
            if before == self.domains:
                break
        return Reach(options=self.options, domains=self.domains)

    def _aim(self, stream: Outlet, goals: Mapping[Outlet, list[Goal]]) -> None:
        for goal in goals.get(stream, ()):
            self._keep(stream, narrowed(goal.holds, self.domains[stream]))

    def _keep(self, place: Place, domains: Domains | None) -> None:
        if domains is None:
            raise _Empty
        known = self.domains.get(place)
        if known is not None and known is not domains:
            domains = _intersection(known, domains)
        self.domains[place] = domains

    def _meet(self, vertex: Vertex) -> None:
        """The states at ports and at the entry, from those that meet there."""
        for place, parts in meetings(vertex):
            meeting = [self.domains[part] for part in parts]
            met: dict[str, frozenset[str]] = {}
            for name in self.full:
                values = [domains[name] for domains in meeting]
                if name in self.types and isinstance(place, Junction):
                    # Types do not meet across ports; an option says which port's go on.
                    met[name] = self.full[name]
                elif vertex.is_equal(name, self.types):
                    met[name] = values[0].intersection(*values)
                else:
                    met[name] = values[0].union(*values)
            if not all(met.values()):
                raise _Empty
            self._keep(place, met)

    def _part(self, vertex: Vertex) -> None:
        """What is known at a meeting, back to the streams that meet there."""
        for place, parts in reversed(list(meetings(vertex))):
            met = self.domains[place]
            for part in parts:
                known = self.domains[part]
                self._keep(
                    part,
                    {
                        name: known[name] & met[name]
                        if vertex.is_equal(name, self.types)
                        and not (name in self.types and isinstance(place, Junction))
                        else known[name]
                        for name in known
                    },
                )

    def _pass(self, vertex: Vertex) -> None:
        """The options that fit between what enters and what leaves, and what is left there because of them."""
        left, entries = [], []
        exits: dict[str, list[Domains]] = {port: [] for port in vertex.outputs}
        for option in self.options[vertex.id]:
            fit = self._fit(vertex, option)
            if fit is not None:
                left.append(option)
                entries.append(fit[0])
                for port, domains in fit[1].items():
                    exits[port].append(domains)
        self.options[vertex.id] = tuple(left)
        if not left:
            raise _Empty
        self._keep(entry(vertex), union(entries))
        for port, options in exits.items():
            self._keep(Outlet(vertex.id, port), union(options))

    def _fit(self, vertex: Vertex, option: Option) -> tuple[Domains, dict[str, Domains]] | None:
        """The domains before and after an option; None if it does not fit."""
        before = narrowed(vertex.requires, self.domains[entry(vertex)])
        if before is None:
            return None
        for inflow in vertex.inputs:
            if inflow.port in option.requires:
                alone = inlet(vertex, inflow) == entry(vertex)
                required = narrowed(
                    option.requires[inflow.port], before if alone else self.domains[inlet(vertex, inflow)]
                )
                if required is None:
                    return None
                before = required if alone else before
        after: dict[str, Domains] = {}
        for port in vertex.outputs:
            leaving = self._after(vertex, option, port, before)
            if leaving is None:
                return None
            after[port] = leaving
            changes = affected(option.ensured(port))
            kept = {
                name: values & leaving[name]
                for name, values in before.items()
                if name not in changes
                and (name not in self.types or len(vertex.inputs) == 1)
                and leaving[name] is not values
            }
            if not all(kept.values()):
                return None
            if kept:
                before = {**before, **kept}
        return before, after

    def _after(self, vertex: Vertex, option: Option, port: str, before: Domains) -> Domains | None:
        ensured = option.ensured(port)
        changes = affected(ensured)
        carried = before
        if len(vertex.inputs) > 1:
            types = self.domains[base(vertex, option)]
            carried = {name: types[name] if name in self.types else before[name] for name in before}
        free = {**carried, **{name: self.full[name] for name in changes}} if changes else carried
        known = self.domains.get(Outlet(vertex.id, port))
        if known is not None:
            try:
                free = _intersection(free, known)
            except _Empty:
                return None
        left = narrowed(ensured, free)
        return None if left is None else narrowed(vertex.ensures, left)

    def _agree(self) -> None:
        """Vertices that hold the same have the same choice."""
        for vertex in self.problem.vertices:
            if vertex.same:
                one, two = self.options[vertex.id], self.options[vertex.same]
                names = {option.filling for option in one} & {option.filling for option in two}
                self.options[vertex.id] = tuple(option for option in one if option.filling in names)
                self.options[vertex.same] = tuple(option for option in two if option.filling in names)
                if not names:
                    raise _Empty


def _intersection(one: Domains, two: Domains) -> Domains:
    """The values in both; the first's own sets where nothing changes."""
    changed = {}
    for name, values in one.items():
        other = two[name]
        if values is not other and not values <= other:
            changed[name] = values & other
            if not changed[name]:
                raise _Empty
    return {**one, **changed} if changed else one


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
        self._types = problem.types
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
        setters: dict[ChosenOption, tuple[Vertex, Option]] = {}
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
                        setters[ChosenOption(vertex.id, option.name)] = vertex, option
            waiting += set(above) - seen
            seen |= set(above)
        return list(setters.values())

    def required(self, setters: Iterable[tuple[Vertex, Option]]) -> Iterator[_Either]:
        """For each variable of which all of some options require a value: that one of them has it."""
        needs = [list(self._needs(*setter)) for setter in setters]
        for name in set.intersection(*({fact.name for fact in facts} for facts in needs)) if needs else ():
            yield frozenset(next(fact for fact in facts if fact.name == name) for facts in needs)

    def _parts(self, place: Place, name: str) -> Sequence[Place]:
        """The places on one of which a variable has the value that it has where they meet."""
        if place not in self._meetings:
            return ()
        vertex, parts = self._meetings[place]
        is_first = name in self._types and isinstance(place, Junction)
        return parts[:1] if is_first or vertex.is_equal(name, self._types) else parts

    def _needs(self, vertex: Vertex, option: Option) -> Iterator[_Fact]:
        for inflow in vertex.inputs:
            if inflow.port in option.requires:
                yield from _facts(inlet(vertex, inflow), option.requires[inflow.port])


def _facts(place: Place, constraint: Constraint) -> Iterator[_Fact]:
    if isinstance(constraint, Equals):
        yield _Fact(place, constraint.variable, constraint.value)
    elif isinstance(constraint, All):
        for part in constraint.parts:
            yield from _facts(place, part)
