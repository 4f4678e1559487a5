"""What every strategy holds, and that the optimal one is."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedStream,
    GroupedTask,
    GroupingCosts,
    GroupingProblem,
    Image,
    Ungroupable,
    cost_of,
    problems_of,
)
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.optimal import lower_bound
from merge.grouping.partition import score
from merge.grouping.problem import SearchAllowance
from merge.grouping.strategies import improved
from tests.merge.grouping.problems import cheapest, grouping_problems

_ROUNDING = 1e-4
"""What the solver's whole numbers may differ by."""
_EFFORT = Effort(seconds=20.0)
COSTS = GroupingCosts(pace=1.0, batch=0.06, bridge=0.01, hop=0.002, second=0.2)


@given(grouping_problems(), st.sampled_from(sorted(GROUPING_STRATEGIES)))
def test_a_strategy_answers_with_valid_groups(problem: GroupingProblem, name: str) -> None:
    """Every task is in one group with its tags, within capacity and cores, of one owner; groups make no cycle."""
    found = GROUPING_STRATEGIES[name](problem, _EFFORT)
    assert () == problems_of(problem, found.groups)
    assert found.cost == cost_of(problem, found.groups)
    assert sorted(task.id for task in problem.tasks) == sorted(task for group in found.groups for task in group.tasks)


@settings(max_examples=15)
@given(grouping_problems(most_tasks=10))
def test_what_is_planned_is_never_dearer_than_connection(problem: GroupingProblem) -> None:
    """By the model, hybrid and plan, which is optimal in time, cost at most what connection does."""
    limit = GROUPING_STRATEGIES["connection"](problem, _EFFORT).cost.total + 1e-9
    for name in ("hybrid", "plan"):
        assert limit >= GROUPING_STRATEGIES[name](problem, Effort(seconds=1.0)).cost.total


