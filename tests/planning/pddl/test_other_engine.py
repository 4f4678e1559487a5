"""Another engine agrees: Kairos reads the exported texts, and knows nothing of Braid."""

import kairos
import pytest
import up_kairos
from hypothesis import given, settings
from unified_planning.engines import PlanGenerationResultStatus

from planning.pddl.pddl_export import exported, filled
from planning.pddl.pddl_import import unified
from planning.planner import find_plan
from planning.planning_problem import Criterion, PlanningProblem
from tests.planning.oracle import answers
from tests.planning.pddl.said import said_problems, streets

_LONGEST_S = 60


def _hold(problem: PlanningProblem) -> None:
    said = exported(problem)
    task = kairos.parse_problem(said.problem, kairos.parse_domain(said.domain, "domain"), "problem")
    options = kairos.SearchOptions()
    options.timeout = _LONGEST_S
    other = kairos.Planner().solve(task, options)  # type: ignore[no-untyped-call]  # the library leaves it out
    plan = find_plan(problem, (Criterion.COST,))
    if plan is None:
        assert kairos.Status.UNSOLVABLE is other.status
        return
    assert kairos.Status.SOLVED is other.status
    found = filled(each.name for each in other.plan.steps)
    (cost,) = [each.reached[Criterion.COST] for each in answers(problem) if each.options == found]
    assert plan.reached[0].value <= cost


@settings(max_examples=50)
@given(said_problems())
def test_another_engine_finds_plans_where_there_are_some(problem: PlanningProblem) -> None:
    """Both find a plan, or both show that there is none; the other one's is valid, and not cheaper."""
    _hold(problem)


@pytest.mark.slow
@settings(max_examples=500)
@given(said_problems())
def test_another_engine_agrees_on_many_problems(problem: PlanningProblem) -> None:
    """The same, of hundreds."""
    _hold(problem)


@pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")  # unified-planning calls pyparsing's
def test_an_engine_of_unified_planning_takes_it() -> None:
    """What unified-planning reads is planned by its engines, and their plans say what fills each vertex."""
    said = unified(exported(streets()))
    up_kairos.register(said.environment)
    said.environment.credits_stream = None
    with said.environment.factory.OneshotPlanner(name="kairos") as engine:
        found = engine.solve(said, timeout=_LONGEST_S)
    assert PlanGenerationResultStatus.SOLVED_OPTIMALLY is found.status
    assert {"clean": "smooth@1", "join": "join"} == filled(each.action.name for each in found.plan.actions)
