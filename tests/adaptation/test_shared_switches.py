"""Dataflows that share running tasks: nobody's policy changes another's choice, and equal wishes are one switch."""

from dataclasses import replace

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
def test_each_change_is_in_one_switch(several: list[Sharer]) -> None:
    """Whoever shares what is switched."""
    found = decide_together(several)
    switched = sorted((dataflow, task) for each in found.switches for dataflow, task in each.items())
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
    ("theirs", "runs", "switches"),
    [
        # Both want the same.
        ("middle", "fine", ({"x": "a", "y": "a"},)),
        # The other goes on.
        ("fine", "fine", ({"x": "a"},)),
        # The other runs it already.
        ("middle", "middle", ({"x": "a"},)),
    ],
)
def test_who_wants_the_same_switches_together(theirs: str, runs: str, switches: tuple[dict[str, str], ...]) -> None:
    """And who differs parts, until they agree again."""
    found = decide_together([sharer("x", frozenset({"middle"}), "fine"), sharer("y", frozenset({theirs}), runs)])
    assert switches == found.switches
