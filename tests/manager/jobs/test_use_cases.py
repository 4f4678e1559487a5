"""Use cases of looking: what runs, the journal; who sees what, and lists in parts."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.jobs import RunningTaskAnswer
from braid_client.answers.overview import OperationKind
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.problem import Conflict, InvalidRequest, NotFound
from manager.use_case import Paging
from merge import JobId, Rescale
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager, every, parts

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def busy(manager: Manager) -> Manager:
    """Three jobs: the second reads two streams of one task of the first, the third is apart."""
    manager.submit("ann", "s:source > p:split p.even > k:sink p.odd > l:sink")
    manager.submit("bob", "s:source > p:split p.even > a:map > k:sink p.odd > b:map > l:sink")
    manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    return manager


def test_running_tasks_are_listed_by_instance(busy: Manager) -> None:
    """Each running task has its job, its inputs, how many dataflows it serves and its running DAG."""
    tasks = every(lambda p: busy.service.running.tasks(OPERATOR, p), 2)
    assert tasks == every(lambda p: busy.service.running.tasks(OPERATOR, p), 100)
    assert list(range(1, 11)) == [task.instance for task in tasks]
    found = {task.instance: (task.type, task.job, task.inputs, task.dataflows, task.dag) for task in tasks}
    assert ("source", "1", (), 2, 1) == found[1]
    assert ("split", "1", (1,), 2, 1) == found[2]
    assert {("map", "2", (2,), 1, 1)} == {found[5], found[6]}
    assert ("source", "3", (), 1, 2) == found[9]
    assert {"active"} == {task.state for task in tasks}


def test_a_tenant_sees_its_own_tasks_and_of_others_only_how_many(busy: Manager) -> None:
    """By its own names, with the number of those who share them, and no finer than the hour when others began."""
    busy.admit("eve")
    busy.submit("eve", "s:source > mine:split mine.even > k:sink mine.odd > l:sink")
    seen = {
        who.tenant: every(partial(busy.service.running.tasks, who), 2)
        for who in (ANN, BOB, EVE)
        if who.tenant is not None
    }
    everything = {task.instance: task for task in busy.service.running.tasks(OPERATOR, Paging()).items}
    for tenant, tasks in seen.items():
        with busy.committer.looking() as state:
            own = {
                i
                for dataflow in state.running.dataflows.values()
                if dataflow.tenant == tenant
                for i in dataflow.instances
            }
        assert sorted(own) == [task.instance for task in tasks]
        assert {task.tenant for task in tasks} <= {"", tenant}
        # The graph of a tenant is whole.
        assert {parent for task in tasks for parent in task.inputs} <= own
        assert [everything[task.instance].dataflows for task in tasks] == [task.dataflows for task in tasks]
        assert {(0, 0)} == {(task.since.minute, task.since.second) for task in tasks}
    assert ("split", "p", 3, 3, "") == _shown(seen["ann"][1]) == _shown(seen["bob"][1])
    assert ("split", "mine", 3, 3, "") == _shown(seen["eve"][1])
    assert ("source", "ann:weather", 3, 3, "") == _shown(seen["eve"][0]) == _shown(everything[1])
    assert ("map", "a", 1, 1, "bob") == _shown(seen["bob"][2]) == _shown(everything[5])
    assert () == busy.service.running.tasks(EVE, Paging(), job="3").items


def _shown(task: RunningTaskAnswer) -> tuple[str, str, int, int, str]:
    return task.type, task.name, task.dataflows, task.tenants, task.tenant


def test_a_task_that_fails_is_shown_as_failed(busy: Manager) -> None:
    """What a host says of an instance is shown with it, and why."""
    busy.seen.jobs["2"] = JobSeen(job="2", host="north", state="running", failed={5: "broken"}, seen=NOW)
    tasks = busy.service.running.tasks(OPERATOR, Paging()).items
    assert [(5, "broken")] == [(task.instance, task.failed) for task in tasks if task.state == "failed"]
    assert {""} == {task.failed for task in tasks if task.state != "failed"}


def test_the_running_tasks_of_one_job_are_listed(busy: Manager) -> None:
    """Part after part, as all are; of a job that is not there, none."""
    everything = busy.service.running.tasks(OPERATOR, Paging()).items
    for job in ("1", "2", "3"):
        expected = [task for task in everything if task.job == job]
        assert expected == every(partial(busy.service.running.tasks, OPERATOR, job=job), 2)
    assert [(), ()] == [busy.service.running.tasks(OPERATOR, Paging(), job=job).items for job in ("4", "none")]


def test_running_dags_are_the_connected_components(busy: Manager) -> None:
    """Each has its tasks, its dataflows and its jobs."""
    for limit in (1, 2, 5):
        dags = every(lambda p: busy.service.running.dags(OPERATOR, p), limit)
        assert [(1, 8, 2, ("1", "2")), (2, 2, 1, ("3",))] == [(d.id, d.tasks, d.dataflows, d.jobs) for d in dags]


def test_what_a_task_has_done_is_shown(busy: Manager) -> None:
    """As its host counted it; of one that it says nothing of nothing is known."""
    did = InstanceMeasured(cpu_ns=1_500_000_000, taken=40, emitted=30, dead=10)
    now = time.monotonic()
    last = Measured(at=now, instances={5: did}, states={5: 20_000})
    measured = (Measured(at=now - 10, instances={5: InstanceMeasured()}), last)
    busy.seen.jobs["2"] = JobSeen(job="2", host="north", state="running", measured=measured, seen=NOW)
    tasks = {task.instance: task for task in busy.service.running.tasks(OPERATOR, Paging()).items}
    assert [(4.0, 3.0, 0.15), (None, None, None)] == [
        (task.events_in_per_second, task.events_out_per_second, task.cores) for task in (tasks[5], tasks[6])
    ]
    assert [(1.5, 40, 30, 10, 20_000), (None, None, None, None, 0)] == [
        (task.cpu_seconds, task.events_in, task.events_out, task.events_dead, task.state_bytes)
        for task in (tasks[5], tasks[6])
    ]


def test_jobs_are_shown_as_wanted_and_as_seen(busy: Manager) -> None:
    """A job of which nothing was heard is awaited; else the answer has what its host said."""
    busy.seen.jobs["1"] = JobSeen(
        job="1", host="north", state="running", version=2, in_effect=1, batch=7, refused="too old", restarts=2, seen=NOW
    )
    jobs = {job.job: job for job in every(lambda p: busy.service.running.jobs(OPERATOR, p), 2)}
    assert ["1", "2", "3"] == list(jobs)
    one, three = jobs["1"], jobs["3"]
    assert ("running", 2, 1, 7, "too old", 2, NOW) == (
        *(one.state, one.version, one.in_effect, one.batch, one.trouble, one.restarts, one.seen),
    )
    assert ("awaited", 1, 0, -1, None) == (three.state, three.version, three.in_effect, three.batch, three.seen)
    assert (3, 0) == (one.active, one.paused)
    assert [None] * 4 == [each.lag_events for each in (one, three)] + [
        each.events_in_per_second for each in (one, three)
    ]
    assert jobs["1"] == busy.service.running.job(OPERATOR, "1")
    for missing in ("4", "0", "-1", "x", "1.0", "9" * 5_000, "\u0661", ""):
        with pytest.raises(NotFound):
            busy.service.running.job(OPERATOR, missing)


def test_how_a_job_does_its_work_is_shown(busy: Manager) -> None:
    """Its batches and what waits as its host said last, its rates over the last minute."""
    now = time.monotonic()
    measured = tuple(
        Measured(
            at=now + at,
            streams={"s": StreamMeasured(entered=entered, lag_events=2, lag_seconds=0.5)},
            left=left,
            batch_seconds={"p50": 0.25, "p99": 0.5},
            latency_seconds={"p50": 0.75, "p99": 1.5},
        )
        for at, entered, left in ((0.0, 100, 10), (10.0, 300, 30))
    )
    busy.seen.jobs["1"] = JobSeen(job="1", host="north", state="running", measured=measured, seen=NOW)
    job = busy.service.running.job(OPERATOR, "1")
    assert (0.25, 0.5, 20.0, 2.0, 2, 0.5, 0.75, 1.5) == (
        *(job.batch_seconds_p50, job.batch_seconds_p99, job.events_in_per_second, job.events_out_per_second),
        *(job.lag_events, job.lag_seconds, job.latency_seconds_p50, job.latency_seconds_p99),
    )


def test_the_shards_of_a_job_are_shown(busy: Manager) -> None:
    """How many its plan has; what each takes as far as that is known."""
    with busy.committer.looking() as state:
        base, active = state.jobs.version, state.jobs.jobs[JobId(1)].active
    two = Rescale(JobId(1), 2, dict.fromkeys(active, 0.5), "two are needed")
    busy.changes.jobs.rescale(two, base=base, who="operator")
    job = busy.service.running.job(OPERATOR, "1")
    assert (2, (), None) == (job.shards, job.shard_cores, job.hot_group)
    now = time.monotonic()
    measured = (Measured(at=now - 10.0), Measured(at=now, shards={0: 5 * 10**9, 1: 10**9}, groups={3: 90, 4: 10}))
    busy.seen.jobs["1"] = JobSeen(job="1", host="north", state="running", measured=measured, seen=NOW)
    job = busy.service.running.job(OPERATOR, "1")
    assert ((0.5, 0.1), 3, 0.9) == (job.shard_cores, job.hot_group, job.hot_group_part)
    with pytest.raises(Conflict):
        # The jobs are others by now.
        busy.changes.jobs.rescale(two, base=base, who="operator")


def test_streams_between_jobs_are_listed(busy: Manager) -> None:
    """Each derived stream that crosses has its producer and consumers; all ports of one instance are in one part."""
    for limit in (1, 2, 9):
        found = [each for part in parts(lambda p: busy.service.running.streams(OPERATOR, p), limit) for each in part]
        assert [(2, "even", "1", ("2",)), (2, "odd", "1", ("2",))] == [
            (each.instance, each.port, each.producer, each.consumers) for each in found
        ]


def test_hosts_are_listed_by_name(busy: Manager) -> None:
    """Whatever was seen of a host is shown, in parts of any size."""
    busy.seen.every_host = tuple(
        HostSeen(
            host=name, alive=name != "b", dropped=3, cores=4.0, tags=frozenset({"gpu", "big"}), release="9", seen=NOW
        )
        for name in ("c", "a", "b")
    )
    for limit in (1, 2, 3):
        hosts = every(lambda p: busy.service.running.hosts(OPERATOR, p), limit)
        assert [("a", True), ("b", False), ("c", True)] == [(host.name, host.alive) for host in hosts]
        assert {(4.0, ("big", "gpu"), "9")} == {(host.cores, host.tags, host.release) for host in hosts}


@pytest.mark.parametrize("what", ["tasks", "dags", "jobs", "streams", "operations"])
def test_a_cursor_that_is_none_is_refused(busy: Manager, what: str) -> None:
    """A cursor that is no number is refused with its remedy."""
    service = busy.service
    read: Callable[..., object] = service.operations.page if what == "operations" else getattr(service.running, what)
    with pytest.raises(InvalidRequest, match="use `next` of the part before"):
        read(OPERATOR, Paging(after="x"))


def test_the_journal_is_each_tenants_own(busy: Manager) -> None:
    """Newest first; a tenant reads what it did, an operator everything; each entry says what was done and how."""
    mine = every(lambda p: busy.service.operations.page(BOB, p), 1)
    assert [(OperationKind.SUBMIT, 2, 0), (OperationKind.SUBMIT, 4, 2)] == [
        (each.kind, each.started, each.reused) for each in mine
    ]
    assert [("3",), ("2",)] == [each.jobs_started for each in mine]
    everything = every(lambda p: busy.service.operations.page(OPERATOR, p), 3)
    assert sorted((each.id for each in everything), reverse=True) == [each.id for each in everything]
    assert {"ann", "bob", "operator"} == {each.who for each in everything}
    gone = busy.service.dataflows.page(BOB, Paging()).items[-1].id
    busy.service.dataflows.remove(BOB, gone, Stop.NOW)
    (newest, *_) = busy.service.operations.page(BOB, Paging(limit=1)).items
    assert (OperationKind.REMOVE, gone, 2, ("3",)) == (newest.kind, newest.subject, newest.paused, newest.jobs_stopped)
    assert newest.seconds >= 0


def test_the_journal_is_filtered_and_holds_while_it_grows(busy: Manager) -> None:
    """Filters hold over parts; entries that come meanwhile do not shift those that are to come."""
    dataflow = busy.service.dataflows.page(ANN, Paging()).items[0].id
    assert [dataflow] == [
        each.subject for each in busy.service.operations.page(OPERATOR, Paging(), subject=dataflow).items
    ]
    submits = every(lambda p: busy.service.operations.page(OPERATOR, p, kind=OperationKind.SUBMIT), 1)
    assert 3 == len(submits)
    before = [each.id for each in busy.service.operations.page(OPERATOR, Paging()).items]
    found: list[int] = []
    for part in parts(lambda p: busy.service.operations.page(OPERATOR, p), 2):
        found += [each.id for each in part]
        busy.submit("ann", "s:source > k:sink")
    assert before == found
