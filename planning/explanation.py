"""Explanations: why there is no plan and what would help; what the goals of a plan rest on and what would do as well.

A conflict is as few demands as cannot hold together. Demands are what a document or a module asks for. What a module
does, and what a source gives, are facts.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from dags.vocabulary import Criterion
from planning.constraint import NOTHING, All, Constraint, Equals, Some, affected, mentioned
from planning.plan import OutOfTime, PipelinePlan, TimeLeft
from planning.planner import find_plan, half_a_minute
from planning.problem import Goal, Meeting, Option, Outlet, PlanningProblem, Vertex

T = TypeVar("T")
_NEW = "a new module"


class Asked(StrEnum):
    """The kind of a demand."""

    GOAL = "goal"
    REQUIRED = "required"
    """By a point, of what enters it."""
    ENSURED = "ensured"
    """By a point, of what leaves it."""
    CONDITIONS = "conditions"
    """What the modules that may fill a point ask of variables."""
    TYPES = "types"
    """What the modules that may fill a point ask of fields."""
    MEETING = "meeting"
    """That the streams that meet have equal values."""
    MEETING_TYPES = "meeting types"
    """That the streams that meet have equal fields."""
    SAME = "same"
    """That two points have the same module."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that a plan must meet."""

    kind: Asked
    at: str
    """The id of the vertex, or the name of the goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change after which there is a plan."""

    vertex: str
    meets_by_either: bool = False
    """True if it is that streams meet by either at the vertex; false if it is a new module there."""
    ensures: tuple[tuple[str, str], ...] = ()
    """What the new module would have to ensure, without a precondition."""


def conflict(problem: PlanningProblem, left: TimeLeft = half_a_minute) -> tuple[Demand, ...]:
    """Demands that cannot hold together, none of which can be left out. For problems without a plan."""
    return minimal(demands(problem), lambda kept: find_plan(keeping(problem, frozenset(kept)), left=left) is None)


def remedies(problem: PlanningProblem, why: Sequence[Demand], left: TimeLeft = half_a_minute) -> tuple[Remedy, ...]:
    """The nearest changes that make a problem without a plan feasible: first those of how streams meet.

    When no time is left they are the nearest of those found by then.
    """
    meetings: list[Remedy] = []
    modules: list[Remedy] = []
    with suppress(OutOfTime):
        for demand in why:
            if demand.kind is Asked.MEETING:
                vertex = replace(problem.by_id[demand.at], meeting=Meeting.EITHER)
                if find_plan(_with_vertex(problem, vertex), left=left) is not None:
                    meetings.append(Remedy(vertex=demand.at, meets_by_either=True))
        for vertex in problem.vertices:
            remedy = _module(problem, vertex, left) if vertex.is_open and len(vertex.outputs) == 1 else None
            if remedy is not None:
                modules.append(remedy)
    fewest = min((len(remedy.ensures) for remedy in modules), default=0)
    return (*meetings, *(remedy for remedy in modules if len(remedy.ensures) == fewest))


def demands(problem: PlanningProblem) -> tuple[Demand, ...]:
    """Everything that a plan must meet."""
    wanted = [Demand(Asked.GOAL, goal.name) for goal in problem.goals]
    for vertex in problem.vertices:
        parts = [
            part for option in vertex.options for constraint in option.requires.values() for part in _parts(constraint)
        ]
        meets = any(len(inflow.streams) > 1 for inflow in vertex.inputs)
        asked = {
            Asked.REQUIRED: vertex.requires != NOTHING,
            Asked.ENSURED: vertex.ensures != NOTHING,
            Asked.CONDITIONS: any(not mentioned(part) <= problem.types for part in parts),
            Asked.TYPES: any(mentioned(part) <= problem.types for part in parts),
            Asked.MEETING: (meets or len(vertex.inputs) > 1) and vertex.meeting is Meeting.EQUAL,
            Asked.MEETING_TYPES: meets and bool(problem.types),
            Asked.SAME: bool(vertex.same),
        }
        wanted += [Demand(kind, vertex.id) for kind, exists in asked.items() if exists]
    return tuple(wanted)


def minimal(items: Sequence[T], suffices: Callable[[Collection[T]], bool]) -> tuple[T, ...]:
    """As few of some items as suffice, none of which can be left out; more of them suffice all the more.

    QuickXplain: of n items that need k it asks about k log n times.

    >>> minimal(range(100), lambda some: {3, 70} <= set(some))
    (3, 70)
    """

    def needed(base: tuple[T, ...], rest: tuple[T, ...], *, grown: bool) -> tuple[T, ...]:
        if grown and suffices(base):
            return ()
        if len(rest) == 1:
            return rest
        left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        second = needed((*base, *left), right, grown=True)
        first = needed((*base, *second), left, grown=bool(second))
        return (*first, *second)

    return needed((), tuple(items), grown=True) if items else ()


