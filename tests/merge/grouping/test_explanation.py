"""What explains a grouping, by examples worked out by hand, and by the definition of what groups cost."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    Expense,
    Group,
    GroupedTask,
    Grouping,
    GroupingNotFound,
    GroupingProblem,
    Image,
    PresentGroup,
    cost_of,
    explanation,
    problems_of,
)
from merge.grouping.evaluation import arranged
from merge.grouping.explanation import OtherPlace, WorthOfMore, other_places, second_best, worth_of_more
from tests.merge.grouping.problems import ALL, COSTS, PLAIN, grouping_problems, problem_of


def grouping_of(problem: GroupingProblem, *groups: Group) -> Grouping:
    """Groups with what they cost."""
    return Grouping(groups=groups, cost=cost_of(problem, groups))


EXACT = replace(COSTS, batch=1 / 8, bridge=1 / 64)
"""Fractions that are exact, so that equals are equal."""
JOB = PresentGroup(id="job", image="plain", tasks=frozenset({"s"}), work=0.1)
IDLE = PresentGroup(id="idle", image="all", tasks=frozenset({"t"}))
CLOSED = PresentGroup(id="closed", image="all", takes_more=False)


def test_other_places_are_all_groups_and_all_images() -> None:
    """The cheapest comes first, equals by the names of images, and what is not possible last with its reasons."""
    problem = problem_of(
        [0.1, 0.1, 0.0, 0.4],
        [("s", 0), (0, 1), (1, 2)],
        images=(PLAIN, ALL),
        present=(JOB, IDLE, CLOSED),
        tags={2: "gpu"},
        costs=EXACT,
    )
    groups = grouping_of(
        problem,
        Group(image="plain", tasks=(0,), present="job"),
        Group(image="plain", tasks=(1,)),
        Group(image="all", tasks=(2,)),
        Group(image="all", tasks=(3,)),
    )
    # Three new groups and two bridges.
    assert 3 / 8 + 2 / 64 == groups.cost.total
    assert (
        # No batch and one bridge less.
        OtherPlace(image="all", with_tasks=(2,), more=-9 / 64),
        OtherPlace(image="plain", with_tasks=(0,), present="job", more=-9 / 64),
        # No batch, but both bridges.
        OtherPlace(image="all", present="idle", more=-1 / 8),
        OtherPlace(image="all", more=0.0),
        OtherPlace(
            image="all", with_tasks=(3,), why_not=("the group of 3 on 'all' is beyond capacity with 0.5 cores",)
        ),
        OtherPlace(image="all", present="closed", why_not=("the group of 1 on 'all' takes no more tasks",)),
    ) == tuple(
        replace(place, why_not=tuple(reason.removesuffix(" of work") for reason in place.why_not))
        for place in other_places(problem, groups, 1)
    )


def test_a_task_with_others_could_be_alone_on_each_image() -> None:
    """On its own image too, but not where what is there already could not be left; the others stay in its group."""
    problem = problem_of([0.1, 0.1], [("s", 0), (0, 1)], images=(ALL, PLAIN), present=(JOB,), costs=EXACT)
    together = grouping_of(problem, Group(image="plain", tasks=(0, 1), present="job"))
    assert Expense() == together.cost
    assert (
        OtherPlace(image="all", more=9 / 64),
        OtherPlace(image="plain", more=9 / 64),
    ) == other_places(problem, together, 1)
    # The first one's stream is a bridge as well, and it stands between both.
    assert ["groups wait for each other"] * 2 == [
        place.why_not[0].partition(":")[0] for place in other_places(problem, together, 0)
    ]


def test_a_task_alone_in_what_is_there_could_have_a_group_of_its_own() -> None:
    """A group that is there is not the same as one on its image, and a task alone has no place that it has already."""
    problem = problem_of([0.1], [("s", 0)], images=(ALL, PLAIN), present=(JOB,), costs=EXACT)
    joined = grouping_of(problem, Group(image="plain", tasks=(0,), present="job"))
    assert [("all", None), ("plain", None)] == [
        (place.image, place.present) for place in other_places(problem, joined, 0)
    ]
    alone = grouping_of(problem, Group(image="plain", tasks=(0,)))
    assert (
        OtherPlace(image="plain", present="job", more=-9 / 64),
        OtherPlace(image="all", more=0.0),
    ) == other_places(problem, alone, 0)


@settings(max_examples=20)
@given(grouping_problems(most_tasks=5))
def test_places_cost_what_the_groups_do_with_the_task_there(problem: GroupingProblem) -> None:
    """Each place says how much more the groups cost with the task there, or all that is wrong with them."""
    groups = GROUPING_STRATEGIES["connection"](problem, Effort(seconds=0.5))
    for task in problem.tasks:
        for place in other_places(problem, groups, task.id):
            others = [
                replace(group, tasks=tuple(other for other in group.tasks if other != task.id))
                for group in groups.groups
                if place.with_tasks != group.tasks
            ]
            joined = Group(image=place.image, tasks=(*place.with_tasks, task.id), present=place.present)
            moved = arranged(problem, [*(group for group in others if group.tasks), joined])
            assert place.why_not == problems_of(problem, moved)
            if place.more is not None:
                assert pytest.approx(cost_of(problem, moved).total - groups.cost.total) == place.more


Second = Callable[[GroupingProblem, Grouping], Grouping | None]


def _near(problem: GroupingProblem, groups: Grouping) -> Grouping | None:
    """The second best as it is looked for in problems that are too large for the solver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explanation, "_EXACT", 0)
        return second_best(problem, groups)


