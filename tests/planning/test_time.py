"""The time for planning: long pipelines are planned within it, and when it is over there is a plan so far, or none."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.planner.long_pipelines import CHAINS, long_pipeline
from planning import planner, sweep
from planning.constraint import Equals
from planning.model import Formulas, Model, Residue
from planning.plan import OutOfTime, TimeLeft
from planning.planner import find_plan
from planning.problem import Criterion, PlanningProblem
from planning.reach import reach
from tests.planning.oracle import best, true
from tests.planning.plan_validator import violations
from tests.planning.problems import problems

CRITERIA = (Criterion.RESIDUE, Criterion.COST, Criterion.NO_OPS)
_PLACES, _MANY_LOOKS = 24, 1_000_000


class Clock:
    """A clock that runs out at one of the looks at it."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def left(self) -> float:
        """The seconds that are left: many, and then none."""
        self.looks -= 1
        return 60.0 if self.looks >= 0 else 0.0


@settings(max_examples=40)
@given(problems(), st.integers(0, 60))
def test_when_time_is_over_there_is_a_plan_so_far_or_none(problem: PlanningProblem, looks: int) -> None:
    """Whenever that is, the answer is a valid plan, no better than the best; or that there is none; or neither."""
    clock = Clock(looks)
    with pytest.MonkeyPatch.context() as patched:
        # Every way to find plans has its turn.
        patched.setattr(planner, "_CORES_WORK", 0.0)
        patched.setattr(sweep, "_MOST_WAYS", 40)
        try:
            plan = find_plan(problem, CRITERIA, left=clock.left)
        except OutOfTime:
            assert clock.looks < 0
            return
    expected = best(problem, CRITERIA)
    if plan is None:
        assert expected is None
        return
    assert expected is not None
    assert [] == list(violations(problem, plan))
    values = tuple(each.value for each in plan.reached)
    assert (values == expected) if plan.is_optimal else (values[0] >= expected[0] >= plan.reached[0].bound)


@pytest.mark.parametrize("kind", sorted(CHAINS))
def test_who_builds_looks_at_the_clock_at_every_place(kind: str) -> None:
    """Narrowing, the model, and the residue in it each look at every place, and stop when time is over."""
    problem, clock = long_pipeline(kind, _PLACES), Clock(_MANY_LOOKS)
    narrowed = reach(problem, clock.left)
    assert narrowed is not None
    builders: list[Callable[[TimeLeft], object]] = [
        lambda left: reach(problem, left),
        lambda left: Model(problem, narrowed, left),
        lambda left: Residue(problem, narrowed.options, model.options, Formulas(model.solver_model), left),
    ]
    model = Model(problem, narrowed, clock.left)
    for build in builders:
        clock = Clock(_MANY_LOOKS)
        build(clock.left)
        assert _MANY_LOOKS - clock.looks >= _PLACES
        for looks in (0, _PLACES - 1):
            with pytest.raises(OutOfTime):
                build(Clock(looks).left)


@pytest.mark.parametrize("kind", sorted(CHAINS))
def test_long_pipelines_are_planned_to_the_end(kind: str) -> None:
    """A chain of places with 20 modules each has the best plan that counting by definition finds, and it is valid."""
    problem = long_pipeline(kind, 40)
    plan = find_plan(problem, CRITERIA)
    assert plan is not None
    assert plan.is_optimal
    assert [] == list(violations(problem, plan))
    assert _best_of_chain(problem) == tuple(each.value for each in plan.reached)


def _best_of_chain(problem: PlanningProblem) -> tuple[int, int, int]:
    """The least residue, cost and busy places, by what is known of the one stream and by what makes it."""
    (source,) = problem.given
    runs = {(task.inputs[0].streams[0].origin, task.computes): task.id for task in problem.running}
    begun = {each.name: problem.given[source].get(each.name, "null") for each in problem.variables}
    layer = {(frozenset(begun.items()), source.origin): (0, 0, 0)}
    for vertex in problem.vertices:
        following: dict[tuple[frozenset[tuple[str, str]], str], tuple[int, int, int]] = {}
        for (known, maker), (started, cost, idle) in layer.items():
            state = dict(known)
            for option in vertex.options:
                if not all(true(each, state) for each in option.requires.values()):
                    continue
                after, made = state, maker
                if isinstance(option.ensures, Equals):
                    after = state | {option.ensures.variable: option.ensures.value}
                    made = runs.get((maker, option.computes), "")
                if true(vertex.ensures, after):
                    at = (frozenset(after.items()), made)
                    value = (started + (not option.is_no_op and not made), cost + option.cost, idle - option.is_no_op)
                    following[at] = min(value, following.get(at, value))
        layer = following
    found = min(
        value for (known, _), value in layer.items() if all(true(each.holds, dict(known)) for each in problem.goals)
    )
    return (*found[:2], -found[2])