def _module(problem: PlanningProblem, vertex: Vertex, left: TimeLeft) -> Remedy | None:
    """The least that a new module at a vertex would have to ensure for there to be a plan."""
    names = [variable.name for variable in problem.variables]

    def with_module(changes: Collection[str]) -> PlanningProblem:
        free = (
            Some(tuple(Equals(variable.name, value) for value in sorted(variable.domain)))
            for variable in problem.variables
            if variable.name in changes
        )
        option = Option(name=_NEW, ensures=All(tuple(free)))
        return _with_vertex(problem, replace(vertex, options=(option,), same=""))

    def helps(changes: Collection[str]) -> bool:
        return find_plan(with_module(changes), left=left) is not None

    if not helps(names):
        return None
    plan = find_plan(with_module(changes := minimal(names, helps)), left=left)
    if plan is None:
        raise RuntimeError(f"the module for {vertex.id} helps no more")
    state = plan.states[Outlet(vertex.id, vertex.outputs[0])]
    return Remedy(vertex=vertex.id, ensures=tuple((name, state[name]) for name in changes))


def _with_vertex(problem: PlanningProblem, changed: Vertex) -> PlanningProblem:
    return replace(
        problem, vertices=tuple(changed if vertex.id == changed.id else vertex for vertex in problem.vertices)
    )


def keeping(problem: PlanningProblem, kept: Collection[Demand]) -> PlanningProblem:
    """The problem with only some of its demands."""
    return replace(
        problem,
        goals=tuple(goal for goal in problem.goals if Demand(Asked.GOAL, goal.name) in kept),
        vertices=tuple(
            _relaxed(vertex, {demand.kind for demand in kept if demand.at == vertex.id}, problem.types)
            for vertex in problem.vertices
        ),
    )


def _relaxed(vertex: Vertex, kept: Collection[Asked], types: Collection[str]) -> Vertex:
    def asked(constraint: Constraint) -> Constraint:
        return All(
            tuple(
                part
                for part in _parts(constraint)
                if (Asked.TYPES if mentioned(part) <= set(types) else Asked.CONDITIONS) in kept
            )
        )

    return replace(
        vertex,
        options=tuple(
            replace(option, requires={port: asked(constraint) for port, constraint in option.requires.items()})
            for option in vertex.options
        ),
        requires=vertex.requires if Asked.REQUIRED in kept else NOTHING,
        ensures=vertex.ensures if Asked.ENSURED in kept else NOTHING,
        meeting=vertex.meeting if Asked.MEETING in kept else Meeting.EITHER,
        mixes_types=Asked.MEETING_TYPES not in kept,
        same=vertex.same if Asked.SAME in kept else "",
    )


def _parts(constraint: Constraint) -> tuple[Constraint, ...]:
    return constraint.parts if isinstance(constraint, All) else (constraint,)


def supports(problem: PlanningProblem, plan: PipelinePlan, goal: Goal) -> tuple[str, ...]:
    """The sources and vertices that last set what a goal speaks of, in order."""
    wanted = [(stream, name) for stream in goal.streams for name in mentioned(goal.holds)]
    seen = set(wanted)
    setters: set[str] = set()
    while wanted:
        stream, name = wanted.pop()
        vertex = problem.by_id.get(stream.origin)
        if vertex is None:
            setters.add(stream.origin)
            continue
        option = vertex.chosen(plan.options)
        if name in affected(option.ensured(stream.port)):
            setters.add(vertex.id)
            continue
        # The value of a type comes in at one port, that of any other variable at all of them.
        base = option.base or vertex.inputs[0].port
        inflows = [inflow for inflow in vertex.inputs if name not in problem.types or inflow.port == base]
        above = {(stream, name) for inflow in inflows for stream in inflow.streams} - seen
        seen |= above
        wanted += sorted(above)
    order = [*(stream.origin for stream in problem.given), *(vertex.id for vertex in problem.vertices)]
    return tuple(origin for origin in dict.fromkeys(order) if origin in setters)


def alternatives(  # noqa: PLR0913 - a plan of a problem, one place of it, and bounds
    problem: PlanningProblem,
    plan: PipelinePlan,
    criteria: Sequence[Criterion],
    vertex: str,
    *,
    most: int = 5,
    left: TimeLeft = half_a_minute,
) -> tuple[str, ...]:
    """What else a vertex may hold in plans that are as good by all criteria; at most so many, and as time allows."""
    chosen = {plan.options[vertex]}
    fillings: list[str] = []
    with suppress(OutOfTime):
        while len(fillings) < most:
            excluded = tuple({vertex: name} for name in sorted(chosen))
            other = find_plan(replace(problem, excluded=(*problem.excluded, *excluded)), criteria, left=left)
            if other is None or [result.value for result in other.reached] != [result.value for result in plan.reached]:
                break
            chosen.add(other.options[vertex])
            fillings.append(problem.by_id[vertex].chosen(other.options).filling)
    mine = problem.by_id[vertex].chosen(plan.options).filling
    return tuple(filling for filling in dict.fromkeys(fillings) if filling != mine)
