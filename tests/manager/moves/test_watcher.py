"""The watcher: which moves, paces, shards and quarantines it starts, and what the journal says of them."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from braid_client.answers.overview import OperationKind
from manager.costs.choice import DEFRAGMENTATION_REST, HOLD, Chooser
from manager.kernel.transitions import Phase, TransitionEvent
from manager.moves.quarantine import QUARANTINE, GreedyTenants
from manager.moves.watcher import PACE_HOLDS, SHARDS_HOLD, WATCHER_PERIOD, Steady, Wanted, Watcher, due, steady
from manager.observations.reports import JobSeen
from manager.use_case import Paging
from merge import Instance, JobId, Repace, Rescale
from tests.manager.kernel.pictures import loaded, pictured
from tests.manager.managers import OPERATOR, Manager, instance_of, leading, report, take

CHAIN = "s:source > a:map{'add': 1} > k:sink"
LONGER = "s:source > a:map{'add': 1} > b:count > k:sink"


class Watching:
    """A watcher with a clock that a test advances."""

    def __init__(
        self,
        manager: Manager,
        *,
        by_itself: bool = True,
        every: float | None = None,
        reports: Callable[[float], object] = lambda _now: None,
    ) -> None:
        self.now = 0.0
        self._tells = reports
        self._manager = manager
        self._watcher = Watcher(
            manager.committer,
            manager.changes.moves,
            manager.changes.jobs,
            Chooser(manager.seen, clock=lambda: self.now),
            by_itself=by_itself,
            every=every,
            clock=lambda: self.now,
        )

    def watch(self, seconds: float) -> bool:
        """Look for so many seconds, and return true if something moves."""
        for _ in range(int(seconds / WATCHER_PERIOD) + 1):
            self._tells(self.now)
            self._watcher.look()
            self.now += WATCHER_PERIOD
        return bool(self._manager.changes.moves.under_way())


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager with two dataflows that share tasks, with each residue in a job of its own."""
    both = [("ann", text) for text in (CHAIN, LONGER)]
    yield from leading(sqlite, tenants=("ann",), sources=("weather",), submitted=both, strategy="launch")


def finish(manager: Manager) -> None:
    """Let the move under way succeed."""
    (moving,) = manager.changes.moves.under_way()
    assert moving is not None
    take(manager.changes.moves, moving.move.id, TransitionEvent.READY)
    take(manager.changes.moves, moving.move.id, TransitionEvent.PASSED, passed={job: {} for job in moving.move.left})
    take(manager.changes.moves, moving.move.id, TransitionEvent.BEGUN)


def test_scattered_jobs_are_consolidated_once_it_is_worth_it(manager: Manager) -> None:
    """The journal has the gain and the cost, and afterwards nothing is left to do."""
    watching = Watching(manager)
    assert not watching.watch(HOLD / 2)
    assert watching.watch(HOLD)
    finish(manager)
    (operation,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.MOVE).items
    assert operation.note.startswith(f"it has been worth it for {HOLD:.0f} s. It is worth it: ")
    assert 1 == len(manager.service.running.jobs(OPERATOR, Paging()).items)
    assert not watching.watch(2 * DEFRAGMENTATION_REST)


def test_a_job_gets_shards_once_it_has_needed_them_for_a_while(sqlite: str) -> None:
    """Its next plan has them, the journal says why, the next leader knows them, and it gives them up likewise."""
    manager = Manager(sqlite).lead()
    manager.admit("ann")
    manager.register("weather")
    manager.submit("ann", "s:source > b:count > k:sink")
    (job,) = manager.service.running.jobs(OPERATOR, Paging()).items
    busy = {instance_of(manager, "count"): 1.2}
    watching = Watching(manager, reports=lambda now: report(manager, job.job, busy, now))
    assert not watching.watch(HOLD / 2)
    assert (1, 1) == _plan(manager, job.job)
    assert not watching.watch(HOLD)
    assert (2, 3) == _plan(manager, job.job)
    (operation,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.RESCALE).items
    assert (job.job, "the service") == (operation.subject, operation.who)
    assert operation.note.startswith("its tasks take 1.2")
    assert operation.note.endswith("with 3 shards")
    # What is submitted next leaves them as they are.
    manager.submit("ann", "s:source > b:count > c:lab:one > k:sink")
    assert (3, 3) == _plan(manager, job.job)
    manager.lead()
    with manager.committer.looking() as state:
        assert [3] == [each.shards for each in state.jobs.jobs.values()]
    busy |= dict.fromkeys(busy, 0.01)
    assert not watching.watch(2 * HOLD)
    assert (4, 1) == _plan(manager, job.job)
    manager.close()