@pytest.mark.parametrize("second", [second_best, _near])
def test_a_task_alone_has_no_second_best(second: Second) -> None:
    """There is one way to cut it, and no other place for it."""
    problem = problem_of([0.1])
    assert second(problem, grouping_of(problem, Group(image="all", tasks=(0,)))) is None


@pytest.mark.parametrize("second", [second_best, _near])
def test_the_second_best_of_a_line_cuts_its_end_off(second: Second) -> None:
    """Three tasks that are best together are cut before the last, which takes one port less than before the second."""
    problem = problem_of([0.1, 0.1, 0.1], [(0, 1), (0, 2), (1, 2)])
    other = second(problem, grouping_of(problem, Group(image="all", tasks=(0, 1, 2))))
    assert other is not None
    # After the first task both others take the same port, and that is one bridge.
    assert (Group(image="all", tasks=(0,)), Group(image="all", tasks=(1, 2))) == other.groups
    assert pytest.approx(0.21) == other.cost.total


def test_the_second_best_is_its_own_bound() -> None:
    """It is proved to be that where the solver looked among all, and not where one task was moved."""
    problem = problem_of([0.1, 0.1], [(0, 1)])
    best = grouping_of(problem, Group(image="all", tasks=(0, 1)))
    proved, near = second_best(problem, best), _near(problem, best)
    assert proved is not None
    assert near is not None
    assert proved.groups == near.groups
    assert pytest.approx(0.21) == proved.bound
    assert near.bound is None


def test_the_second_best_may_have_more_groups() -> None:
    """Where two tasks are best together and may not be with what stays, both apart are the second best."""
    stays = PresentGroup(id="job", image="all", takes_more=False)
    problem = problem_of([0.1, 0.1, 0.4], [(0, 1)], present=(stays,))
    best = grouping_of(problem, Group(image="all", tasks=(0, 1)), Group(image="all", tasks=(2,)))
    second = second_best(problem, best)
    assert second is not None
    assert [(0,), (1,), (2,)] == sorted(group.tasks for group in second.groups)


def test_leaving_what_is_there_cuts_otherwise() -> None:
    """Where a task is best in a group that is there, a new group for it is the second best."""
    problem = problem_of([0.1], [("s", 0)], images=(ALL, PLAIN), present=(JOB,))
    second = second_best(problem, grouping_of(problem, Group(image="plain", tasks=(0,), present="job")))
    assert second is not None
    assert second.groups[0].present is None
    assert pytest.approx(0.11) == second.cost.total


def test_leaving_one_of_several_groups_that_are_there_cuts_otherwise() -> None:
    """What is there is known by its id, whichever of them it is."""
    problem = problem_of([0.1], [("s", 0)], images=(ALL, PLAIN), present=(IDLE, JOB))
    for best, other in (("idle", "job"), ("job", "idle")):
        image = {"idle": "all", "job": "plain"}
        second = second_best(problem, grouping_of(problem, Group(image=image[best], tasks=(0,), present=best)))
        assert second is not None
        assert (Group(image=image[other], tasks=(0,), present=other),) == second.groups


