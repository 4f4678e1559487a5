"""Export: a planning problem as PDDL, in the form that the package describes."""

from collections.abc import Iterable, Iterator

from dags.pddl.names import name, parts
from dags.pddl.texts import Pddl, PddlError, action, block
from planning.constraint import UNSET, affected
from planning.pddl.expressions import carried, holds_at, named, said, same_at
from planning.pddl.names import place_name, value_name, variable_name
from planning.places import Junction, Place, base, entry, inlet, meetings
from planning.planning_problem import Meeting, Option, PlanningProblem, Vertex

_PREDICATES = """\
  (:predicates
    (is ?p - place ?x - variable ?v - value)
    (may ?x - variable ?v - value)
    (type ?x - variable)
    (reads ?w - vertex ?q - port ?p - place)
    (emits ?w - vertex ?p - place)
    (enters ?p ?m - place)
    (now ?w - vertex ?s - stage)
    (met ?m - place)
    (mixed ?m - place ?x - variable)
    (holds ?w - vertex ?o - option)
    (open ?p - place ?x - variable)
    (done))
  (:functions (total-cost) - number)
"""
_CHOICES = """\
  (:action take
    :parameters (?p ?m - place ?x - variable ?v - value)
    :precondition (and (mixed ?m ?x) (enters ?p ?m) (is ?p ?x ?v))
    :effect (and (is ?m ?x ?v) (not (mixed ?m ?x))))
  (:action choose
    :parameters (?p - place ?x - variable ?v - value)
    :precondition (and (open ?p ?x) (may ?x ?v))
    :effect (and (is ?p ?x ?v) (not (open ?p ?x))))
"""


def exported(problem: PlanningProblem) -> Pddl:
    """A problem as PDDL. Raises `PddlError` if its plans depend on what PDDL cannot say."""
    unsaid = [f"{each.id}: same" for each in problem.vertices if each.same]
    unsaid += [f"{each.id}: mixes_types" for each in problem.vertices if each.mixes_types]
    unsaid += [f"{at.id}: a negative cost" for at in problem.vertices if any(each.cost < 0 for each in at.options)]
    if unsaid:
        raise PddlError(f"PDDL cannot say this; leave it out of the problem, or plan without PDDL: {', '.join(unsaid)}")
    export = _Export(problem)
    return Pddl(domain=export.domain(), problem=export.problem())


def filled(actions: Iterable[str]) -> dict[str, str]:
    """The option of each vertex, by the names of a plan's actions."""
    found = [parts(each) for each in actions]
    return {each[1]: each[2] for each in found if each[0] == "fill"}


