"""The choice of moves: when a defragmentation starts, and how much moves at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.costs import choice
from manager.costs.choice import (
    _BACK_OFF,
    BEGINS,
    DEFRAGMENTATION_REST,
    HOLD,
    HORIZON,
    Act,
    Chooser,
    Target,
    TriggerDecision,
    TriggerSituation,
    TriggerState,
    target_of,
    watch,
)
from manager.kernel.transitions import TransitionEvent
from manager.problem import Conflict
from merge import Assignment, Home, Instance, JobId
from tests.manager.managers import Manager, leading, take

ONE: Target = frozenset({frozenset({Instance(1), Instance(2)})})
OTHER: Target = frozenset({frozenset({Instance(3)})})
WORTH = TriggerSituation(version=1, scattered=ONE, worth=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A look with its decision."""

    at: float
    look: TriggerSituation
    decision: TriggerDecision

    @property
    def begins(self) -> bool:
        return self.decision.act in BEGINS

    @property
    def target(self) -> Target | None:
        """Return the target that it starts to move."""
        return self.look.overload if self.decision.act is Act.ISOLATE else self.look.scattered


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A look to come: the time since the last, and the progress of a move under way."""

    after: float
    look: TriggerSituation
    lasts: int
    """So many looks what is begun here is under way."""
    comes_off: bool


def looked(steps: Sequence[Step], every: float | None = None) -> Iterator[Seen]:
    """Return the decision at each step, while moves take their time and end."""
    state, now = TriggerState(), 0.0
    left: int | None = None
    comes_off = True
    for step in steps:
        now += step.after
        ended = comes_off if left == 0 else None
        left = None if left == 0 else left
        look = replace(step.look, underway=left is not None, ended=ended)
        state, decision = watch(state, look, now, every=every)
        yield Seen(at=now, look=look, decision=decision)
        if decision.act in BEGINS:
            left, comes_off = step.lasts, step.comes_off
        elif left is not None:
            left -= 1


def steady(
    look: TriggerSituation, *, seconds: float = 5.0, times: int = 1_000, lasts: int = 2, comes_off: bool = True
) -> list[Step]:
    return [Step(after=seconds, look=look, lasts=lasts, comes_off=comes_off)] * times


TARGETS = st.sampled_from((None, ONE, ONE, ONE, OTHER))
LOOKS = st.builds(
    TriggerSituation,
    version=st.sampled_from((1, 1, 1, 1, 1, 2)),
    scattered=TARGETS,
    worth=st.sampled_from((True, True, True, True, False)),
    overload=st.sampled_from((None, None, None, OTHER)),
)
STEPS = st.builds(
    Step,
    after=st.sampled_from((1.0, 5.0, 20.0, 70.0, 400.0)),
    look=LOOKS,
    lasts=st.integers(0, 3),
    comes_off=st.booleans(),
)
"""Looks of which any may be otherwise than the one before."""
SPELLS = st.lists(st.tuples(STEPS, st.integers(1, 20)), max_size=12).map(
    lambda spells: [step for step, times in spells for step in [step] * times]
)
"""Looks that stay alike for a while."""
EVERY = st.sampled_from((None, 30.0, 1_000.0))


@given(steps=SPELLS, every=EVERY)
def test_a_consolidation_starts_only_if_it_is_worth_it(steps: list[Step], every: float | None) -> None:
    """That is so by schedule too, and every start moves something."""
    for seen in looked(steps, every):
        assert seen.look.worth or seen.decision.act is not Act.CONSOLIDATE
        assert seen.target is not None or not seen.begins


@given(steps=SPELLS, every=EVERY)
def test_none_starts_during_the_rest(steps: list[Step], every: float | None) -> None:
    """None starts while one is under way either, and a failure doubles the rest."""
    rested = 0.0
    for seen in looked(steps, every):
        if seen.look.ended is not None:
            rested = seen.at + (DEFRAGMENTATION_REST if seen.look.ended else 2 * DEFRAGMENTATION_REST)
        if seen.begins:
            assert not seen.look.underway
            assert seen.at >= rested
            rested = max(rested, seen.at + DEFRAGMENTATION_REST)


@given(steps=SPELLS)
def test_none_starts_by_unstable_measurements(steps: list[Step]) -> None:
    """Measurements that flicker, or that held only while dataflows came and went, start nothing."""
    past = list(looked(steps))
    for place, seen in enumerate(past):
        if seen.begins:
            since = next(
                (
                    later.at
                    for earlier, later in reversed(list(pairwise(past[: place + 1])))
                    if not _alike(earlier.look, seen) or earlier.begins
                ),
                past[0].at,
            )
            assert seen.at - since >= HOLD


def _alike(look: TriggerSituation, seen: Seen) -> bool:
    """Return true if a look supports the target that was started later."""
    if seen.decision.act is Act.ISOLATE:
        return look.overload is not None and look.version == seen.look.version
    return look.worth and look.scattered is not None and look.version == seen.look.version


@given(steps=SPELLS, every=EVERY)
def test_a_failed_target_is_not_tried_again_soon(steps: list[Step], every: float | None) -> None:
    """Other targets may be tried."""
    failed: Target | None = None
    until = 0.0
    begun: Target | None = None
    for seen in looked(steps, every):
        if seen.look.ended is not None:
            failed, until = (None, 0.0) if seen.look.ended else (begun, seen.at + _BACK_OFF.after(1))
        if seen.begins:
            assert seen.target != failed or seen.at >= until
            begun = seen.target


def test_one_starts_once_it_has_been_worth_it_for_a_while() -> None:
    """The next starts only after the rest and as long again."""
    begun = [seen.at for seen in looked(steady(WORTH)) if seen.begins]
    assert 5.0 + HOLD == begun[0]
    # It is under way for two looks, and ends at the third.
    assert {15.0 + DEFRAGMENTATION_REST} == {later - earlier for earlier, later in pairwise(begun)}


def test_an_overload_comes_before_a_saving() -> None:
    """If both have held as long, the overload counts."""
    (first, *_) = (seen for seen in looked(steady(replace(WORTH, overload=OTHER))) if seen.begins)
    assert (Act.ISOLATE, "a job has been overloaded for 60 s") == (first.decision.act, first.decision.why)


def test_a_separation_waits_for_nothing_but_what_is_under_way() -> None:
    """It begins at once, also in the rest after another, and comes before whatever else there is to do."""
    both = replace(WORTH, shared=OTHER)
    begun = [seen for seen in looked([*steady(WORTH, times=20), *steady(both, times=20)]) if seen.begins]
    assert [Act.CONSOLIDATE, Act.SEPARATE] == [seen.decision.act for seen in begun[:2]]
    assert begun[1].at - begun[0].at < DEFRAGMENTATION_REST
    assert {15.0} == {later.at - earlier.at for earlier, later in pairwise(begun[1:])}


def test_a_separation_that_failed_is_not_tried_again_soon() -> None:
    """Outputs would stand still again and again."""
    begun = [
        seen.at for seen in looked(steady(replace(WORTH, worth=False, shared=OTHER), comes_off=False)) if seen.begins
    ]
    assert 2 * DEFRAGMENTATION_REST <= begun[1] - begun[0]


def test_a_change_of_dataflows_restarts_the_wait() -> None:
    """It starts once no dataflow has come or gone for as long."""
    changing = [
        replace(step, look=replace(WORTH, version=number // 10)) for number, step in enumerate(steady(WORTH, times=100))
    ]
    assert [] == [seen for seen in looked(changing) if seen.begins]


def test_a_schedule_does_not_wait() -> None:
    """One that is due starts at once, even if measurements keep changing."""
    changing = [
        replace(step, look=replace(WORTH, version=number)) for number, step in enumerate(steady(WORTH, times=500))
    ]
    begun = [(seen.at, seen.decision.why) for seen in looked(changing, 1_000.0) if seen.begins]
    assert [(1_005.0, "it was due by schedule"), (2_005.0, "it was due by schedule")] == begun


def test_a_schedule_due_during_a_rest_starts_after_it() -> None:
    """It starts as soon as the rest is over."""
    changing = [
        replace(step, look=replace(WORTH, version=number)) for number, step in enumerate(steady(WORTH, times=200))
    ]
    begun = [seen.at for seen in looked(changing, 100.0) if seen.begins]
    assert [105.0, 120.0 + DEFRAGMENTATION_REST, 135.0 + 2 * DEFRAGMENTATION_REST] == begun[:3]


def test_one_without_a_known_outcome_is_followed_by_a_rest() -> None:
    """It may start a little later than decided, or end before the next look."""
    begun, _ = watch(TriggerState(), WORTH, 0.0)
    begun, decision = watch(begun, WORTH, HOLD)
    assert decision.act is Act.CONSOLIDATE
    assert Act.WAIT is watch(begun, WORTH, HOLD + DEFRAGMENTATION_REST - 1.0)[1].act
    assert Act.CONSOLIDATE is watch(begun, WORTH, HOLD + DEFRAGMENTATION_REST)[1].act


def test_a_schedule_with_nothing_to_do_waits_for_its_next_time() -> None:
    """A saving that appears later does not start at once."""
    idle = steady(replace(WORTH, worth=False), times=210)
    flickering = [
        replace(step, look=replace(WORTH, version=number)) for number, step in enumerate(steady(WORTH, times=300))
    ]
    assert [2_005.0] == [seen.at for seen in looked(idle + flickering, 1_000.0) if seen.begins]


def test_repeated_failures_double_the_back_off() -> None:
    """The limit is a day for the target, and an hour for other targets."""
    failing = steady(WORTH, seconds=60.0, times=10_000, lasts=0, comes_off=False)
    begun = [seen.at for seen in looked(failing) if seen.begins]
    waits = [later - earlier for earlier, later in pairwise(begun)]
    assert [660.0, 1_260.0, 2_460.0, 4_860.0] == waits[:4]
    assert 86_460.0 == waits[-1] == max(waits)
    scheduled = [seen.at for seen in looked(failing, 60.0) if seen.begins]
    assert 86_460.0 == scheduled[-1] - scheduled[-2]
    others = [
        replace(step, look=replace(WORTH, scattered=frozenset({frozenset({Instance(number)})})))
        for number, step in enumerate(failing[:1_000])
    ]
    begun = [seen.at for seen in looked(others) if seen.begins]
    assert HORIZON + 60.0 == max(later - earlier for earlier, later in pairwise(begun))


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (replace(WORTH, underway=True), "one is under way"),
        (WORTH, "nothing has been worth it"),
        (replace(WORTH, ended=True), "it rests after the last one"),
    ],
)
def test_a_decision_to_wait_has_a_reason(look: TriggerSituation, why: str) -> None:
    """The reason is for the log."""
    _, decision = watch(TriggerState(), look, 0.0)
    assert decision.act is Act.WAIT
    assert decision.why.startswith(why)


def test_a_target_is_independent_of_job_ids() -> None:
    """Only the instances that move together count, and an assignment that moves nothing has no target."""

    def assignment(base: int, *jobs: int) -> Assignment:
        places = tuple((Instance(at), Home(JobId(job), 0.5)) for at, job in enumerate(jobs, 1))
        return Assignment(base=base, opens=tuple((JobId(job), "h") for job in sorted(set(jobs))), places=places)

    assert target_of(assignment(1, 7, 7, 8)) == target_of(assignment(2, 9, 9, 4)) == ONE | OTHER
    assert target_of(assignment(1, 7, 8, 8)) != target_of(assignment(1, 7, 7, 8))
    assert None is target_of(assignment(1)) is target_of(None)


SHORT = "s:source{{'source': '{0}'}} > a:map{{'add': 1}} > k:sink"
LONG = "s:source{{'source': '{0}'}} > a:map{{'add': 1}} > b:count > k:sink"
SOURCES = ("weather", "traffic", "power")
TOGETHER = 5
"""Tasks that two dataflows of one source are."""


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager with two dataflows of each source that share tasks, with each residue in a job of its own."""
    pairs = [("ann", text.format(source)) for source in SOURCES for text in (SHORT, LONG)]
    yield from leading(sqlite, tenants=("ann", "bob"), sources=SOURCES, submitted=pairs, strategy="launch")


