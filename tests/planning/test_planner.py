"""The planner: sound, complete and optimal, by trying everything."""

import subprocess
import sys
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning import planner, sweep
from planning.plan import OutOfTime
from planning.planner import find_plan
from planning.problem import Criterion, Inflow, Option, Outlet, PlanningProblem, RunningVertex, Vertex
from tests.planning.oracle import answers, best
from tests.planning.plan_validator import violations
from tests.planning.problems import problems

ORDERS = st.sampled_from(list(permutations(Criterion)))


def _hold(problem: PlanningProblem, criteria: tuple[Criterion, ...]) -> None:
    expected = best(problem, criteria)
    plan = find_plan(problem, criteria)
    if plan is None:
        assert expected is None
        return
    assert [] == list(violations(problem, plan))
    assert expected == tuple(figure.value for figure in plan.reached)
    assert plan.is_optimal
    # The reached are those of the plan, not only those of some plan.
    assert expected in {
        tuple(each.reached[criterion] for criterion in criteria)
        for each in answers(problem)
        if each.options == plan.options
    }


@settings(max_examples=20)
@given(problems(), ORDERS, st.integers(1, 3))
def test_plans_are_the_best_there_are(problem: PlanningProblem, order: tuple[Criterion, ...], many: int) -> None:
    """There is a plan if trying everything finds one; it is valid, and none is better."""
    _hold(problem, order[:many])


@pytest.mark.parametrize("most_ways", [sweep._MOST_WAYS, 0], ids=["sweep", "from above"])
@settings(max_examples=50)
@given(problem=problems(), order=ORDERS, many=st.integers(1, 3))
def test_plans_are_as_good_if_cores_are_given_up(
    most_ways: int, problem: PlanningProblem, order: tuple[Criterion, ...], many: int
) -> None:
    """The sweep that follows finds the best, too, and so does the search after that."""
    _hold_without_cores(most_ways, problem, order[:many])


def _hold_without_cores(most_ways: int, problem: PlanningProblem, order: tuple[Criterion, ...]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planner, "_CORES_WORK", 0.0)
        patched.setattr(sweep, "_MOST_WAYS", most_ways)
        _hold(problem, order)


@pytest.mark.slow
@pytest.mark.parametrize("most_ways", [sweep._MOST_WAYS, 0], ids=["sweep", "from above"])
@settings(max_examples=5_000)
@given(problem=problems(), order=ORDERS, many=st.integers(1, 5))
def test_many_plans_are_as_good_if_cores_are_given_up(
    most_ways: int, problem: PlanningProblem, order: tuple[Criterion, ...], many: int
) -> None:
    """The same, of thousands."""
    _hold_without_cores(most_ways, problem, order[:many])


@pytest.mark.slow
@settings(max_examples=5_000)
@given(problems(), ORDERS, st.integers(1, 5))
def test_many_plans_are_the_best_there_are(problem: PlanningProblem, order: tuple[Criterion, ...], many: int) -> None:
    """The same, of thousands."""
    _hold(problem, order[:many])


@settings(max_examples=50)
@given(problems())
def test_the_same_problem_has_the_same_plan(problem: PlanningProblem) -> None:
    """Planning twice gives one plan."""
    assert find_plan(problem, tuple(Criterion)) == find_plan(problem, tuple(Criterion))


@pytest.mark.parametrize(("entering", "started"), [("s", 0), ("sr", 1), ("rt", 0)])
@pytest.mark.parametrize("place", ["p", "nothing"])
def test_a_task_below_a_place_that_holds_nothing_runs_if_it_reads_the_same(
    place: str, entering: str, started: int
) -> None:
    """Streams pass through such a place unchanged; two are another input than one of them. Names mean nothing."""
    idle = Vertex(
        id=place,
        inputs=(Inflow("in", tuple(map(Outlet, entering))),),
        options=(Option(name="idle", is_no_op=True), Option(name="busy", computes="sort")),
    )
    counting = (Option(name="count", computes="count"),)
    last = Vertex(id="q", inputs=(Inflow("in", (Outlet(place),)),), options=counting)
    runs = tuple(
        RunningVertex(id=f"t{at}", computes="count", inputs=(Inflow("in", tuple(map(Outlet, read))),))
        for at, read in enumerate(["s", "tr"])
    )
    given: dict[Outlet, dict[str, str]] = {Outlet(each): {} for each in "srt"}
    problem = PlanningProblem(variables=(), given=given, vertices=(idle, last), running=runs)
    criteria = (Criterion.RESIDUE,)
    plan = find_plan(problem, criteria)
    assert plan is not None
    assert (started,) == tuple(each.value for each in plan.reached) == best(problem, criteria)


def test_without_time_there_is_no_answer() -> None:
    """Neither a plan nor that there is none."""
    options = tuple(Option(name=name, cost=at) for at, name in enumerate("ab"))
    vertex = Vertex(id="p", inputs=(Inflow("in", (Outlet("s"),)),), options=options)
    problem = PlanningProblem(variables=(), given={Outlet("s"): {}}, vertices=(vertex,))
    with pytest.raises(OutOfTime):
        find_plan(problem, (Criterion.COST,), left=lambda: -1.0)


def test_who_has_planned_still_hears_signals() -> None:
    """An interrupt reaches the handler of the process, and does not kill it."""
    program = """
import signal
from planning.plan import OutOfTime
from planning.planner import find_plan
from planning.problem import Criterion, Inflow, Option, Outlet, PlanningProblem, Vertex

options = (Option(name="a", cost=1), Option(name="b", cost=2))
vertex = Vertex(id="p", inputs=(Inflow("in", (Outlet("s"),)),), options=options)
# Who started this may ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
find_plan(PlanningProblem(variables=(), given={Outlet("s"): {}}, vertices=(vertex,)), (Criterion.COST,))
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert ("heard\n", 0) == (done.stdout, done.returncode)
