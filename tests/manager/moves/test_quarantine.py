"""Greedy tenants: the second stop within an hour takes a tenant's tasks into workers of their own, for a while."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from manager.answers.overview import OperationKind
from manager.moves.quarantine import QUARANTINE, GreedyTenants
from manager.observations.reports import JobSeen
from manager.use_case import Paging
from merge import Instance, JobId
from tests.manager.kernel.pictures import loaded, pictured
from tests.manager.managers import OPERATOR, Manager, instance_of
from tests.manager.moves.test_watcher import Watching, finish

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
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager with two tenants' dataflows in one job; eve counts what both add to."""
    made = Manager(sqlite).lead()
    for tenant in ("ann", "eve"):
        made.admit(tenant)
    made.register("weather")
    made.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    made.submit("eve", "s:source > a:map{'add': 1} > b:count > k:sink")
    yield made
    made.close()


def workers(manager: Manager) -> dict[str, set[str]]:
    """The types of tasks that run in workers of each name."""
    with manager.committer.looking() as state:
        found: dict[str, set[str]] = {}
        for job, plan in state.plans.items():
            tasks = (state.running.tasks[each] for each in state.jobs.jobs[job].active)
            found.setdefault(plan.workers, set()).update(task.type.name for task in tasks if task.inputs)
        return found


def test_the_second_stop_within_an_hour_leads_to_jobs_and_workers_of_its_own(manager: Manager) -> None:
    """What only that tenant needs moves, and so goes what it submits next; what others need stays where it is."""
    stopping, watching = Stopping(manager), Watching(manager, by_itself=False)
    count = instance_of(manager, "count")
    stopping.stop(count, 10.0)
    assert not stopping.quarantined
    assert not watching.watch(60.0)
    stopping.stop(count, 50.0)
    assert {"eve"} == stopping.quarantined
    assert watching.watch(15.0)
    finish(manager)
    assert {"": {"map", "sink"}, "eve": {"count", "sink"}} == workers(manager)
    manager.submit("eve", "s:source > a:map{'add': 2} > k:sink")
    manager.submit("ann", "s:source > a:map{'add': 3} > k:sink")
    with manager.committer.looking() as state:
        own = {job for job, plan in state.plans.items() if plan.workers == "eve"}
        places = {task.config.get("add"): state.jobs.homes[each].job for each, task in state.running.tasks.items()}
    assert 1 == len(own)
    assert ({places[2]}, True) == (own, places[3] not in own)
    assert not watching.watch(600.0)
    (operation,) = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.QUARANTINE).items
    assert ("eve", f"stopped twice within an hour, the last time because {REASON}") == (
        operation.subject,
        operation.note,
    )
    assert pictured(manager) == loaded(manager.store)


def test_a_stop_counts_once_however_often_it_is_seen(manager: Manager) -> None:
    """Nor counts what was seen before this manager led, or a task that only fails."""
    stopping = Stopping(manager)
    count = instance_of(manager, "count")
    stopping.stop(count, 10.0)
    for _ in range(5):
        stopping.look()
    again = Stopping(manager)
    again.look()
    again.stop(count, 50.0, greedy=False)
    assert not again.quarantined
    again.stop(count, 90.0)
    assert {"eve"} == again.quarantined


def test_it_ends_by_itself(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour after the last stop nobody is in quarantine, and no job is anybody's own any more."""
    stopping, watching = Stopping(manager), Watching(manager, by_itself=False)
    count = instance_of(manager, "count")
    for retry in (10.0, 50.0):
        stopping.stop(count, retry)
    assert watching.watch(15.0)
    finish(manager)
    later = time.time() + QUARANTINE + 1.0
    monkeypatch.setattr(time, "time", lambda: later)
    assert not stopping.quarantined
    with manager.committer.looking() as state:
        assert not state.in_quarantine(later)
        assert {} == state.own_jobs(later)
        assert {JobId(1), JobId(2)} == state.jobs.jobs.keys()
