"""The planner: sound, complete, optimal by trying everything, in time, and with reasons."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from benchmarks.planner.long_pipelines import CHAINS, long_pipeline
from benchmarks.planner.planning_time import joined_steps
from dags.vocabulary import Criterion
from planning import planner, sweep
from planning.constraint import All, Equals, mentioned
from planning.explanation import alternatives, conflict, demands, keeping, remedies, supports
from planning.model import Formulas, Model, Residue
from planning.plan import OutOfTime, TimeLeft
from planning.planner import find_plan, half_a_minute
from planning.problem import Inflow, Meeting, Option, Outlet, PlanningProblem, RunningVertex, Vertex, below
from planning.reach import ChosenOption, landmarks, reach
from tests.planning.problems import answers, best, doubled, merged_problem, problems, true, violations

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


def _hold_residue(seed: int) -> None:
    merged = merged_problem(seed)
    fewest = min((found for each in merged.choices() if (found := merged.residue(each)) is not None), default=None)
    impossible = tuple(
        {vertex: option.name for vertex, option in each.items()}
        for each in merged.choices()
        if doubled(merged.problem, each)
    )
    problem = merged.problem_without(impossible)
    plan = find_plan(problem, (Criterion.RESIDUE,))
    if plan is None:
        assert fewest is None
        return
    options = {
        vertex.id: next(each for each in vertex.options if each.name == plan.options[vertex.id])
        for vertex in problem.vertices
    }
    (reached,) = plan.reached
    assert (fewest, fewest, fewest, True) == (
        merged.residue(options),
        reached.value,
        reached.bound,
        plan.is_optimal,
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32))
@example(37)
@example(61)
@example(124)
def test_the_residue_is_what_merging_starts(seed: int) -> None:
    """With places that hold nothing where streams meet, tasks that are not shared, and something running already."""
    _hold_residue(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_residues_are_what_merging_starts(part: int) -> None:
    """The same, of thousands."""
    for seed in range(part * 500, (part + 1) * 500):
        _hold_residue(seed)


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


WITH_RESIDUE = (Criterion.RESIDUE, Criterion.COST, Criterion.NO_OPS)
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
            plan = find_plan(problem, WITH_RESIDUE, left=clock.left)
        except OutOfTime:
            assert clock.looks < 0
            return
    expected = best(problem, WITH_RESIDUE)
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
    plan = find_plan(problem, WITH_RESIDUE)
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