class _Export:
    def __init__(self, problem: PlanningProblem) -> None:
        self._problem = problem
        self._variables = [each.name for each in problem.variables]
        self._types = frozenset(each.name for each in problem.variables if each.is_type)

    def domain(self) -> str:
        following = [f"(now {_vertex(each)} ready)" for each in self._problem.vertices[1:]]
        actions = "".join(
            action
            for vertex, then in zip(self._problem.vertices, [*following, "(done)"], strict=False)
            for action in self._actions(vertex, then)
        )
        return (
            "(define (domain braid)\n"
            "  (:requirements :adl :action-costs)\n"
            "  (:types place variable value vertex option port stage)\n"
            f"{block('(:constants', self._constants())}\n"
            f"{_PREDICATES}{_CHOICES}{actions})\n"
        )

    def problem(self) -> str:
        goals = [said(goal.holds, place_name(stream)) for goal in self._problem.goals for stream in goal.streams]
        held = {(at.id, each.name): _held(at, each) for at in self._problem.vertices for each in at.options}
        # What a vertex cannot hold excludes nothing.
        goals += [
            f"(not (and {' '.join(held[each] for each in excluded.items())}))"
            for excluded in self._problem.excluded
            if excluded.items() <= held.keys()
        ]
        return (
            "(define (problem braid)\n"
            "  (:domain braid)\n"
            f"{block('(:init', self._facts())}\n"
            f"{block('(:goal (and', ['(done)', *goals])})\n"
            "  (:metric minimize (total-cost)))\n"
        )

    def _constants(self) -> Iterator[str]:
        problem = self._problem
        places: list[Place] = list(problem.given)
        for vertex in problem.vertices:
            places += [*(place for place, _ in meetings(vertex)), *vertex.streams()]
        options = dict.fromkeys(_option(each) for vertex in problem.vertices for each in vertex.options)
        ports = dict.fromkeys(name("port", each.port) for vertex in problem.vertices for each in vertex.inputs)
        kinds = {
            "place": map(place_name, places),
            "variable": map(variable_name, self._variables),
            "value": map(value_name, sorted(self._values())),
            "vertex": map(_vertex, problem.vertices),
            "option": options,
            "port": ports,
            "stage": ("ready", "entered", "filled", "settled"),
        }
        for kind, names in kinds.items():
            if line := " ".join(names):
                yield f"{line} - {kind}"

    def _values(self) -> set[str]:
        problem = self._problem
        found = {UNSET}.union(*(each.domain for each in problem.variables))
        found = found.union(*(state.values() for state in problem.given.values()))
        for vertex in problem.vertices:
            found |= named(vertex.requires) | named(vertex.ensures)
            for option in vertex.options:
                found = found.union(*map(named, option.requires.values()), *map(named, option.ensures_at.values()))
                found |= named(option.ensures)
        return found.union(*(named(goal.holds) for goal in problem.goals))

    def _facts(self) -> Iterator[str]:
        problem = self._problem
        yield "(= (total-cost) 0)"
        yield f"(now {_vertex(problem.vertices[0])} ready)" if problem.vertices else "(done)"
        for variable in problem.variables:
            if variable.is_type:
                yield f"(type {variable_name(variable.name)})"
            for value in sorted(variable.domain):
                yield f"(may {variable_name(variable.name)} {value_name(value)})"
        for stream, state in problem.given.items():
            for each in self._variables:
                yield holds_at(place_name(stream), each, state.get(each, UNSET))
        for vertex in problem.vertices:
            yield from _structure(vertex)

    def _actions(self, vertex: Vertex, then: str) -> Iterator[str]:
        now = _vertex(vertex)
        ready: list[str] = []
        for place, entering in meetings(vertex):
            met, first = place_name(place), place_name(entering[0])
            mixed = self._mixed(vertex)
            equal = [
                same_at(first, name_, place_name(other), name_)
                for name_ in self._variables
                if name_ not in mixed and not (name_ in self._types and isinstance(place, Junction))
                for other in entering[1:]
            ]
            copied = [carried(first, met, each) for each in self._variables if each not in mixed]
            choices = [f"(mixed {met} {variable_name(each)})" for each in mixed]
            yield action(
                name("meet", *place),
                [f"(now {now} ready)", f"(not (met {met}))", *ready, *equal],
                [f"(met {met})", *copied, *choices],
            )
            ready += [f"(met {met})", *(f"(not {each})" for each in choices)]
        required = said(vertex.requires, place_name(entry(vertex)))
        yield action(name("enter", vertex.id), [f"(now {now} ready)", *ready, required], _turn(now, "ready", "entered"))
        for option in vertex.options:
            yield from self._filling(vertex, option)
        wanted = [said(vertex.ensures, place_name(each)) for each in vertex.streams()]
        yield action(name("leave", vertex.id), [f"(now {now} settled)", *wanted], [f"(not (now {now} settled))", then])

    def _filling(self, vertex: Vertex, option: Option) -> Iterator[str]:
        now, held = _vertex(vertex), _held(vertex, option)
        required = [
            said(option.requires[each.port], place_name(inlet(vertex, each)))
            for each in vertex.inputs
            if each.port in option.requires
        ]
        copied, opened = [], []
        for stream in vertex.streams():
            after, changed = place_name(stream), affected(option.ensured(stream.port))
            for each in self._variables:
                if each in changed:
                    opened.append(f"(open {after} {variable_name(each)})")
                else:
                    before = base(vertex, option) if each in self._types else entry(vertex)
                    copied.append(carried(place_name(before), after, each))
        cost = [f"(increase (total-cost) {option.cost})"] if option.cost else []
        yield action(
            name("fill", vertex.id, option.name),
            [f"(now {now} entered)", *required],
            [*_turn(now, "entered", "filled"), held, *copied, *opened, *cost],
        )
        ensured = [said(option.ensured(each.port), place_name(each)) for each in vertex.streams()]
        yield action(
            name("settle", vertex.id, option.name),
            [f"(now {now} filled)", held, *(f"(not {each})" for each in opened), *ensured],
            _turn(now, "filled", "settled"),
        )

    def _mixed(self, vertex: Vertex) -> list[str]:
        """The variables that a place where streams meet may have from any of them."""
        if vertex.meeting is Meeting.EQUAL:
            return []
        return [each for each in self._variables if each not in self._types]


def _structure(vertex: Vertex) -> Iterator[str]:
    """What a vertex reads and emits, and what meets there."""
    for inflow in vertex.inputs:
        yield f"(reads {_vertex(vertex)} {name('port', inflow.port)} {place_name(inlet(vertex, inflow))})"
    for place, entering in meetings(vertex):
        for each in dict.fromkeys(entering):
            yield f"(enters {place_name(each)} {place_name(place)})"
    for each in vertex.streams():
        yield f"(emits {_vertex(vertex)} {place_name(each)})"


def _turn(vertex: str, before: str, after: str) -> list[str]:
    return [f"(not (now {vertex} {before}))", f"(now {vertex} {after})"]


def _held(vertex: Vertex, option: Option) -> str:
    return f"(holds {_vertex(vertex)} {_option(option)})"


def _vertex(vertex: Vertex) -> str:
    return name("vertex", vertex.id)


def _option(option: Option) -> str:
    return name("option", option.name)