def _plan(manager: Manager, job: str) -> tuple[int, int]:
    """The version and the shards of a job's newest plan."""
    plan = manager.changes.jobs.wanted()[job].plan
    assert plan is not None
    return plan.version, plan.shards


def test_what_moves_to_a_job_with_shards_finds_them_there(sqlite: str) -> None:
    """The new job warms up with as many as the work that comes needs, and has them when it takes over."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann")
    manager.register("weather")
    for text in ("s:source > a:lab:one > k:sink", "s:source > a:lab:one > b:lab:two > k:sink"):
        manager.submit("ann", text)
    busy = {instance_of(manager, "lab:two"): 1.2}
    watching = Watching(manager, reports=lambda now: report(manager, "2", busy, now))
    assert watching.watch(HOLD)
    # While tasks move, their jobs keep their shards.
    assert [1, 1, 3] == [_plan(manager, job)[1] for job in ("1", "2", "3")]
    finish(manager)
    assert 3 == _plan(manager, "3")[1]
    manager.lead()
    with manager.committer.looking() as state:
        assert [3] == [each.shards for each in state.jobs.jobs.values()]
    manager.close()


def test_a_job_is_relieved_once_it_has_been_overloaded_for_a_while(sqlite: str) -> None:
    """It is relieved even if that saves nothing; a short overload changes nothing."""
    manager = Manager(sqlite).lead()
    manager.admit("ann")
    manager.register("weather")
    for text in (CHAIN, LONGER):
        manager.submit("ann", text)
    (job,) = (each.job for each in manager.service.running.jobs(OPERATOR, Paging()).items)
    count = instance_of(manager, "count")
    busy = {count: 1.2, instance_of(manager, "map"): 0.01}
    watching = Watching(manager, reports=lambda now: report(manager, job, busy, now))
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
    (operation,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.MOVE).items
    assert operation.note.startswith(f"a job has been overloaded for {HOLD:.0f} s; outputs stood still")
    manager.close()


def test_a_new_dataflow_restarts_the_wait(manager: Manager) -> None:
    """Jobs are not moved while tenants come and go."""
    watching = Watching(manager)
    for number in range(4):
        assert not watching.watch(HOLD / 2)
        manager.submit("ann", f"s:source > a:map{{'add': {number + 5}}} > k:sink")
    assert watching.watch(2 * HOLD)


def test_nothing_starts_by_itself_if_that_is_disabled(manager: Manager) -> None:
    """A defragmentation on request still works."""
    assert not Watching(manager, by_itself=False).watch(5 * HOLD)
    manager.service.defragmentation.begin(OPERATOR)
    assert manager.changes.moves.under_way()


def test_it_rests_after_an_abandoned_move(manager: Manager) -> None:
    """It tries again afterwards."""
    watching = Watching(manager)
    assert watching.watch(2 * HOLD)
    manager.submit("ann", CHAIN)
    assert not watching.watch(DEFRAGMENTATION_REST / 2)
    assert watching.watch(4 * DEFRAGMENTATION_REST)
    assert [Phase.PREPARING] == [each.move.phase for each in manager.changes.moves.under_way()]


def test_a_manager_that_does_not_lead_starts_nothing(manager: Manager) -> None:
    """Only the leading manager does."""
    watching = Watching(manager)
    manager.committer.step_down()
    assert not watching.watch(3 * HOLD)


ONE, TWO = JobId(1), JobId(2)


def repace(job: JobId, pace: float) -> Repace:
    return Repace(job, pace, "why")


def paces_changed(*looks: tuple[float, tuple[Repace, ...]]) -> list[Repace | None]:
    """What is changed at each look, where a pace of 1 s is usual."""
    known: Steady = {}
    made: list[Repace | None] = []
    for now, found in looks:
        known, chosen = steady(known, found, 1.0, now)
        made.append(chosen)
    return made


def test_a_job_is_slowed_down_once_the_same_pace_has_been_right_for_a_while() -> None:
    """Another pace begins its own wait."""
    looks = paces_changed((0.0, (repace(ONE, 3.0),)), (30.0, (repace(ONE, 5.0),)), (PACE_HOLDS, (repace(ONE, 5.0),)))
    assert [None, None, None] == looks
    looks = paces_changed((0.0, (repace(ONE, 5.0),)), (PACE_HOLDS, (repace(ONE, 5.0),)))
    assert [None, repace(ONE, 5.0)] == looks


def test_a_job_is_quick_again_at_once() -> None:
    """Somebody waits."""
    assert [repace(ONE, 1.0)] == paces_changed((0.0, (repace(ONE, 1.0),)))


def test_one_job_changes_its_pace_at_a_time() -> None:
    """The next one comes with the next look."""
    both = (repace(ONE, 5.0), repace(TWO, 3.0))
    looks = paces_changed((0.0, both), (PACE_HOLDS, both), (PACE_HOLDS + 15, both))
    assert [None, repace(ONE, 5.0), repace(TWO, 3.0)] == looks


def test_what_is_only_said_is_said_once() -> None:
    """A preview changes nothing, so the same is found again; once it was not found, it is said anew."""
    wanted = (repace(ONE, 5.0),)
    times = (0.0, PACE_HOLDS, 2 * PACE_HOLDS, 3 * PACE_HOLDS)
    assert [None, wanted[0], None, None] == paces_changed(*((at, wanted) for at in times))
    gone = paces_changed((0.0, wanted), (60.0, wanted), (75.0, ()), (90.0, wanted), (150.0, wanted))
    assert [None, wanted[0], None, None, wanted[0]] == gone


SHARDS = {ONE: 1, TWO: 4}


def rescale(job: JobId, shards: int) -> Rescale:
    return Rescale(job, shards, {}, "why")


def shards_changed(*looks: tuple[float, tuple[Rescale, ...]]) -> list[Rescale | None]:
    """What is changed at each look."""
    wanted: Wanted = {}
    made: list[Rescale | None] = []
    for now, found in looks:
        wanted, chosen = due(wanted, found, SHARDS, now)
        made.append(chosen)
    return made


def test_a_job_has_to_need_more_shards_for_a_while() -> None:
    """How many may change meanwhile; the newest number counts."""
    looks = shards_changed(
        (0.0, (rescale(ONE, 2),)), (SHARDS_HOLD / 2, (rescale(ONE, 3),)), (SHARDS_HOLD, (rescale(ONE, 4),))
    )
    assert [None, None, rescale(ONE, 4)] == looks


def test_the_wait_begins_anew_when_the_need_was_gone() -> None:
    """And when a job that needed more needs fewer."""
    assert [None, None, None] == shards_changed(
        (0.0, (rescale(ONE, 2),)), (30.0, ()), (SHARDS_HOLD, (rescale(ONE, 2),))
    )
    assert [None, None] == shards_changed((0.0, (rescale(TWO, 5),)), (SHARDS_HOLD, (rescale(TWO, 3),)))


def test_one_job_changes_its_shards_at_a_time() -> None:
    """The first that was found; the other one comes with the next look, and the first has to wait again."""
    both = (rescale(TWO, 8), rescale(ONE, 2))
    looks = shards_changed((0.0, both), (SHARDS_HOLD, both), (SHARDS_HOLD + 15, both), (2 * SHARDS_HOLD, both))
    assert [None, rescale(TWO, 8), rescale(ONE, 2), None] == looks


REASON = "it took more than 5 s of CPU"


class Stopping:
    """Greedy tenants whose stops a test reports."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.now = 0.0
        self.greedy = GreedyTenants(manager.committer, manager.seen, clock=lambda: self.now)
        self.look()

    def look(self) -> None:
        self.greedy.look()
        self.now += 1.0

    def stop(self, instance: Instance, retry: float, *, greedy: bool = True) -> None:
        """Have a host report that it stopped a task, until so many seconds of its clock, and look."""
        with self.manager.committer.looking() as state:
            job = str(state.jobs.homes[instance].job)
        self.manager.seen.jobs[job] = JobSeen(
            job=job,
            host="north",
            state="running",
            failed={instance: REASON},
            stops={instance: retry} if greedy else {},
            seen=datetime(2026, 1, 2, tzinfo=UTC),
        )
        self.look()

    @property
    def quarantined(self) -> set[str]:
        """The tenants in quarantine, by REST."""
        tenants = self.manager.service.administration.tenants(OPERATOR, Paging()).items
        return {each.name for each in tenants if each.quarantined_until is not None}


