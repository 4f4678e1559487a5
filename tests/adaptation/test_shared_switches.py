"""Dataflows that share running tasks: nobody's policy changes another's choice, and what is shared counts once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.decision import Ground, Patience, StandingChoice
from adaptation.documents import Selection
from adaptation.shared_switches import Sharer, decide_together
from tests.adaptation.flows import CORES, POLICIES, flows, permissions
from tests.adaptation.test_decision import ground_at, standing_choices


@st.composite
def sharers(draw: st.DrawFn) -> list[Sharer]:
    """Up to three dataflows of the same tasks, each with a policy and guards of its own."""
    flow = draw(flows(3))
    return [
        Sharer(
            dataflow=name,
            ground=Ground(
                flow=flow, permission=draw(permissions(flow)), policy=draw(POLICIES), cores=draw(CORES), now=0.0
            ),
            standing=draw(standing_choices(flow)),
            running={task.id: number for number, task in enumerate(flow.tasks) if draw(st.integers(0, 3))},
        )
        for name in draw(st.sampled_from([["x"], ["x", "y"], ["x", "y", "z"]]))
    ]


@settings(max_examples=60)
@given(data=st.data(), several=sharers())
def test_nobodys_guards_or_policy_change_anothers_choice(data: st.DataObject, several: list[Sharer]) -> None:
    """Whatever the others permit, ask for or have."""
    first, *others = several
    changed = [
        replace(
            each,
            ground=replace(
                each.ground, permission=data.draw(permissions(each.ground.flow)), policy=data.draw(POLICIES)
            ),
            standing=data.draw(standing_choices(each.ground.flow)),
        )
        for each in others
    ]
    alone = decide_together([first]).decisions["x"]
    assert alone == decide_together(several).decisions["x"] == decide_together([first, *changed]).decisions["x"]


@settings(max_examples=60)
@given(several=sharers())
def test_together_they_need_at_most_what_each_needs(several: list[Sharer]) -> None:
    """And at least what the one needs that needs most; each change is in one switch."""
    found = decide_together(several)
    needs = [each.cores for each in found.decisions.values()]
    assert max(needs) - 1e-9 <= found.cores <= sum(needs) + 1e-9
    switched = sorted((dataflow, task) for each in found.switches for dataflow, task in each.tasks.items())
    assert switched == sorted(
        (each.dataflow, task)
        for each in several
        for task, name in found.decisions[each.dataflow].choice.alternates.items()
        if each.standing.choice.alternates[task] != name
    )


def sharer(name: str, permitted: frozenset[str], runs: str, instance: int = 1) -> Sharer:
    """A dataflow of a source and one task with alternates, which run as some instances."""
    return Sharer(
        dataflow=name,
        ground=replace(ground_at(50.0, 0.0, permitted=permitted), patience=Patience(steady_s=0.0)),
        standing=StandingChoice(choice=Selection(alternates={"a": runs})),
        running={"s": 0, "a": instance},
    )


@pytest.mark.parametrize(
    ("theirs", "runs", "switches", "cores"),
    [
        # Both want the same: one switch, and one task.
        ("middle", "fine", [({"x": "a", "y": "a"}, False, True)], 50 * 0.004),
        # The other goes on: a fork, and two tasks.
        ("fine", "fine", [({"x": "a"}, True, False)], 50 * (0.004 + 0.010)),
        # The other runs it already: they are one again.
        ("middle", "middle", [({"x": "a"}, False, True)], 50 * 0.004),
    ],
)
def test_who_wants_the_same_switches_together(
    theirs: str, runs: str, switches: list[tuple[Mapping[str, Any], bool, bool]], cores: float
) -> None:
    """And who differs parts, until they agree again."""
    found = decide_together([sharer("x", frozenset({"middle"}), "fine"), sharer("y", frozenset({theirs}), runs)])
    assert switches == [(each.tasks, each.is_fork, each.is_join or len(each.tasks) > 1) for each in found.switches]
    assert cores == pytest.approx(found.cores)
