"""The meter: the growth of counters, minutes and hours, restarts, other leaders, and outages of the database."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select

from manager.costs.choice import Chooser
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.problem import DatabaseAway
from manager.savings.counters import BrokerCpu, CounterGrowth, Counters, counters, growth, running_snapshot, usage_of
from manager.savings.ledger import HOUR, KEPT, MINUTE, of_dataflows, of_tenants, whole
from manager.savings.meter import _LOOK_EVERY, Meter
from manager.store.tables import MeteredRow, MeteredTenantRow
from merge import BATCH_SECONDS
from tests.manager.managers import Manager

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = 10**9


def host(name: str = "north", **cpu: float) -> HostSeen:
    return HostSeen(host=name, alive=True, cpu=cpu, seen=NOW)


def job(cpu: int, *, at: float, run: int = 1, batch: int = 0, age: float | None = None) -> JobSeen:
    """Return a job with one task that took so much CPU and so many events."""
    measured = Measured(
        at=at,
        run=run,
        age=age,
        batch=batch,
        instances={7: InstanceMeasured(cpu_ns=cpu)},
        streams={"s": StreamMeasured(entered=cpu)},
    )
    return JobSeen(job="1", host="north", state="running", measured=(measured,), seen=NOW)


def seen(before: Counters | None, at: float, *hosts: HostSeen, **jobs: JobSeen) -> Counters:
    return counters(before, at, hosts, {each.job: each for each in jobs.values()}, there=("1",))


def test_only_new_growth_counts() -> None:
    """Hosts and jobs that ran before the first look count from there."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0), a=job(300, at=100.0, batch=4, age=90.0))
    then = seen(first, 105.0, host(driver=6.0, jvm=11.5), a=job(500, at=105.0, batch=7, age=95.0))
    assert growth(first, then) == CounterGrowth(
        seconds=5.0, cpu={"driver": SECOND, "jvm": 2_500_000_000}, tasks={7: 200}, batches={"1": 3}, entered={"s": 200}
    )


def test_a_new_job_counts_from_its_start() -> None:
    """One that started since the first look counts whole; an older one counts only from its first report."""
    first = seen(None, 100.0)
    young = growth(first, seen(first, 105.0, a=job(300, at=105.0, batch=2, age=4.0)))
    assert ({7: 300}, {"1": 3}, {"s": 300}) == (young.tasks, young.batches, young.entered)
    for age in (5.1, None):
        old = seen(first, 105.0, a=job(300, at=105.0, batch=2, age=age))
        assert {} == growth(first, old).tasks
        assert {7: 1} == growth(old, seen(old, 110.0, a=job(301, at=110.0, batch=2))).tasks


def test_a_restarted_job_counts_from_its_restart() -> None:
    """All its counters start again, but batch numbers continue."""
    first = seen(None, 100.0, a=job(300, at=100.0, batch=4))
    then = seen(first, 105.0, a=job(20, at=105.0, run=2, batch=6))
    assert ({7: 20}, {"1": 2}, {"s": 20}) == (
        growth(first, then).tasks,
        growth(first, then).batches,
        growth(first, then).entered,
    )


