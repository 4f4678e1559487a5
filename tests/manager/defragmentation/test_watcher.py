"""The watcher: what it begins by itself, what it leaves alone, and what the journal says of it."""

from collections.abc import Callable, Iterator

import pytest

from manager.answers import OperationKind
from manager.cases.base import Paging
from manager.defragmentation.choice import Chooser
from manager.defragmentation.trigger import DEFRAGMENTATION_REST, HOLD
from manager.defragmentation.watcher import WATCHER_PERIOD, Watcher
from manager.transitions.life import Phase
from tests.manager.defragmentation.job_reports import instance_of, tell
from tests.manager.managers import OPERATOR, Manager

CHAIN = "s:source > a:map{'add': 1} > k:sink"
LONGER = "s:source > a:map{'add': 1} > b:count > k:sink"


class Watching:
    """A watcher with a clock that a test moves on."""

    def __init__(
        self,
        manager: Manager,
        *,
        by_itself: bool = True,
        every: float | None = None,
        tells: Callable[[float], object] = lambda _now: None,
    ) -> None:
        self.now = 0.0
        self._tells = tells
        self._manager = manager
        self._watcher = Watcher(
            manager.committer,
            manager.changes.moves,
            Chooser(manager.seen, clock=lambda: self.now),
            by_itself=by_itself,
            every=every,
            clock=lambda: self.now,
        )

    def watch(self, seconds: float) -> bool:
        """Whether something moves after so many seconds of looks."""
        for _ in range(int(seconds / WATCHER_PERIOD) + 1):
            self._tells(self.now)
            self._watcher.look()
            self.now += WATCHER_PERIOD
        return bool(self._manager.changes.moves.under_way())


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """Two dataflows that share tasks, each residue in a job of its own."""
    made = Manager(sqlite, strategy="launch").lead()
    made.admit("ann")
    made.register("weather")
    for text in (CHAIN, LONGER):
        made.submit("ann", text)
    yield made
    made.close()


def finish(manager: Manager) -> None:
    """Have the move under way come off."""
    (moving,) = manager.changes.moves.under_way()
    assert moving is not None
    manager.changes.moves.cut(moving.move.id)
    manager.changes.moves.take_over(moving.move.id, {job: {} for job in moving.move.left})
    manager.changes.moves.end(moving.move.id)


def test_scattered_jobs_are_consolidated_once_that_has_been_worth_it_for_a_while(manager: Manager) -> None:
    """Not before; what it gains and costs is in the journal; and once they are one, nothing is left to do."""
    watching = Watching(manager)
    assert not watching.watch(HOLD / 2)
    assert watching.watch(HOLD)
    finish(manager)
    (told,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.MOVE).items
    assert told.note.startswith(f"it has been worth it for {HOLD:.0f} s. It is worth it: ")
    assert 1 == len(manager.service.running.jobs(OPERATOR, Paging()).items)
    assert not watching.watch(2 * DEFRAGMENTATION_REST)


def test_a_job_is_relieved_once_it_has_been_overloaded_for_a_while(sqlite: str) -> None:
    """Though that saves nothing; one that was busy for a moment only is left as it is."""
    manager = Manager(sqlite).lead()
    manager.admit("ann")
    manager.register("weather")
    for text in (CHAIN, LONGER):
        manager.submit("ann", text)
    (job,) = (each.job for each in manager.service.running.jobs(OPERATOR, Paging()).items)
    count = instance_of(manager, "count")
    busy = {count: 1.2, instance_of(manager, "map"): 0.01}
    watching = Watching(manager, tells=lambda now: tell(manager, job, busy, now))
    assert not watching.watch(HOLD / 2)
    busy[count] = 0.1
    assert not watching.watch(2 * HOLD)
    busy[count] = 1.2
    assert not watching.watch(HOLD / 2)
    assert watching.watch(HOLD)
    (moving,) = manager.changes.moves.under_way()
    assert moving is not None
    assert count in {step.instance for step in moving.move.steps if step.joins in moving.move.opens}
    finish(manager)
    (told,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.MOVE).items
    assert told.note.startswith(f"a job has been overloaded for {HOLD:.0f} s; outputs stood still")
    manager.close()


def test_a_dataflow_that_comes_has_it_wait_anew(manager: Manager) -> None:
    """Jobs are not moved about while tenants come and go."""
    watching = Watching(manager)
    for number in range(4):
        assert not watching.watch(HOLD / 2)
        manager.submit("ann", f"s:source > a:map{{'add': {number + 5}}} > k:sink")
    assert watching.watch(2 * HOLD)


def test_nothing_is_begun_by_itself_where_that_is_not_wanted(manager: Manager) -> None:
    """What is asked for is done all the same."""
    assert not Watching(manager, by_itself=False).watch(5 * HOLD)
    manager.service.defragmentation.begin(OPERATOR)
    assert manager.changes.moves.under_way()


def test_after_one_that_was_put_off_it_rests(manager: Manager) -> None:
    """And then tries again."""
    watching = Watching(manager)
    assert watching.watch(2 * HOLD)
    manager.submit("ann", CHAIN)
    assert not watching.watch(DEFRAGMENTATION_REST / 2)
    assert watching.watch(4 * DEFRAGMENTATION_REST)
    assert [Phase.PREPARING] == [each.move.phase for each in manager.changes.moves.under_way()]


def test_who_does_not_lead_begins_nothing(manager: Manager) -> None:
    """That is for whoever leads."""
    watching = Watching(manager)
    manager.committer.step_down()
    assert not watching.watch(3 * HOLD)
