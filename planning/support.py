"""Support: what the goals of a plan rest on, and what would do as well."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from planning.constraint import affected, mentioned
from planning.pipeline_plan import OutOfTime, PipelinePlan, TimeLeft
from planning.planner import find_plan, half_a_minute
from planning.planning_problem import Criterion, Goal, Option, Outlet, PlanningProblem, Vertex


def supports(problem: PlanningProblem, plan: PipelinePlan, goal: Goal) -> tuple[str, ...]:
    """The sources and vertices that last set what a goal speaks of, in order."""
    wanted = [(stream, name) for stream in goal.streams for name in mentioned(goal.holds)]
    seen = set(wanted)
    found: set[str] = set()
    while wanted:
        stream, name = wanted.pop()
        vertex = problem.by_id.get(stream.origin)
        if vertex is None:
            found.add(stream.origin)
            continue
        option = _chosen(vertex, plan)
        if name in affected(option.ensured(stream.port)):
            found.add(vertex.id)
            continue
        above = {(each, name) for each in _above(problem, vertex, option, name)} - seen
        seen |= above
        wanted += sorted(above)
    order = [*(stream.origin for stream in problem.given), *(vertex.id for vertex in problem.vertices)]
    return tuple(each for each in dict.fromkeys(order) if each in found)


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
    found: list[str] = []
    with suppress(OutOfTime):
        while len(found) < most:
            excluded = tuple({vertex: name} for name in sorted(chosen))
            other = find_plan(replace(problem, excluded=(*problem.excluded, *excluded)), criteria, left=left)
            if other is None or [each.value for each in other.reached] != [each.value for each in plan.reached]:
                break
            chosen.add(other.options[vertex])
            found.append(_chosen(problem.by_id[vertex], other).filling)
    mine = _chosen(problem.by_id[vertex], plan).filling
    return tuple(each for each in dict.fromkeys(found) if each != mine)


def _chosen(vertex: Vertex, plan: PipelinePlan) -> Option:
    return next(each for each in vertex.options if each.name == plan.options[vertex.id])


def _above(problem: PlanningProblem, vertex: Vertex, option: Option, name: str) -> Sequence[Outlet]:
    """The streams from which a vertex has the value of a variable."""
    ports = vertex.inputs
    if any(each.is_type and each.name == name for each in problem.variables):
        ports = tuple(each for each in ports if each.port == (option.base or ports[0].port))
    return [stream for each in ports for stream in each.streams]