def test_a_restarted_host_counts_from_its_restart() -> None:
    """A lower counter of any process shows the restart."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0, worker=1.0))
    then = seen(first, 105.0, host(driver=0.5, jvm=9.5))
    assert {"driver": SECOND // 2, "jvm": 9_500_000_000} == growth(first, then).cpu


def test_a_silent_job_or_host_continues_from_its_last_report() -> None:
    """Its growth counts once, when it reports again."""
    first = seen(None, 100.0, host(driver=5.0), a=job(300, at=100.0, batch=4))
    silent = seen(first, 105.0, HostSeen(host="north", alive=False, seen=NOW))
    again = seen(silent, 110.0, host(driver=7.0), a=job(310, at=110.0, batch=5, age=1.0))
    assert ({}, {}) == (growth(first, silent).tasks, growth(first, silent).batches)
    assert ({"driver": 0}, {"driver": 2 * SECOND}) == (growth(first, silent).cpu, growth(silent, again).cpu)
    assert ({7: 10}, {"1": 1}) == (growth(silent, again).tasks, growth(silent, again).batches)


def test_a_restarted_broker_counts_as_a_new_process() -> None:
    """CPU that it took before the first look does not count."""

    def broker(before: Counters | None, at: float, pid: int, seconds: float) -> Counters:
        taken = BrokerCpu(pid=pid, began=str(pid), seconds=seconds)
        return counters(before, at, (), {}, there=(), broker=taken)

    first = broker(None, 100.0, 1, 50.0)
    second = broker(first, 105.0, 1, 51.0)
    gone = counters(second, 110.0, (), {}, there=())
    third = broker(gone, 115.0, 2, 0.5)
    assert [SECOND, 0, SECOND // 2] == [
        growth(one, two).cpu["broker"] for one, two in ((first, second), (second, gone), (gone, third))
    ]


def test_unknown_parts_count_as_workers() -> None:
    """Hosts of other releases may report other parts."""
    first = seen(None, 100.0, host(driver=1.0, gpu=1.0))
    assert {"driver": 0, "worker": SECOND} == growth(first, seen(first, 105.0, host(driver=1.0, gpu=2.0))).cpu


@given(
    st.lists(
        st.one_of(
            st.just("restart"),
            st.dictionaries(st.sampled_from(["driver", "jvm"]), st.integers(0, 1_000), min_size=1),
        ),
        max_size=20,
    )
)
def test_no_growth_counts_twice(steps: list[str | Mapping[str, int]]) -> None:
    """Whatever hosts restart, growth is never negative, and its sum never exceeds the CPU taken."""
    taken, reported = 0, {"driver": 0, "jvm": 0}
    last = first = seen(None, 0.0, host(driver=0.0, jvm=0.0))
    found = 0
    for at, step in enumerate(steps, 1):
        reported = (
            {"driver": 0, "jvm": 0}
            if isinstance(step, str)
            else {part: seconds + step.get(part, 0) for part, seconds in reported.items()}
        )
        taken += 0 if isinstance(step, str) else sum(step.values())
        following = seen(last, float(at), host(driver=float(reported["driver"]), jvm=float(reported["jvm"])))
        more = growth(last, following).cpu
        assert all(each >= 0 for each in more.values())
        found += sum(more.values())
        last = following
    assert found == taken * SECOND
    assert 0.0 == first.since == last.since


def test_tasks_jobs_and_bridges_have_their_users(sqlite: str) -> None:
    """Sources have none, and a bridge is used by those whose events it carries into a job of theirs."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann", "bob")
    manager.register("weather")
    ann = manager.submit("ann", "s:source > a:map > k:sink")
    bob = manager.submit("bob", "s:source > a:map > b:map > k:sink")
    with manager.committer.looking() as state:
        use = usage_of(running_snapshot(state))
        shared = next(each for each, users in state.running.users.items() if len(users) == 2 and each in use.tasks)
        sources = {each for each, task in state.running.tasks.items() if not task.inputs}
    assert {ann: "ann", bob: "bob"} == use.tenants
    assert tuple(sorted((ann, bob))) == use.tasks[shared]
    assert sources.isdisjoint(use.tasks)
    assert {ann: frozenset({"1"}), bob: frozenset({"1", "2"})} == use.homes
    assert {"1": tuple(sorted((ann, bob))), "2": (bob,)} == use.jobs
    assert ((bob,),) == use.bridges
    assert use.streams[ann] == use.streams[bob]
    manager.close()


EPOCH = 1_000 * HOUR
"""When tests begin: at a full hour."""
BATCH = round(BATCH_SECONDS * SECOND)


class Scene:
    """A manager with two dataflows that share all their tasks, a meter, and clocks that a test sets."""

    def __init__(self, url: str) -> None:
        self.now = 100.0
        self.forward = 0.0
        """By how many seconds the clock on the wall was set forward."""
        self.manager = Manager(url).lead()
        self.manager.admit("ann", "bob")
        self.manager.register("weather")
        self.dataflows = {each: self.manager.submit(each, "s:source > a:map > k:sink") for each in ("ann", "bob")}
        self.cpu = 0.0
        self.batch = 0
        self.task = 0
        self.run = 1
        self.broker: BrokerCpu | None = None
        with self.manager.committer.looking() as state:
            (self.job,) = map(str, state.plans)
            self.working = tuple(each for each, task in state.running.tasks.items() if task.inputs)
            (self.stream,) = (source.supplied.stream for source in state.sources.values())
        self.meter = self.metering(self.manager)
        self.hear()

    def metering(self, manager: Manager) -> Meter:
        return Meter(
            manager.store,
            manager.committer,
            self.manager.seen,
            Chooser(self.manager.seen),
            broker=lambda: self.broker,
            clock=lambda: self.now,
            wall=lambda: EPOCH + self.forward + self.now - 100.0,
        )

    def hear(self) -> None:
        """Let the host and the job report their counters."""
        host = HostSeen(host="north", alive=True, cpu={"driver": self.cpu / 4, "jvm": self.cpu * 3 / 4}, seen=NOW)
        self.manager.seen.every_host = (host,)
        measured = Measured(
            at=self.now,
            run=self.run,
            batch=self.batch,
            instances={each: InstanceMeasured(cpu_ns=self.task) for each in self.working},
            streams={self.stream: StreamMeasured(entered=self.batch)},
        )
        job = JobSeen(job=self.job, host="north", state="running", measured=(measured,), seen=NOW)
        self.manager.seen.jobs[self.job] = job

    def go_on(self, looks: int, meter: Meter | None = None) -> None:
        """Look repeatedly, five seconds apart; half a core is taken, and each task works."""
        for _ in range(looks):
            self.now += _LOOK_EVERY
            self.cpu += _LOOK_EVERY / 2
            self.batch += 5
            self.task += SECOND // 10
            self.hear()
            (meter or self.meter).look()

    def rows(self, span: int) -> list[MeteredRow]:
        with self.manager.store.read() as session:
            wanted = select(MeteredRow).where(MeteredRow.span == span)
            return sorted(session.exec(wanted).all(), key=lambda row: (row.at, row.term))

    def measured(self, span: int = HOUR) -> int:
        return sum(sum(row.cpu.values()) for row in self.rows(span))


