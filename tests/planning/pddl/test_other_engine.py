"""Another engine agrees: Kairos plans what was exported, and knows nothing of Braid."""

import pytest
import up_kairos
from hypothesis import given, settings
from unified_planning.engines import PlanGenerationResultStatus

from planning.pddl.pddl_export import exported, filled
from planning.pddl.pddl_import import unified
from planning.planner import find_plan
from planning.planning_problem import Criterion, PlanningProblem
from tests.planning.oracle import answers
from tests.planning.pddl.said import said_problems

# unified-planning calls pyparsing by names that it gives up.
pytestmark = pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")
_LONGEST_S = 60


def _hold(problem: PlanningProblem) -> None:
    plan = find_plan(problem, (Criterion.COST,))
    said = unified(exported(problem))
    up_kairos.register(said.environment)
    said.environment.credits_stream = None
    with said.environment.factory.OneshotPlanner(name="kairos") as kairos:
        other = kairos.solve(said, timeout=_LONGEST_S)
    if plan is None:
        assert PlanGenerationResultStatus.UNSOLVABLE_PROVEN is other.status
        return
    assert PlanGenerationResultStatus.SOLVED_OPTIMALLY is other.status
    options = filled(each.action.name for each in other.plan.actions)
    assert [plan.reached[0].value] == [
        each.reached[Criterion.COST] for each in answers(problem) if each.options == options
    ]


@settings(max_examples=15)
@given(said_problems())
def test_another_engine_finds_plans_where_there_are_some(problem: PlanningProblem) -> None:
    """Both find a plan of the same cost, or both show that there is none."""
    _hold(problem)


@pytest.mark.slow
@settings(max_examples=500)
@given(said_problems())
def test_another_engine_agrees_on_many_problems(problem: PlanningProblem) -> None:
    """The same, of hundreds."""
    _hold(problem)
