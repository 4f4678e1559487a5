"""The overview: what is counted, and for whom."""

from datetime import UTC, datetime

import pytest

from manager.answers.dataflows import DataflowState, Stop
from manager.answers.overview import JobsOverview, KindsAnswer, TroubledJobAnswer
from manager.kernel.live_events import Delays, ReconcilerActivity
from manager.observations.reports import JobSeen, Measured, StreamMeasured
from manager.overview.use_cases import MOST_TROUBLED
from manager.use_case import Paging
from tests.manager.managers import ANN, OPERATOR, Manager

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def seen(job: str, state: str = "running", **more: object) -> JobSeen:
    return JobSeen(job=job, host="north", state=state, version=9, in_effect=9, seen=NOW, **more)  # type: ignore[arg-type]


def test_everything_is_counted_for_operators_and_ones_own_for_tenants(manager: Manager) -> None:
    """Dataflows by state, tasks of their documents, and running tasks, which several of them may share."""
    shared = "s:source > a:map > k:sink"
    first, second = manager.submit("ann", shared), manager.submit("ann", shared)
    manager.submit("bob", shared)
    manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    whole, own = manager.service.overview.counts(OPERATOR), manager.service.overview.counts(ANN)
    assert ({DataflowState.DEPLOYING: 4}, 11) == (whole.dataflows, whole.tasks_submitted)
    assert ({DataflowState.DEPLOYING: 2}, 6, None) == (own.dataflows, own.tasks_submitted, own.jobs)
    # Three dataflows share all three tasks, and the fourth has no step.
    assert KindsAnswer(sources=4, steps=3, outputs=4) == whole.submitted_by_kind
    assert KindsAnswer(sources=2, steps=1, outputs=2) == whole.running_by_kind
    assert KindsAnswer(sources=1, steps=1, outputs=1) == own.running_by_kind
    instances = {each.instance for name in (first, second) for each in manager.service.dataflows.get(ANN, name).tasks}
    assert len(instances) == own.tasks_running
    with manager.committer.looking() as state:
        assert len(state.running.tasks) == whole.tasks_running
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.service.dataflows.remove(ANN, second, Stop.DRAIN)
    assert {DataflowState.DRAINING: 1} == manager.service.overview.counts(ANN).dataflows


def test_states_are_those_that_each_dataflow_has(manager: Manager) -> None:
    """What is counted is what a list of dataflows shows."""
    for text in ("s:source > k:sink", "s:source > a:map > k:sink", "s:source{'source': 'traffic'} > k:sink"):
        manager.submit("ann", text)
    with manager.committer.looking() as state:
        jobs = [str(job) for job in state.plans]
    manager.seen.jobs = {jobs[0]: seen(jobs[0]), jobs[-1]: seen(jobs[-1], "died", trouble="disk full")}
    shown = set(DataflowState) - {DataflowState.REMOVED}
    for who in (OPERATOR, ANN):
        listed = {each: len(manager.service.dataflows.page(who, Paging(limit=10), state=each).items) for each in shown}
        counted = manager.service.overview.counts(who).dataflows
        assert {each: count for each, count in listed.items() if count} == counted
        assert len(counted) > 1


def test_jobs_are_counted_and_those_in_trouble_named(manager: Manager) -> None:
    """By what their hosts say; a job of which nothing was heard is awaited, and what waits is added up."""
    for source in ("weather", "traffic"):
        for number in range(2):
            manager.submit("ann", f"s:source{{'source': '{source}'}} > a:map{{'add': {number}}} > k:sink")
    with manager.committer.looking() as state:
        jobs = [str(job) for job in sorted(state.plans)]
    assert {"awaited": len(jobs)} == _jobs(manager).states
    assert (None, None, ()) == (_jobs(manager).lag_events, _jobs(manager).lag_seconds, _jobs(manager).troubled)
    behind = {"a": StreamMeasured(lag_events=3, lag_seconds=0.5), "b": StreamMeasured(lag_events=4, lag_seconds=0.25)}
    manager.seen.jobs = {job: seen(job, measured=(Measured(streams=behind),)) for job in jobs}
    last = jobs[-1]
    manager.seen.jobs[last] = seen(last, "died", trouble="disk full")
    found = _jobs(manager)
    assert (1, (TroubledJobAnswer(job=last, state="died", trouble="disk full"),)) == (found.in_trouble, found.troubled)
    assert {"died": 1, "running": len(jobs) - 1} == found.states
    assert (7 * (len(jobs) - 1), 0.5) == (found.lag_events, found.lag_seconds)
    manager.seen.jobs[last] = seen(last, refused="no such type")
    assert ["no such type"] == [each.trouble for each in _jobs(manager).troubled]


def test_the_jobs_that_are_named_are_bounded(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are counted."""
    assert MOST_TROUBLED > 1
    monkeypatch.setattr("manager.overview.use_cases.MOST_TROUBLED", 1)
    for number in range(3):
        manager.submit("ann", f"s:source > a:map{{'add': {number}}} > k:sink")
    with manager.committer.looking() as state:
        manager.seen.jobs = {str(job): seen(str(job), "stuck") for job in state.plans}
    found = _jobs(manager)
    assert len(manager.seen.jobs) > 1
    assert (1, len(manager.seen.jobs)) == (len(found.troubled), found.in_trouble)


def _jobs(manager: Manager) -> JobsOverview:
    found = manager.service.overview.counts(OPERATOR).jobs
    assert found is not None
    return found


def test_who_drives_hosts_has_counted_everybodys_dataflows(manager: Manager) -> None:
    """Operators get the states that its last look found, without those in which there are none; tenants their own."""
    manager.submit("ann", "s:source > k:sink")
    counts = {"running": 3, "degraded": 0}
    driven = ReconcilerActivity(
        connected=True,
        unread=0,
        looks=1,
        failures=0,
        steps={},
        turns={},
        reconfigurations={},
        reconfiguration_delays=Delays(),
        dataflows=counts,
    )
    manager.equip(activity=lambda: driven)
    assert {DataflowState.RUNNING: 3} == manager.service.overview.counts(OPERATOR).dataflows
    assert {DataflowState.DEPLOYING: 1} == manager.service.overview.counts(ANN).dataflows
