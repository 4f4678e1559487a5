"""Histories of events and reconfigurations: the paper's schedules, and every serial order of small ones."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serialisability import History, Processed, violation

Run = list[tuple[str, str]]
"""A run in the paper's notation: (event, task) for an event at a task, ("", task) for the only reconfiguration."""


def history(run: Run) -> History:
    """The history of a run with one reconfiguration, `r`."""
    changed = [task for event, task in run if not event]
    processed = [
        Processed(event=event, task=task, configuration="r" if ("", task) in run[:place] else None)
        for place, (event, task) in enumerate(run)
        if event
    ]
    return History(applied={task: ["r"] for task in changed}, processed=processed)


S1: Run = [("t", "FC"), ("", "FM"), ("t", "FM"), ("", "MC"), ("t", "MC")]
S3: Run = [("t", "FC"), ("t", "FM"), ("", "FM"), ("", "MC"), ("t", "MC")]
S4: Run = [("t1", "X"), ("", "C"), ("t1", "C"), ("t2", "X"), ("", "D"), ("t2", "D")]
S5: Run = [("t", "FC"), ("t", "J"), *[("t", "SP")] * 3, ("t", "FMX"), ("", "FMX"), ("t", "FMX"), ("t", "FMY")]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(S1, None, id="S1"),
        pytest.param(S3, "event t met FM before r and MC after it", id="S3"),
        pytest.param(S4, None, id="S4"),
        pytest.param([*S5, *[("t", "U")] * 3], "event t met FMX before r and again after it", id="S5"),
    ],
)
def test_the_schedules_of_the_paper(run: Run, expected: str | None) -> None:
    """The schedules of Fries are decided as there, and a violation says which event met what."""
    found = violation(history(run))
    assert expected == (None if found is None else str(found))


def test_each_reconfiguration_alone_may_be_consistent() -> None:
    """Two events that each met one of two reconfigurations contradict each other, though no event met half of one."""
    seen = [("1", "a", None), ("1", "b", "r2"), ("2", "a", "r1"), ("2", "b", None)]
    processed = [Processed(event=event, task=task, configuration=last) for event, task, last in seen]
    found = violation(History(applied={"a": ["r1"], "b": ["r2"]}, processed=processed))
    expected = {"event 1 met a before r1 and b after r2", "event 2 met b before r2 and a after r1"}
    assert found is not None
    assert expected == set(str(found).split("; "))


def test_reconfigurations_may_contradict_each_other() -> None:
    """Two tasks that got two reconfigurations in different orders need no event for a cycle."""
    found = violation(History(applied={"a": ["r1", "r2"], "b": ["r2", "r1"]}, processed=[]))
    assert found is not None
    assert {"a got r1 before r2", "b got r2 before r1"} == set(str(found).split("; "))


def test_a_cycle_is_short() -> None:
    """Reconfigurations between the first and the last one that an event met in the wrong order are left out."""
    names = [f"r{number}" for number in range(1, 10)]
    seen = [("b", None), ("c", "r8")]
    processed = [Processed(event=17, task=task, configuration=last) for task, last in seen]
    found = violation(History(applied={"a": names, "b": names, "c": names}, processed=processed))
    assert "event 17 met b before r8 and c after it" == str(found)


def test_impossible_histories_are_refused() -> None:
    """A task cannot work as a reconfiguration left it that it never got, nor get one twice."""
    with pytest.raises(ValueError, match="did not get that"):
        violation(History(applied={}, processed=[Processed(event=1, task="a", configuration="r")]))
    with pytest.raises(ValueError, match="twice"):
        violation(History(applied={"a": ["r", "r"]}, processed=[]))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Histories of up to three reconfigurations, three events and three tasks; no serial order explains a quarter."""
    names = ["r1", "r2", "r3"][: draw(st.integers(1, 3))]
    applied = {
        task: draw(st.lists(st.sampled_from(names), unique=True)) for task in ("a", "b", "c")[: draw(st.integers(1, 3))]
    }
    work = st.sampled_from(sorted(applied)).flatmap(
        lambda task: st.builds(
            Processed,
            event=st.integers(1, 3),
            task=st.just(task),
            configuration=st.sampled_from([None, *applied[task]]),
        )
    )
    return History(applied=applied, processed=draw(st.lists(work, max_size=6)))


def explained(history: History, order: tuple[int | str, ...]) -> bool:
    """Whether transactions that run one after the other in this order leave the history."""
    for task, names in history.applied.items():
        if list(names) != [name for name in order if name in names]:
            return False
        for work in history.processed:
            if work.task == task:
                got = [name for name in order[: order.index(work.event)] if name in names]
                if work.configuration != (got[-1] if got else None):
                    return False
    return True


@given(history=histories())
def test_a_violation_means_that_no_serial_order_explains_the_history(history: History) -> None:
    """The checker agrees with the trial of all serial orders."""
    transactions = {work.event for work in history.processed} | {
        name for got in history.applied.values() for name in got
    }
    serial = any(explained(history, order) for order in permutations(transactions))
    assert serial == (violation(history) is None)


@given(history=histories())
def test_a_cycle_is_one(history: History) -> None:
    """Each precedence of a violation is seen in the history, and ends where the next begins."""
    found = violation(history)
    if found is None:
        return
    steps = found.precedences
    assert [step.later for step in steps] == [step.earlier for step in (*steps[1:], steps[0])]
    for step in steps:
        got = list(history.applied[step.task])
        seen = {(work.event, work.configuration) for work in history.processed if work.task == step.task}
        if step.earlier.is_event:
            before = [None, *got[: got.index(str(step.later.name))]]
            assert seen & {(step.earlier.name, name) for name in before}
        elif step.later.is_event:
            assert seen & {(step.later.name, name) for name in got[got.index(str(step.earlier.name)) :]}
        else:
            assert got.index(str(step.earlier.name)) < got.index(str(step.later.name))
