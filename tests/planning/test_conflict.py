"""Conflicts and remedies: as little as cannot hold, and what does help."""

from dataclasses import replace

from hypothesis import assume, given, settings

from planning.constraint import All, Equals
from planning.explanation import conflict, demands, keeping, remedies
from planning.planner import find_plan
from planning.problem import Meeting, Option, PlanningProblem, Vertex
from tests.planning.oracle import answers
from tests.planning.problems import problems


def feasible(problem: PlanningProblem) -> bool:
    """Whether trying everything finds a plan."""
    return next(answers(problem), None) is not None


@settings(max_examples=15)
@given(problems())
def test_conflicts_are_minimal(problem: PlanningProblem) -> None:
    """What is in conflict cannot hold together; without any one of it, the rest can."""
    assume(find_plan(problem) is None)
    found = conflict(problem)
    assert set(found) <= set(demands(problem))
    assert not feasible(keeping(problem, found))
    for each in found:
        assert feasible(keeping(problem, [other for other in found if other != each]))


@settings(max_examples=15)
@given(problems())
def test_remedies_help(problem: PlanningProblem) -> None:
    """After any of the changes there is a plan, and a new module that ensured less would not do."""
    assume(find_plan(problem) is None)
    for each in remedies(problem, conflict(problem)):
        vertex = problem.by_id[each.vertex]
        if each.meets_by_either:
            assert feasible(_with(problem, replace(vertex, meeting=Meeting.EITHER)))
            continue
        effects = [Equals(name, value) for name, value in each.ensures]
        assert feasible(_with(problem, _filled(vertex, effects)))
        for left_out in effects:
            assert not feasible(_with(problem, _filled(vertex, [other for other in effects if other != left_out])))


def _filled(vertex: Vertex, effects: list[Equals]) -> Vertex:
    return replace(vertex, options=(Option(name="new", ensures=All(tuple(effects))),), same="")


def _with(problem: PlanningProblem, changed: Vertex) -> PlanningProblem:
    return replace(
        problem, vertices=tuple(changed if vertex.id == changed.id else vertex for vertex in problem.vertices)
    )