def homes(manager: Manager) -> dict[Instance, Home]:
    with manager.committer.looking() as state:
        return dict(state.jobs.homes.items())


def moved(manager: Manager, chooser: Chooser) -> frozenset[Instance]:
    """Return the tasks that stood still in a move on request that succeeded; none if there is no move."""
    try:
        move = manager.changes.moves.begin(chooser.on_request, who="operator")
    except Conflict:
        return frozenset()
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed={job: {} for job in move.left})
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)
    return frozenset(step.instance for step in move.steps)


def test_running_dags_that_share_nothing_move_one_after_the_other(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks that stand still at a time are limited; each moves once, and in the end nothing is scattered."""
    monkeypatch.setattr(choice, "MOST_TOGETHER", 2 * TOGETHER - 1)
    chooser = Chooser(manager.seen)
    done = frozenset[Instance]()
    for _ in SOURCES:
        before = homes(manager)
        stood = moved(manager, chooser)
        assert TOGETHER == len(stood)
        assert not stood & done
        assert all(home == before[task] for task, home in homes(manager).items() if task not in stood)
        done |= stood
    assert done == homes(manager).keys()
    assert frozenset() == moved(manager, chooser)


def test_few_tasks_move_together(manager: Manager) -> None:
    """One move is quicker than several, and unshared running DAGs may share a job."""
    assert homes(manager).keys() == moved(manager, Chooser(manager.seen))
    assert 1 == len({home.job for home in homes(manager).values()})
