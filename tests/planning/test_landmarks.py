"""Landmarks: every plan that trying everything finds has one of each, and those of a join name its step."""

from hypothesis import given, settings

from benchmarks.planner.planning_time import joined_steps
from planning.planner import half_a_minute
from planning.problem import Meeting, PlanningProblem
from planning.reach import ChosenOption, landmarks, reach
from tests.planning.oracle import answers
from tests.planning.problems import problems


@settings(max_examples=80)
@given(problems())
def test_every_plan_has_one_of_each_landmark(problem: PlanningProblem) -> None:
    """Whatever streams meet, and whatever is a type, ensured at single ports, or the same as elsewhere."""
    left = reach(problem, half_a_minute)
    found = [] if left is None else list(landmarks(problem, left))
    for answer in answers(problem):
        for landmark in found:
            assert any(answer.options[vertex] == option for vertex, option in landmark)


def test_a_step_is_taken_on_one_of_the_streams_that_meet() -> None:
    """By either rule, of several joins in a row, back to the first."""
    problem = joined_steps(3, Meeting.EITHER)
    left = reach(problem, half_a_minute)
    assert left is not None
    expected = {frozenset(ChosenOption(f"p{at}{side}", f"m{at}.0") for side in "ab") for at in range(3)}
    assert expected <= set(landmarks(problem, left))