@pytest.fixture
def scene(sqlite: str) -> Iterator[Scene]:
    made = Scene(sqlite)
    yield made
    made.manager.close()


def test_each_minute_is_written_once_it_is_over(scene: Scene) -> None:
    """It has all its CPU, shares and overhead add up to the whole, and hours add up their minutes."""
    scene.meter.look()
    scene.go_on(11)
    assert [] == scene.rows(MINUTE)
    scene.go_on(13)
    assert [(EPOCH, 60.0), (EPOCH + MINUTE, 60.0)] == [(row.at, row.seconds) for row in scene.rows(MINUTE)]
    assert {30 * SECOND} == {sum(row.cpu.values()) for row in scene.rows(MINUTE)}
    with scene.manager.store.read() as session:
        for span in (MINUTE, HOUR):
            everything = whole(session, span, EPOCH, EPOCH + HOUR)
            tenants = of_tenants(session, span, EPOCH, EPOCH + HOUR)
            assert 60 * SECOND == sum(everything.cpu.values())
            assert 60 * SECOND == everything.overhead + sum(took.cpu for took in tenants.values())
            assert everything.overhead > 0
            assert everything.packed.likely > 60 * SECOND
            assert everything.launched.likely > everything.packed.likely
            for tenant, dataflow in scene.dataflows.items():
                assert {dataflow: tenants[tenant]} == of_dataflows(session, span, EPOCH, EPOCH + HOUR, tenant)


