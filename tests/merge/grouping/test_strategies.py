"""What every strategy holds, that the optimal one is, and that explanations and figures agree with it."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupedStream,
    GroupedTask,
    GroupingCosts,
    GroupingProblem,
    Image,
    NoGrouping,
    PresentGroup,
    Ungroupable,
    cost_of,
    problems_of,
    strategies,
)
from merge.grouping.explanation import other_places, second_best, worth_of_more
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.optimal import lower_bound
from merge.grouping.partition import score
from merge.grouping.problem import SearchAllowance
from merge.grouping.strategies import improved
from tests.merge.grouping.problems import cheapest, grouping_problems, groupings, problem_of

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


def test_all_that_is_wrong_with_a_problem_is_in_one_message() -> None:
    """Each id is named with what it is the id of; a cycle over what stays is one too."""
    task, image = GroupedTask(id=1), Image(name="a", tags=frozenset(), cores=1.0)
    job = PresentGroup(id="job", image="a", tasks=frozenset({"s"}))
    with pytest.raises(ValueError, match="this is no grouping problem: ") as refused:
        GroupingProblem(
            tasks=(task, task),
            streams=(GroupedStream(parent=1, child=2),),
            images=(image, image),
            costs=COSTS,
            present=(job, replace(job, image="gone", tasks=frozenset({"s", 1}))),
        )
    assert (
        "task 1 is there twice; image 'a' is there twice; present group 'job' is there twice; "
        "task of present groups 's' is there twice; unknown task 2; unknown image 'gone'; "
        "task 1 is in a present group already"
    ) == str(refused.value).removeprefix("this is no grouping problem: ")
    over = replace(job, tasks=frozenset({"s", "t"}))
    streams = (GroupedStream(parent="s", child=1), GroupedStream(parent=1, child="t"))
    with pytest.raises(ValueError, match="streams make a cycle, job > 1 > job"):
        GroupingProblem(tasks=(task,), streams=streams, images=(image,), costs=COSTS, present=(over,))


@settings(max_examples=20)
@given(grouping_problems(most_tasks=6))
def test_no_other_place_saves_anything(problem: GroupingProblem) -> None:
    """Of an optimal grouping each other place of a task costs as much or more, or is not possible for a reason."""
    found = GROUPING_STRATEGIES["optimal"](problem, _EFFORT)
    for task in problem.tasks:
        for place in other_places(problem, found, task.id):
            assert place.why_not if place.more is None else place.more >= -1e-4


@settings(max_examples=10)
@given(grouping_problems(most_tasks=4))
def test_the_second_best_is_the_cheapest_that_is_cut_otherwise(problem: GroupingProblem) -> None:
    """Of all groupings with other groups than the best, whatever their images, none costs less than the second best."""
    found = GROUPING_STRATEGIES["optimal"](problem, _EFFORT)
    cut = {(group.tasks, group.present) for group in found.groups}
    others = [each for each in groupings(problem) if {(group.tasks, group.present) for group in each} != cut]
    second = second_best(problem, found, 20.0)
    assume(others)
    assert second is not None
    assert min(cost_of(problem, each).total for each in others) == pytest.approx(second.cost.total, abs=1e-4)
    assert cut != {(group.tasks, group.present) for group in second.groups}


def test_places_say_what_is_in_the_way() -> None:
    """A task that an image does not offer its tags to, and one that fits nowhere else, say so."""
    problem = GroupingProblem(
        tasks=(GroupedTask(id=1, tags=frozenset({"gpu"}), work=0.3), GroupedTask(id=2, work=0.3)),
        streams=(),
        images=(
            Image(name="gpu", tags=frozenset({"gpu"}), cores=4.0),
            Image(name="plain", tags=frozenset(), cores=4.0),
        ),
        costs=GroupingCosts(pace=1.0, batch=0.06, bridge=0.01),
    )
    found = GROUPING_STRATEGIES["plan"](problem, _EFFORT)
    reasons = {(place.image, place.with_tasks): place.why_not for place in other_places(problem, found, 1)}
    assert ("the group of 1 on 'plain' lacks gpu",) == reasons["plain", ()]
    assert "beyond capacity with 0.6 cores" in str(reasons)


def test_more_hosts_are_worth_what_they_save() -> None:
    """One more host saves the price of the one that would be started, of whichever image that work may be on."""
    image = Image(name="used", tags=frozenset(), cores=0.5, price=2.0, start=10.0, there=1)
    problem = GroupingProblem(
        tasks=(GroupedTask(id=1, work=0.4), GroupedTask(id=2, work=0.4)),
        streams=(),
        images=(image, replace(image, name="dear", price=9.0, there=0)),
        costs=GroupingCosts(pace=1.0, batch=0.06, price=0.01, start=0.001),
    )
    plan = GROUPING_STRATEGIES["plan"]
    found = plan(problem, _EFFORT)
    worth = worth_of_more(problem, found, lambda other: plan(other, _EFFORT))
    assert ["used", "dear"] == [each.image for each in worth]
    assert [pytest.approx(0.03)] * 3 == [worth[0].host, worth[1].host, worth[0].core]


_NAMES = ("work", "stays", "pace", "batch", "bridge", "hop", "second", "start", "price")
_IMAGE_NAMES = ("cores", "image_start", "image_price", "most", "there")
_ANY: st.SearchStrategy[Any] = (
    st.sampled_from([0, -1, 1, 0.5, 1e-9, 1e300, -math.inf, math.inf, math.nan, 10**400, 5e-324, True, None, "1"])
    | st.floats()
    | st.integers()
)


def _problem(figures: Mapping[str, Any]) -> GroupingProblem:
    known = {"work": 0.1, "stays": 0.1, "pace": 1.0, "batch": 0.06, "cores": 2.0, "most": 2, "there": 1} | dict(figures)
    return GroupingProblem(
        tasks=tuple(GroupedTask(id=at, work=known["work"]) for at in range(3)),
        streams=(GroupedStream(parent=0, child=1), GroupedStream(parent="s", child=2)),
        images=(
            Image(
                name="a",
                tags=frozenset(),
                cores=known["cores"],
                start=known.get("image_start", 1.0),
                price=known.get("image_price", 1.0),
                most=known["most"],
                there=known["there"],
            ),
            Image(name="b", tags=frozenset(), cores=1.0, price=2.0),
        ),
        costs=GroupingCosts(**{name: known.get(name, 0.01) for name in _NAMES[2:]}),
        present=(PresentGroup(id="job", image="a", tasks=frozenset({"s"}), work=known["stays"]),),
    )


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_NAMES + _IMAGE_NAMES), _ANY, max_size=2), st.sampled_from(["hybrid", "node"]))
def test_any_figures_lead_to_valid_groups_or_to_an_error(figures: Mapping[str, Any], name: str) -> None:
    """A problem with whatever figures has an answer that is valid, or none with the reason."""
    _hold(figures, name)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(_NAMES + _IMAGE_NAMES), _ANY, max_size=2))
def test_any_figures_can_be_planned_or_lead_to_an_error(figures: Mapping[str, Any]) -> None:
    """The same for what the solver computes with."""
    _hold(figures, "plan")


def _hold(figures: Mapping[str, Any], name: str) -> None:
    try:
        problem = _problem(figures)
    except ValueError as wrong:
        assert "; give" in str(wrong) or "smaller figures" in str(wrong)  # noqa: PT017 - some figures are right
        return
    try:
        found = GROUPING_STRATEGIES[name](problem, Effort(seconds=0.5))
    except NoGrouping:
        return
    assert () == problems_of(problem, found.groups)
    assert math.isfinite(found.cost.total)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"pace": 0.0}, r"these are no costs: pace is 0\.0; give a number from 1e-06 to 1,000,000"),
        ({"batch": math.nan}, "these are no costs: batch is nan; give"),
        ({"cores": 0}, "no image 'a' can be: cores is 0; give"),
        ({"work": -0.1}, r"no task 0 can be: work is -0\.1; give"),
        ({"stays": math.inf}, "no present group 'job' can be: work is inf; give"),
        ({"image_start": -1}, "no image 'a' can be: start is -1; give"),
        ({"image_price": -2}, "no image 'a' can be: price is -2; give"),
        ({"there": -3}, "no image 'a' can be: there is -3; give a whole number"),
        ({"most": 1.5}, r"no image 'a' can be: most is 1\.5; give a whole number"),
        ({"second": 1e6, "pace": 1e6}, "second comes to .* cores at worst"),
    ],
)
def test_a_wrong_figure_is_named(figures: Mapping[str, Any], said: str) -> None:
    """The message has the record, the figure and what is possible."""
    with pytest.raises(ValueError, match=said):
        _problem(figures)


TOO_MUCH = "no more than 100,000,000 can be reckoned with, so give smaller figures"


@pytest.mark.parametrize(
    ("works", "stays", "costs", "image", "said"),
    [
        pytest.param(
            [1e6] * 100,
            1e6,
            {},
            (1e6, 0.0, 0.0),
            "work comes to 1.01e+08 cores at worst, and all costs to 1.01e+08",
            id="work",
        ),
        pytest.param([1e6] * 100, 0.0, {}, (1e6, 0.0, 0.0), "", id="as much as can be"),
        pytest.param(
            [10.0, 20.0],
            30.0,
            {"pace": 2.0, "batch": 0.5, "second": 1e6},
            (1.0, 0.0, 0.0),
            "second comes to 1.215e+08 cores at worst, and all costs to 1.215e+08",
            id="seconds of batches",
        ),
        pytest.param(
            [9.0],
            0.0,
            {"start": 1e4, "price": 1e4},
            (3.0, 5e3, 1e4),
            "start and price of image 'a' comes to 6e+08 cores at worst, and all costs to 6e+08",
            id="hosts",
        ),
    ],
)
def test_costs_that_are_too_much_together_are_named(
    works: list[float], stays: float, costs: Mapping[str, float], image: tuple[float, float, float], said: str
) -> None:
    """The largest of them, and the sum: what runs already counts as well."""

    def problem() -> GroupingProblem:
        return GroupingProblem(
            tasks=tuple(GroupedTask(id=at, work=work) for at, work in enumerate(works)),
            streams=(),
            images=(Image(name="a", tags=frozenset(), cores=image[0], start=image[1], price=image[2]),),
            costs=GroupingCosts(**{"pace": 1.0, "batch": 0.0, **costs}),
            present=(PresentGroup(id="job", image="a", work=stays),),
        )

    if not said:
        problem()
        return
    with pytest.raises(ValueError, match="no grouping problem") as refused:
        problem()
    assert f"this is no grouping problem: {said}; {TOO_MUCH}" == str(refused.value)


def test_what_a_stage_leaves_goes_back_once() -> None:
    """A part is taken off what is left, and comes back without what was spent; what is overspent is missing."""
    allowance = SearchAllowance(4.0)
    part = allowance.part(0.25)
    assert (3.0, 1.0) == (allowance.seconds, part.seconds)
    part.spend(500_000)
    allowance.back(part)
    allowance.back(part)
    assert (3.5, 0.0) == (allowance.seconds, part.seconds)
    part = allowance.part(1.0)
    assert [True, False] == [rest.is_spent for rest in (allowance, part)]
    part.spend(5_000_000)
    allowance.back(part)
    assert -1.5 == allowance.seconds
    assert 0.0 == allowance.part(0.5).seconds


def test_what_hybrid_may_begin_with_takes_of_its_effort() -> None:
    """Each beginning takes some, and with nothing left there is none."""
    layout = NodeLayout(problem_of([0.1, 0.1, 0.1], [(0, 1)]))
    allowance = SearchAllowance(1.0)
    left = [allowance.seconds for _ in strategies._others(layout, allowance)]
    assert len(left) > 1
    assert sorted({1.0, *left}, reverse=True) == [1.0, *left]
    assert [] == list(strategies._others(layout, SearchAllowance(0.0)))


def test_an_effort_is_some_time() -> None:
    """Searching for no time, or for ever, is refused."""
    for seconds in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="this is no effort: seconds is"):
            Effort(seconds=seconds)


@pytest.mark.parametrize("batch", [0.5, 0.7])
@pytest.mark.parametrize("name", sorted(GROUPING_STRATEGIES))
def test_where_batches_take_half_of_the_pace_each_task_is_alone(batch: float, name: str) -> None:
    """A group has no room for work then, so each task that works has one to itself."""
    tasks = tuple(GroupedTask(id=at, work=0.1) for at in range(3))
    image = Image(name="a", tags=frozenset(), cores=2.0)
    problem = GroupingProblem(tasks=tasks, streams=(), images=(image,), costs=GroupingCosts(pace=1.0, batch=batch))
    found = GROUPING_STRATEGIES[name](problem, Effort(seconds=0.5))
    assert [(0,), (1,), (2,)] == sorted(group.tasks for group in found.groups)
