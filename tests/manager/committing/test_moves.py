"""Moves as they are committed: what each turn makes of homes and plans, and what comes of changes meanwhile."""

from collections.abc import Iterator
from threading import Thread

import pytest

from manager.answers import OperationKind, Stop
from manager.cases.base import Paging
from manager.committing import move_changes
from manager.committing.moving import LIFE, Move, Phase
from manager.defragmenting.choosing import Chooser
from manager.problem import Conflict, InvalidDataflow, StateNotReady
from manager.reconciler.concerning import needs_of
from merge import JobId
from tests.manager.committing.pictures import hold, loaded, pictured
from tests.manager.managers import OPERATOR, Manager, caller, raw

ANN = caller("ann")
CHAIN = "s:source > a:map{'add': 1} > k:sink"
LONGER = "s:source > a:map{'add': 1} > b:count > k:sink"
LONGEST = "s:source > a:map{'add': 1} > b:count > c:map{'add': 2} > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """Three dataflows that share tasks, each residue in a job of its own."""
    yield from scattered(sqlite)


def scattered(url: str) -> Iterator[Manager]:
    made = Manager(url, strategy="launch").lead()
    made.admit("ann")
    made.register("weather")
    for text in (CHAIN, LONGER, LONGEST):
        made.submit("ann", text)
    yield made
    made.close()


def begin(manager: Manager) -> Move:
    return manager.committer.begin_move(Chooser(manager.seen).asked_for, who="operator")


def passed(move: Move) -> dict[JobId, dict[str, int]]:
    return {job: {"source/1": 7, f"bridge/{job}:out": 3} for job in move.left}


def notes(manager: Manager) -> list[str]:
    page = manager.service.operations(OPERATOR, Paging(), kind=OperationKind.MOVE)
    return [each.note for each in page.items]


@pytest.fixture
def on_any(empty_url: str) -> Iterator[Manager]:
    """The same, on each kind of database."""
    yield from scattered(empty_url)


def test_all_that_moves_comes_together_in_one_job(on_any: Manager) -> None:
    """It is left at the cut, begins there with its states in the next epoch, and nothing of the old jobs is left."""
    manager = on_any
    committer = manager.committer
    before = {each.job: each for each in manager.service.jobs(OPERATOR, Paging()).items}
    assert len(before) == 3
    move = begin(manager)
    with committer.looking() as state:
        for job in move.left:
            assert (move.cut, ()) == (state.plans[job].at_cut, state.plans[job].slots)
        (new,) = move.opens
        assert ((), 1) == (state.plans[new].slots, state.plans[new].version)
    assert loaded(manager.store) == pictured(manager)
    committer.cut_move(move.id)
    committer.take_over(move.id, passed(move))
    with committer.looking() as state:
        plan = state.plans[new]
        assert {(each.instance, each.cut) for each in plan.imports} == {
            (step.instance, move.cut) for step in move.steps if step.works
        }
        assert {str(step.leaves) for step in move.steps if step.works} == {each.job for each in plan.imports}
        assert [7] == [each.start for each in plan.ingress]
        assert {2} == {each.epoch for each in plan.deliveries}
        assert () == plan.forwards
    assert loaded(manager.store) == pictured(manager)
    committer.end_move(move.id)
    hold(manager)
    assert [str(new)] == [each.job for each in manager.service.jobs(OPERATOR, Paging()).items]
    (note,) = notes(manager)
    assert note.startswith("it was asked for. It is worth it: ")
    assert "; outputs stood still for at most" in note
    # A second time there is nothing to do.
    with pytest.raises(Conflict, match="no task would be better off elsewhere"):
        begin(manager)


def test_what_went_back_goes_on_from_where_it_was_cut(manager: Manager) -> None:
    """In its old jobs, in the next epoch there too; the job that was opened for it is stopped."""
    committer = manager.committer
    jobs = {each.job for each in manager.service.jobs(OPERATOR, Paging()).items}
    move = begin(manager)
    committer.cut_move(move.id)
    committer.go_back(move.id, why="job 3 did not come")
    assert loaded(manager.store) == pictured(manager)
    with committer.looking() as state:
        for job in move.left:
            plan = state.plans[job]
            assert {each.job for each in plan.imports} == {str(job)}
            assert {each.instance for each in plan.imports} == {slot.instance for slot in plan.slots}
            assert {2} == {each.epoch for each in plan.forwards} | {each.epoch for each in plan.deliveries}
    committer.end_move(move.id)
    hold(manager)
    assert jobs == {each.job for each in manager.service.jobs(OPERATOR, Paging()).items}
    (note,) = notes(manager)
    assert "went back: job 3 did not come" in note
    begin(manager)


@pytest.mark.parametrize("change", ["submit", "remove", "replace", "drain", "revoke"])
def test_a_change_puts_off_a_move_that_is_only_prepared(manager: Manager, change: str) -> None:
    """It is done as if there had been no move, and the journal says why that one was given up."""
    flow = manager.submit("ann", CHAIN)
    move = begin(manager)
    if change == "submit":
        manager.submit("ann", CHAIN)
    elif change == "replace":
        manager.service.replace(ANN, flow, raw(LONGER))
    elif change == "revoke":
        manager.service.revoke_source(OPERATOR, "ann:weather")
    else:
        manager.service.remove(ANN, flow, Stop.NOW if change == "remove" else Stop.DRAIN)
    assert manager.committer.moving() is None
    hold(manager)
    (note,) = notes(manager)
    assert note.endswith("; given up: something else was asked for meanwhile")
    # Whoever drives the old one on is told that it is over.
    with pytest.raises(Conflict, match="is over"):
        manager.committer.cut_move(move.id)


@pytest.mark.parametrize("phase", [Phase.CUTTING, Phase.TAKING, Phase.RETURNING])
def test_a_change_waits_for_a_move_that_is_cut(manager: Manager, phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever: whoever asked is told when to ask again, and nothing is done."""
    monkeypatch.setattr(move_changes, "PATIENCE", 0.05)
    move = begin(manager)
    manager.committer.cut_move(move.id)
    if phase is Phase.TAKING:
        manager.committer.take_over(move.id, passed(move))
    elif phase is Phase.RETURNING:
        manager.committer.go_back(move.id, why="it was late")
    before = pictured(manager)
    with pytest.raises(StateNotReady, match="tasks are being moved") as refused:
        manager.submit("ann", CHAIN)
    assert refused.value.retry_after == 1.0
    assert before == pictured(manager)