def test_shared_tasks_are_paid_in_halves(scene: Scene) -> None:
    """Two dataflows that share their tasks and their job pay half each."""
    scene.meter.look()
    scene.go_on(12)
    with scene.manager.store.read() as session:
        tenants = of_tenants(session, MINUTE, EPOCH, EPOCH + MINUTE)
    # Of twelve looks: half of two tasks, and half of five batches.
    assert {12 * (SECOND // 10 + 5 * BATCH // 2)} == {took.cpu for took in tenants.values()}
    assert {12 * (SECOND // 5 + 5 * BATCH)} == {took.alone.likely for took in tenants.values()}


def test_looks_are_spaced(scene: Scene) -> None:
    """Reports are read every five seconds, however often `look` is called."""
    scene.meter.look()
    scene.go_on(6)
    scene.now += 1.0
    scene.cpu += 7.0
    scene.hear()
    scene.meter.look()
    scene.cpu -= 3.0
    scene.hear()
    scene.go_on(11)
    # Had it looked when there were seven more, fewer than that would have looked like a restart of the host.
    assert (12 * 5 // 2 + 4) * SECOND == scene.measured(MINUTE)


def test_restarts_count_once(scene: Scene) -> None:
    """A restarted job or host loses nothing that it reports, and nothing counts twice."""
    scene.meter.look()
    scene.go_on(4)
    scene.run, scene.task, scene.cpu = 2, 0, 0.0
    scene.go_on(8)
    assert 30 * SECOND == scene.measured()
    with scene.manager.store.read() as session:
        (took, _) = of_tenants(session, HOUR, EPOCH, EPOCH + HOUR).values()
    assert 12 * (SECOND // 5 + 5 * BATCH) == took.alone.likely


def test_a_manager_that_ends_writes_the_open_minute(scene: Scene) -> None:
    """The next leading manager continues the minute in its own term, with the rest only."""
    scene.meter.look()
    scene.go_on(5)
    scene.now += 1.0
    scene.cpu += 2.5
    scene.hear()
    scene.meter.end()
    assert 15 * SECOND == scene.measured()
    scene.now += 4.0
    other = Manager(scene.manager.url, "two").lead()
    meter = scene.metering(other)
    meter.look()
    scene.go_on(12, meter)
    assert [26.0, 30.0] == [row.seconds for row in scene.rows(MINUTE)]
    assert [EPOCH, EPOCH] == [row.at for row in scene.rows(MINUTE)]
    assert scene.rows(MINUTE)[0].term < scene.rows(MINUTE)[1].term
    assert 30 * SECOND == scene.measured()
    other.close()


def test_a_manager_that_dies_loses_the_open_minute_only(scene: Scene) -> None:
    """Written minutes stay, and the next manager starts from the present counters."""
    scene.meter.look()
    scene.go_on(12 + 5)
    other = Manager(scene.manager.url, "two").lead()
    meter = scene.metering(other)
    meter.look()
    scene.go_on(12, meter)
    meter.end()
    assert (30 + 30) * SECOND == scene.measured()
    other.close()


def test_a_manager_that_lost_the_lead_writes_nothing(scene: Scene) -> None:
    """It meters no minute twice, even if it does not know yet that another leads."""
    scene.meter.look()
    scene.go_on(6)
    other = Manager(scene.manager.url, "two").lead()
    scene.meter.end()
    assert [] == scene.rows(MINUTE)
    other.close()


def test_minutes_are_kept_for_two_hours_and_hours_for_good(scene: Scene) -> None:
    """Older minutes are deleted, and stay whole in their hours."""
    scene.meter.look()
    scene.go_on(12)
    scene.now += KEPT + MINUTE
    scene.meter.look()
    scene.go_on(24)
    assert EPOCH not in {row.at for row in scene.rows(MINUTE)}
    assert EPOCH in {row.at for row in scene.rows(HOUR)}
    with scene.manager.store.read() as session:
        ats = {row.at for row in session.exec(select(MeteredTenantRow).where(MeteredTenantRow.span == MINUTE)).all()}
    assert EPOCH not in ats


def test_a_minute_is_written_once_the_database_is_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written once, even if the database had committed it but could not answer."""
    scene.meter.look()
    write = scene.manager.store.write
    lost = 0

    @contextmanager
    def failing(**given: Any) -> Iterator[Session]:
        nonlocal lost
        with write(**given) as session:
            yield session
        lost += 1
        raise DatabaseAway

    monkeypatch.setattr(scene.manager.store, "write", failing)
    with pytest.raises(DatabaseAway):
        scene.go_on(12)
    monkeypatch.setattr(scene.manager.store, "write", write)
    scene.go_on(12)
    assert lost == 1
    assert [60.0, 60.0] == [row.seconds for row in scene.rows(MINUTE)]
    assert 60 * SECOND == scene.measured()


def test_the_broker_is_part_of_the_whole(scene: Scene) -> None:
    """It is missing if this manager does not run it, and otherwise counts from the first look."""
    scene.meter.look()
    scene.go_on(12)
    assert {"driver", "jvm"} == scene.rows(MINUTE)[0].cpu.keys()
    scene.broker = BrokerCpu(pid=9, began="1", seconds=40.0)
    scene.go_on(6)
    scene.broker = BrokerCpu(pid=9, began="1", seconds=41.5)
    scene.go_on(6)
    assert 1_500_000_000 == scene.rows(MINUTE)[1].cpu["broker"]


def test_a_clock_that_is_set_back_writes_no_minute_twice(scene: Scene) -> None:
    """Until the clock has caught up, all work belongs to the open minute."""
    scene.meter.look()
    scene.go_on(18)
    scene.forward -= 60.0
    scene.go_on(18)
    assert [(EPOCH, 60.0), (EPOCH + MINUTE, 120.0)] == [(row.at, row.seconds) for row in scene.rows(MINUTE)]
    assert 90 * SECOND == scene.measured()


def test_a_removed_dataflow_stays_in_the_ledger(scene: Scene) -> None:
    """Its rows stay for bills, and it has no share of later work."""
    scene.meter.look()
    scene.go_on(12)
    scene.manager.changes.dataflows.remove(scene.dataflows["bob"], who="bob")
    scene.go_on(12)
    with scene.manager.store.read() as session:
        before = of_dataflows(session, HOUR, EPOCH, EPOCH + HOUR, "bob")
        (minute,) = of_dataflows(session, MINUTE, EPOCH, EPOCH + MINUTE, "bob").values()
        later = of_dataflows(session, MINUTE, EPOCH + MINUTE, EPOCH + HOUR, "bob")
    assert [scene.dataflows["bob"]] == list(before)
    # The look at which it was found gone still split what had been done since the one before.
    assert 0 < minute.cpu
    assert sum(took.cpu for took in later.values()) < minute.cpu
