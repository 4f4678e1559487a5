"""The meter: minutes and hours, restarts, other leaders, and outages of the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlmodel import Session, select

from manager.costs.choice import Chooser
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.problem import DatabaseAway
from manager.savings.counters import BrokerCpu
from manager.savings.ledger import HOUR, KEPT, MINUTE, of_dataflows, of_tenants, whole
from manager.savings.meter import _LOOK_EVERY, Meter
from manager.store.tables import MeteredRow, MeteredTenantRow
from merge import BATCH_SECONDS
from tests.manager.managers import Manager

NOW = datetime(2026, 1, 2, tzinfo=UTC)
EPOCH = 1_000 * HOUR
"""When tests begin: at a full hour."""
SECOND = 10**9
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