def test_what_is_refused_puts_off_no_move(manager: Manager) -> None:
    """A document with a fault is refused as ever, and the move goes on."""
    move = begin(manager)
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source > a:map{'add': 'much'} > k:sink")
    manager.committer.cut_move(move.id)


def test_changes_that_waited_for_a_move_see_what_the_others_did(manager: Manager) -> None:
    """One submission under one key is one dataflow, and what a source was taken from meanwhile is refused."""
    move = begin(manager)
    manager.committer.cut_move(move.id)
    flows, refused = list[str](), list[Exception]()

    def submit(key: str | None) -> None:
        try:
            flows.append(manager.submit("ann", CHAIN, key=key))
        except InvalidDataflow as error:
            refused.append(error)

    threads = [Thread(target=submit, args=(key,)) for key in ("once", "once", None)]
    for thread in threads:
        thread.start()
    revoking = Thread(target=manager.service.revoke_source, args=(OPERATOR, "ann:weather"))
    revoking.start()
    manager.committer.take_over(move.id, passed(move))
    manager.committer.end_move(move.id)
    for thread in (*threads, revoking):
        thread.join()
    hold(manager)
    # In whichever order they came to it.
    assert 3 == len(flows) + len(refused)
    assert len(set(flows)) <= 2
    assert [] == [each for each in manager.service.dataflows(OPERATOR, Paging()).items if each.state != "removed"]


def test_nothing_moves_while_a_dataflow_drains(manager: Manager) -> None:
    """A cut of its own is on its way, and two would wait for each other."""
    manager.service.remove(ANN, manager.submit("ann", LONGER), Stop.DRAIN)
    with pytest.raises(Conflict, match="drains"):
        begin(manager)


def test_a_dataflow_runs_on_while_its_tasks_move(manager: Manager) -> None:
    """It needs of its jobs what they have run before, so that its tenant is not told that it is deployed anew."""
    committer = manager.committer

    def needs() -> dict[str, int]:
        with committer.looking() as state:
            flows = state.running.dataflows.values()
            return {need.job: need.version for flow in flows for need in needs_of(state, flow)}

    before = needs()
    move = begin(manager)
    assert before == needs()
    committer.cut_move(move.id)
    committer.take_over(move.id, passed(move))
    assert {str(job): 0 for job in move.opens} == needs()


def test_two_moves_are_never_under_way(manager: Manager) -> None:
    """The second one is refused."""
    begin(manager)
    with pytest.raises(Conflict, match="moved already"):
        begin(manager)


def test_every_turn_of_the_table_leads_to_the_end() -> None:
    """From each phase some way leads to one that is the last, and those that are last go nowhere."""
    last = {phase for phase, turns in LIFE.items() if not turns}
    assert {Phase.DONE, Phase.RETURNED, Phase.ABANDONED} == last
    reached = set(last)
    for _ in LIFE:
        reached |= {phase for phase, turns in LIFE.items() if set(turns.values()) & reached}
    assert set(Phase) == reached
