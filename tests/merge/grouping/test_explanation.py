"""Explanations agree with what other groupings really cost."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from merge.grouping import GROUPING_STRATEGIES, Effort, GroupedTask, GroupingCosts, GroupingProblem, Image, cost_of
from merge.grouping.explanation import other_places, second_best, worth_of_more
from tests.merge.grouping.problems import grouping_problems, groupings

_EFFORT = Effort(seconds=20.0)


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