@settings(max_examples=20)
@given(grouping_problems(), st.sampled_from(sorted(GROUPING_STRATEGIES)), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_decides_nothing(problem: GroupingProblem, name: str, draw: random.Random) -> None:
    """The same problem in another order has the same answer."""
    other = replace(
        problem,
        tasks=tuple(draw.sample(problem.tasks, len(problem.tasks))),
        streams=tuple(draw.sample(problem.streams, len(problem.streams))),
        images=tuple(draw.sample(problem.images, len(problem.images))),
    )
    strategy = GROUPING_STRATEGIES[name]
    assert strategy(problem, _EFFORT) == strategy(other, _EFFORT)


def _hold_optimal(problem: GroupingProblem) -> None:
    found = GROUPING_STRATEGIES["optimal"](problem, _EFFORT)
    least = cheapest(problem)
    assert least == pytest.approx(found.cost.total, abs=_ROUNDING)
    assert found.gap is not None
    assert found.gap <= _ROUNDING / max(found.cost.total, _ROUNDING)


@settings(max_examples=15)
@given(grouping_problems(most_tasks=5))
def test_no_grouping_is_cheaper_than_the_optimal_one(problem: GroupingProblem) -> None:
    """Of all groupings of a small problem none costs less, and it is known that none does."""
    _hold_optimal(problem)


@pytest.mark.slow
@settings(max_examples=150)
@given(grouping_problems(most_tasks=8))
def test_no_grouping_of_many_is_cheaper_than_the_optimal_one(problem: GroupingProblem) -> None:
    """The same, of up to eight tasks and three images."""
    _hold_optimal(problem)


@settings(max_examples=30)
@given(grouping_problems(most_tasks=5))
def test_no_grouping_is_below_the_bound(problem: GroupingProblem) -> None:
    """What small models prove of a problem is true of all its groupings."""
    layout = NodeLayout(problem)
    assert (lower_bound(layout, SearchAllowance(20.0)).cost - layout.base) / NANOCORES <= cheapest(problem) + _ROUNDING


@given(grouping_problems(most_tasks=12))
def test_scores_are_what_groups_cost(problem: GroupingProblem) -> None:
    """What is kept up to date while groups change is what the definition says of the groups."""
    partition = improved(NodeLayout(problem), SearchAllowance(_EFFORT.seconds))
    found = GROUPING_STRATEGIES["hybrid"](problem, _EFFORT)
    over, cost = score(partition)
    assert 0 == over
    assert pytest.approx(found.cost.total, abs=_ROUNDING) == (cost - partition.layout.base) / NANOCORES


def test_branches_go_apart_where_it_pays() -> None:
    """Three busy lines between two tasks are three groups for hybrid if a second counts, and one for connection."""
    lines = [range(1 + 2 * line, 3 + 2 * line) for line in range(3)]
    pairs = [(0, line[0]) for line in lines] + [(line[0], line[1]) for line in lines] + [(line[1], 7) for line in lines]
    problem = GroupingProblem(
        tasks=tuple(GroupedTask(id=at, work=0.0 if at in {0, 7} else 0.07) for at in range(8)),
        streams=tuple(GroupedStream(parent=parent, child=child) for parent, child in pairs),
        images=(Image(name="all", tags=frozenset(), cores=1.0),),
        costs=replace(COSTS, second=5.0, batch=0.01),
    )
    assert 1 == len(GROUPING_STRATEGIES["connection"](problem, _EFFORT).groups)
    hybrid = GROUPING_STRATEGIES["hybrid"](problem, _EFFORT)
    homes = {task: group for group in hybrid.groups for task in group.tasks}
    assert 3 == len({homes[line[0]] for line in lines})
    one_core = replace(problem, images=(Image(name="all", tags=frozenset(), cores=0.45, most=1),))
    assert 1 == len(GROUPING_STRATEGIES["hybrid"](one_core, _EFFORT).groups)


@pytest.mark.parametrize(
    ("offers", "blamed", "said"),
    [
        ([{"gpu"}, {"arm"}], {"sql"}, "none offers sql; register one that does"),
        ([{"gpu"}, {"sql"}], {"gpu", "sql"}, "none offers gpu, sql together; register one that does"),
        ([], {"gpu", "sql"}, "there is none; register one"),
    ],
)
def test_what_no_image_can_run_is_refused(offers: list[set[str]], blamed: set[str], said: str) -> None:
    """The message names the task and the tags to blame, and what helps."""
    images = tuple(Image(name=f"i{at}", tags=frozenset(tags), cores=1.0) for at, tags in enumerate(offers))
    tasks = (GroupedTask(id="a"), GroupedTask(id="b", tags=frozenset({"gpu", "sql"})))
    problem = GroupingProblem(tasks=tasks[-1:] if not offers else tasks, streams=(), images=images, costs=COSTS)
    for strategy in GROUPING_STRATEGIES.values():
        with pytest.raises(Ungroupable, match=f"task 'b': {said}") as refused:
            strategy(problem, _EFFORT)
        assert blamed == refused.value.tags


def test_too_few_cores_are_refused() -> None:
    """Where no groups fit the cores of the hosts there may be, the image and the remedy are named."""
    image = Image(name="small", tags=frozenset(), cores=0.2, most=1)
    problem = GroupingProblem(tasks=(GroupedTask(id=1, work=0.3),), streams=(), images=(image,), costs=COSTS)
    with pytest.raises(Ungroupable, match=r"'small' have 0\.2 cores and 0\.36 are needed; let the image have more"):
        GROUPING_STRATEGIES["plan"](problem, _EFFORT)


def test_a_stream_that_makes_a_cycle_is_refused() -> None:
    """So are ids that are unknown, or there twice; all in one message."""
    task = GroupedTask(id=1)
    with pytest.raises(ValueError, match="task 1 is there twice; unknown task 2"):
        GroupingProblem(tasks=(task, task), streams=(GroupedStream(parent=1, child=2),), images=(), costs=COSTS)
    with pytest.raises(ValueError, match="streams make a cycle, 1 > 1"):
        GroupingProblem(tasks=(task,), streams=(GroupedStream(parent=1, child=1),), images=(), costs=COSTS)
