"""Planted problems, of which `plan` finds some groups; and the pipelines of the benchmark."""

from itertools import pairwise, product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from benchmarks.placement.baselines import at_random
from benchmarks.placement.pipelines import TERMINATOR, PaperPipeline
from engine.plan_messages import read_plan, written_plan
from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedTask,
    GroupingNotFound,
    GroupingProblem,
    Image,
    Ungroupable,
    problems_of,
)
from merge.grouping.construction import connected
from merge.grouping.evaluation import arranged
from merge.grouping.layout import NodeLayout
from tests.merge.grouping.planted import COSTS, PlantedProblem, planted_chain, planted_problem
from tests.merge.grouping.problems import groupings

_EFFORT = Effort(seconds=2.0)
_HEURISTICS = ("connection", "hybrid", "node")


@pytest.mark.parametrize("decimals", [4, None])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_planted_is_valid(seed: int, decimals: int | None) -> None:
    """The groups by which a problem was made answer it, although their images have no cores to spare."""
    for planted in (planted_problem(20, seed, decimals=decimals), planted_chain(60, seed, lines=2)):
        assert () == problems_of(planted.problem, arranged(planted.problem, planted.groups))


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from(_HEURISTICS), st.sampled_from([0.0, 0.05]))
def test_nothing_is_called_impossible_that_is_possible(seed: int, name: str, spare: float) -> None:
    """A heuristic answers a planted problem with valid groups, or says that it has found none; with what helps."""
    _hold_possible(planted_problem(20, seed, spare=spare), name)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2]))
@example(10, 0.2)
def test_node_answers_wherever_connection_does(seed: int, spare: float) -> None:
    """Where the fewest groups are beyond a limit, those with few streams between them are taken."""
    problem = planted_problem(8, seed, spare=spare).problem
    assume(not connected(NodeLayout(problem)).overload())
    assert () == problems_of(problem, GROUPING_STRATEGIES["node"](problem, _EFFORT).groups)


@pytest.mark.parametrize("name", [*_HEURISTICS, "plan"])
def test_nothing_large_is_called_impossible_that_is_possible(name: str) -> None:
    """The same for lines of more tasks than the solver takes."""
    _hold_possible(planted_chain(510, 1, lines=3), name)


def _hold_possible(planted: PlantedProblem, name: str) -> None:
    try:
        found = GROUPING_STRATEGIES[name](planted.problem, _EFFORT)
    except GroupingNotFound as none:
        assert "search for more seconds, take the strategy 'plan'" in str(none)  # noqa: PT017 - either is right
    else:
        assert () == problems_of(planted.problem, found.groups)


@pytest.mark.parametrize("decimals", [4, None])
@pytest.mark.parametrize("seed", range(8))
def test_planning_finds_what_heuristics_miss(seed: int, decimals: int | None) -> None:
    """Of twenty tasks whose images have not a core to spare it finds valid groups, whatever decimals works have."""
    problem = planted_problem(20, seed, decimals=decimals).problem
    assert () == problems_of(problem, GROUPING_STRATEGIES["plan"](problem, _EFFORT).groups)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.8, 1.0))
def test_only_what_is_impossible_is_called_so(seed: int, part: float) -> None:
    """With a part of the cores, `Ungroupable` means that no groups of all that there are fit."""
    problem = _with_part(planted_problem(5, seed).problem, part)
    for name, strategy in GROUPING_STRATEGIES.items():
        try:
            strategy(problem, _EFFORT)
        except Ungroupable:
            assert [] == list(groupings(problem))
        except GroupingNotFound:
            assert name != "plan", "a small problem is tried wholly"


def _with_part(problem: GroupingProblem, part: float) -> GroupingProblem:
    images = tuple(
        Image(name=image.name, tags=image.tags, cores=part * image.cores, most=1, there=1) for image in problem.images
    )
    return GroupingProblem(tasks=problem.tasks, streams=problem.streams, images=images, costs=problem.costs)


def test_what_is_tried_wholly_is_refused() -> None:
    """Where there are cores enough together, but not in the right places, all is tried, and the images are named."""
    images = tuple(Image(name=name, tags=frozenset(), cores=0.4, most=1) for name in ("east", "west"))
    tasks = tuple(GroupedTask(id=at, work=0.2) for at in range(3))
    problem = GroupingProblem(tasks=tasks, streams=(), images=images, costs=COSTS)
    with pytest.raises(Ungroupable, match="of all ways to divide the tasks, none fits the cores of 'east', 'west'"):
        GROUPING_STRATEGIES["plan"](problem, _EFFORT)


PIPELINES = [PaperPipeline(lines=lines, special=special, step=2) for lines, special in product((1, 3), (2, 4))]


@pytest.mark.parametrize("strategy", ["random", "node", "connection", "hybrid", "optimal"])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_groups_become_plans(strategy: str, pipeline: PaperPipeline) -> None:
    """Each task that computes and the terminator have one slot; what one job forwards is what others take."""
    problem = pipeline.problem()
    groups = (at_random(problem) if strategy == "random" else GROUPING_STRATEGIES[strategy](problem, Effort())).groups
    plans = pipeline.plans(groups, run=7)
    assert plans == [read_plan(written_plan(plan)) for plan in plans]
    assert list(range(701, 701 + TERMINATOR)) == sorted(slot.instance for plan in plans for slot in plan.slots)
    forwarded = {f"bridge/{each.instance}:out" for plan in plans for each in plan.forwards}
    assert forwarded == {stream for plan in plans for stream in plan.bridged}
    assert 1 == sum(len(plan.deliveries) for plan in plans)


def test_work_grows_along_a_line_as_in_the_paper() -> None:
    """By the squared golden ratio where each task is two steps further, and it begins anew in each of three lines."""
    line, three = (PaperPipeline(lines=lines, special=2, step=2) for lines in (1, 3))
    squares = [line.iterations(task) ** 2 for task in range(8, 13)]
    assert [pytest.approx(2.618, rel=0.1)] * 4 == [after / before for before, after in pairwise(squares)]
    assert [three.iterations(task) for task in range(1, 5)] == [three.iterations(task) for task in range(9, 13)]