def test_no_second_best_is_found_in_no_time() -> None:
    """What the solver has no time for has no answer."""
    problem = problem_of([0.1, 0.1], [(0, 1)])
    assert second_best(problem, grouping_of(problem, Group(image="all", tasks=(0, 1))), 1e-9) is None


@settings(max_examples=20)
@given(grouping_problems(most_tasks=4))
def test_the_nearest_has_one_task_elsewhere(problem: GroupingProblem) -> None:
    """In a problem too large for the solver it is the cheapest of all in which one task is moved, and is valid."""
    groups = GROUPING_STRATEGIES["connection"](problem, Effort(seconds=0.5))
    near = _near(problem, groups)
    costs = [
        groups.cost.total + place.more
        for task in problem.tasks
        for place in other_places(problem, groups, task.id)
        if place.more is not None
    ]
    if near is None:
        assert not costs
    else:
        assert () == problems_of(problem, near.groups)
        assert cost_of(problem, near.groups) == near.cost
        assert pytest.approx(min(costs)) == near.cost.total


def test_small_problems_are_for_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many tasks times groups as the limit says are looked at among all, and one more is not."""
    problem = problem_of([0.1, 0.1, 0.1], [(0, 1), (1, 2)])
    best = grouping_of(problem, Group(image="all", tasks=(0, 1, 2)))
    for limit, bound in ((9, pytest.approx(0.21)), (8, None)):
        monkeypatch.setattr(explanation, "_EXACT", limit)
        second = second_best(problem, best)
        assert second is not None
        assert bound == second.bound


IMAGES = (
    Image(name="a", tags=frozenset(), cores=1.0, there=2, most=3),
    Image(name="b", tags=frozenset({"gpu"}), cores=2.0),
    Image(name="c", tags=frozenset(), cores=4.0, most=0),
)


def test_more_is_planned_with_one_image_changed() -> None:
    """One more host is there and allowed, or each host has one more core; all else is the same, and in its order."""
    problem = GroupingProblem(tasks=(GroupedTask(id=0),), streams=(), images=IMAGES, costs=COSTS)
    planned = []

    def plan(other: GroupingProblem) -> Grouping:
        assert problem == replace(other, images=IMAGES)
        planned.append(other.images)
        return Grouping(groups=(), cost=Expense(groups=1.0 - len(planned) / 8))

    a, b, c = IMAGES
    now = Grouping(groups=(), cost=Expense(groups=0.5, prices=0.25))
    worth = worth_of_more(problem, now, plan)
    assert [
        (replace(a, there=3, most=4), b, c),
        (replace(a, cores=2.0), b, c),
        (a, replace(b, there=1), c),
        (a, replace(b, cores=3.0), c),
        (a, b, replace(c, there=1, most=1)),
        (a, b, replace(c, cores=5.0)),
    ] == planned
    # They cost 7/8, 6/8 and so on; what costs more than now saves nothing.
    assert (
        WorthOfMore(image="a", host=0.0, core=0.0),
        WorthOfMore(image="b", host=1 / 8, core=2 / 8),
        WorthOfMore(image="c", host=3 / 8, core=4 / 8),
    ) == worth


def test_only_some_images_are_asked_about() -> None:
    """Others are not planned at all, and where nothing is found more saves nothing."""
    problem = GroupingProblem(tasks=(GroupedTask(id=0),), streams=(), images=IMAGES, costs=COSTS)
    asked = []

    def nothing(other: GroupingProblem) -> Grouping:
        asked.append(other)
        raise GroupingNotFound("nothing fits")

    now = Grouping(groups=(), cost=Expense(groups=1.0))
    assert (WorthOfMore(image="b", host=0.0, core=0.0),) == worth_of_more(problem, now, nothing, {"b", "x"})
    assert 2 == len(asked)
    assert () == worth_of_more(problem, now, nothing, ())


def test_of_equally_near_ones_the_first_task_is_moved() -> None:
    """Tasks decide in the order in which they are given, whether their ids are numbers or texts."""
    problem = problem_of([0.1, 0.1])
    mixed = replace(problem, tasks=(GroupedTask(id="b", work=0.1), *problem.tasks))
    near = _near(mixed, grouping_of(mixed, Group(image="all", tasks=(0, 1, "b"))))
    assert near is not None
    assert {(0, 1), ("b",)} == {group.tasks for group in near.groups}
