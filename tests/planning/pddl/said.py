"""Random planning problems that PDDL can say."""

from dataclasses import replace

from hypothesis import strategies as st

from planning.planning_problem import PlanningProblem
from tests.planning.problems import problems


def said_problems() -> st.SearchStrategy[PlanningProblem]:
    """Problems in which no vertex holds the same as another."""
    return problems().map(_without_same)


def _without_same(problem: PlanningProblem) -> PlanningProblem:
    return replace(problem, vertices=tuple(replace(vertex, same="") for vertex in problem.vertices))
