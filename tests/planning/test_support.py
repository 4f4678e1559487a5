"""Support: the reasons of plans, and what would do as well."""

from dataclasses import replace

from hypothesis import assume, given, settings

from planning.constraint import mentioned
from planning.explanation import alternatives, supports
from planning.planner import find_plan
from planning.problem import Criterion, PlanningProblem, below
from tests.planning.oracle import best
from tests.planning.problems import problems

CRITERIA = (Criterion.COST, Criterion.NO_OPS)


@settings(max_examples=30)
@given(problems())
def test_alternatives_are_as_good(problem: PlanningProblem) -> None:
    """With each of them the best that there is has the same figures; where none is given, all others are worse."""
    plan = find_plan(problem, CRITERIA)
    assume(plan is not None)
    assert plan is not None
    figures = tuple(each.value for each in plan.reached)
    for vertex in problem.vertices[:2]:
        mine = next(each.filling for each in vertex.options if each.name == plan.options[vertex.id])
        equal = {
            option.filling
            for option in vertex.options
            if figures == best(_holding(problem, vertex.id, option.filling), CRITERIA)
        }
        assert equal - {mine} == set(alternatives(problem, plan, CRITERIA, vertex.id, most=10))


@settings(max_examples=12)
@given(problems())
def test_goals_rest_on_what_set_them(problem: PlanningProblem) -> None:
    """On nothing but sources and vertices above its streams; on something if it speaks of anything."""
    plan = find_plan(problem)
    assume(plan is not None)
    assert plan is not None
    for goal in problem.goals:
        found = supports(problem, plan, goal)
        assert found or not mentioned(goal.holds)
        for each in found:
            reached = {stream.origin for stream in goal.streams}
            assert below(problem.vertices, each) & reached or any(stream.origin == each for stream in problem.given)


def _holding(problem: PlanningProblem, vertex: str, filling: str) -> PlanningProblem:
    vertices = tuple(
        replace(each, options=tuple(option for option in each.options if option.filling == filling))
        if each.id == vertex
        else each
        for each in problem.vertices
    )
    return replace(problem, vertices=vertices)
