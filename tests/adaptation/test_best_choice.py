"""The best choice, against all choices there are."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation import decision as searched
from adaptation.decision import ChoiceSpace, best_choice
from adaptation.documents import Selection
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowGraph, FlowTask
from tests.adaptation.flows import CORES, spaces

NEARLY = 1e-9


def every_choice(space: ChoiceSpace) -> list[Selection]:
    """All that are permitted."""
    names = product(*space.alternates.values())
    return [space.selection(dict(zip(space.alternates, each, strict=True))) for each in names]


def flow_by_paths(flow: FlowGraph, choice: Selection) -> float:
    """The need of a choice by its definition: along every path that an event may take."""

    def entering(at: int) -> float:
        task = flow.tasks[at]
        total = task.rate
        for edge in task.feeds:
            if edge.stream is None or choice.opened[edge.stream]:
                above = flow.tasks[edge.parent]
                chosen = above.alternates[choice.alternates.get(above.id, ONLY)]
                total += entering(edge.parent) * chosen.selectivity
        return total

    return sum(
        entering(at) * task.alternates[choice.alternates.get(task.id, ONLY)].cost for at, task in enumerate(flow.tasks)
    )


@settings(max_examples=80)
@given(space=spaces(), cores=CORES)
def test_no_permitted_choice_is_better(space: ChoiceSpace, cores: float) -> None:
    """Of those that fit none has more value, and of those with as much none needs less; else none is cheaper."""
    found, flow = best_choice(space, cores), space.flow
    assert all(name in space.alternates[task] for task, name in found.alternates.items())
    needs = {flow.value(each.alternates): flow_by_paths(flow, each) for each in every_choice(space)}
    need, value = flow_by_paths(flow, found), flow.value(found.alternates)
    assert needs
    for each in every_choice(space):
        other, worth = flow_by_paths(flow, each), flow.value(each.alternates)
        if need > cores * (1 + NEARLY):
            assert other >= need * (1 - NEARLY)
        elif other <= cores * (1 - NEARLY):
            assert worth <= value + NEARLY
            assert abs(worth - value) > NEARLY or other >= need * (1 - NEARLY)


@settings(max_examples=60)
@given(space=spaces(), cores=CORES, more=CORES)
def test_more_cores_never_lower_the_value(space: ChoiceSpace, cores: float, more: float) -> None:
    """Of what fits, and of what does not."""
    few, many = (best_choice(space, each) for each in (cores, cores + more))
    assert space.flow.value(few.alternates) <= space.flow.value(many.alternates) + NEARLY


@settings(max_examples=60)
@given(space=spaces(alike=True), cores=CORES, more=CORES)
def test_dividing_the_cores_is_nearly_as_good_as_trying_everything(
    space: ChoiceSpace, cores: float, more: float
) -> None:
    """It fits if anything does, is at least as good as with one percent fewer cores, and more cores help."""
    found, flow = [], space.flow
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        found = [best_choice(space, each) for each in (cores, cores + more)]
    exact, scarce = best_choice(space, cores), best_choice(space, cores * 0.99)
    assert (flow.need(exact) <= cores) == (flow.need(found[0]) <= cores * (1 + NEARLY))
    widest = max(map(flow.need, every_choice(space)))
    if flow.need(exact) <= cores and widest < 10 * cores:
        assert flow.value(found[0].alternates) >= flow.value(scarce.alternates) - NEARLY
    assert flow.value(found[0].alternates) <= flow.value(found[1].alternates) + NEARLY


@settings(max_examples=60)
@given(space=spaces(), cores=CORES)
def test_climbing_fits_if_anything_does(space: ChoiceSpace, cores: float) -> None:
    """And stops where no single change that fits is better."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        patched.setattr(searched, "_is_divisible", lambda _space: False)
        found = best_choice(space, cores)
    flow = space.flow
    assert (flow.need(best_choice(space, cores)) <= cores) == (flow.need(found) <= cores * (1 + NEARLY))
    if flow.need(found) <= cores:
        for task, names in space.alternates.items():
            for name in names:
                other = space.selection({**found.alternates, task: name})
                is_better = flow.value(other.alternates) > flow.value(found.alternates) + NEARLY
                assert not is_better or flow.need(other) > cores * (1 - 1e-6)


@settings(max_examples=60)
@given(space=spaces())
def test_where_nothing_fits_the_cheapest_is_found_without_trying_everything(space: ChoiceSpace) -> None:
    """With as little need as any choice has."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        found = best_choice(space, 0.0)
    assert flow_by_paths(space.flow, found) == pytest.approx(
        min(flow_by_paths(space.flow, each) for each in every_choice(space))
    )


@given(st.data())
@settings(max_examples=3)
def test_a_hundred_tasks_are_decided(data: st.DataObject) -> None:
    """Within the cores, and with more value than the cheapest choice has."""
    share = data.draw(st.sampled_from([1.0, 0.99]))
    source = FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=8_000.0)
    levels = {
        "low": FlowAlternate(1e-6, share, 0.2),
        "middle": FlowAlternate(3e-6, 1.0, 0.7),
        "high": FlowAlternate(9e-6, 1.0, 1.0),
    }
    tasks = [FlowTask(id=f"t{at}", feeds=(FlowEdge(at, None),), alternates=levels) for at in range(100)]
    flow = FlowGraph(tasks=(source, *tasks))
    space = ChoiceSpace(flow, {each.id: sorted(levels) for each in tasks}, {}, {})
    found = best_choice(space, 3.0)
    assert flow.need(found) <= 3.0
    assert 0.7 < flow.value(found.alternates)