@pytest.fixture
def crowded(sqlite: str) -> Iterator[Manager]:
    """A manager with two tenants' dataflows in one job; eve counts what both add to."""
    both = [("ann", "s:source > a:map{'add': 1} > k:sink"), ("eve", "s:source > a:map{'add': 1} > b:count > k:sink")]
    yield from leading(sqlite, tenants=("ann", "eve"), sources=("weather",), submitted=both)


def workers(manager: Manager) -> dict[str, set[str]]:
    """The types of tasks that run in workers of each name."""
    with manager.committer.looking() as state:
        found: dict[str, set[str]] = {}
        for job, plan in state.plans.items():
            tasks = (state.running.tasks[each] for each in state.jobs.jobs[job].active)
            found.setdefault(plan.workers, set()).update(task.type.name for task in tasks if task.inputs)
        return found


def test_the_second_stop_within_an_hour_leads_to_jobs_and_workers_of_its_own(crowded: Manager) -> None:
    """What only that tenant needs moves, and so goes what it submits next; what others need stays where it is."""
    stopping, watching = Stopping(crowded), Watching(crowded, by_itself=False)
    count = instance_of(crowded, "count")
    stopping.stop(count, 10.0)
    assert not stopping.quarantined
    assert not watching.watch(60.0)
    stopping.stop(count, 50.0)
    assert {"eve"} == stopping.quarantined
    assert watching.watch(15.0)
    finish(crowded)
    assert {"": {"map", "sink"}, "eve": {"count", "sink"}} == workers(crowded)
    crowded.submit("eve", "s:source > a:map{'add': 2} > k:sink")
    crowded.submit("ann", "s:source > a:map{'add': 3} > k:sink")
    with crowded.committer.looking() as state:
        own = {job for job, plan in state.plans.items() if plan.workers == "eve"}
        places = {task.config.get("add"): state.jobs.homes[each].job for each, task in state.running.tasks.items()}
    assert 1 == len(own)
    assert ({places[2]}, True) == (own, places[3] not in own)
    assert not watching.watch(600.0)
    (operation,) = crowded.service.operations.page(OPERATOR, Paging(), kind=OperationKind.QUARANTINE).items
    assert ("eve", f"stopped twice within an hour, the last time because {REASON}") == (
        operation.subject,
        operation.note,
    )
    assert pictured(crowded) == loaded(crowded.store)


def test_a_stop_counts_once_however_often_it_is_seen(crowded: Manager) -> None:
    """Nor counts what was seen before this manager led, or a task that only fails."""
    stopping = Stopping(crowded)
    count = instance_of(crowded, "count")
    stopping.stop(count, 10.0)
    for _ in range(5):
        stopping.look()
    again = Stopping(crowded)
    again.look()
    again.stop(count, 50.0, greedy=False)
    assert not again.quarantined
    again.stop(count, 90.0)
    assert {"eve"} == again.quarantined


def test_it_ends_by_itself(crowded: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour after the last stop nobody is in quarantine, and no job is anybody's own any more."""
    stopping, watching = Stopping(crowded), Watching(crowded, by_itself=False)
    count = instance_of(crowded, "count")
    for retry in (10.0, 50.0):
        stopping.stop(count, retry)
    assert watching.watch(15.0)
    finish(crowded)
    later = time.time() + QUARANTINE + 1.0
    monkeypatch.setattr(time, "time", lambda: later)
    assert not stopping.quarantined
    with crowded.committer.looking() as state:
        assert not state.in_quarantine(later)
        assert {} == state.own_jobs(later)
        assert {JobId(1), JobId(2)} == state.jobs.jobs.keys()
