"""The health of a job: the plan that follows from the outcome of its batches."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.job.health import _BACK_OFF, BAD_BATCHES, JobHealth
from engine.kernel.task_bounds import Allowance
from engine.offset import Offset
from engine.plan import Edge, Ingress, Plan, Slot, SlotState, Subscribed
from engine.records.files import Header
from engine.records.record import Dead, InstanceMeter, Record
from engine.records.store import RecordStore

PLAN = Plan(
    job="j",
    host="h",
    version=1,
    slots=tuple(Slot(instance=each, type="count", inputs=(Edge(parent=1),)) for each in (2, 3)),
)
BEGIN = 100.0
AGAIN = BEGIN + _BACK_OFF.after(1)


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """The store that batches are recorded in."""
    return RecordStore(tmp_path)


def batch(store: RecordStore, reasons: Mapping[int, str]) -> Header:
    """A batch of one event, which is a dead letter of some instances."""
    number, at = store.batches().stop, Offset(entry=1, at={})
    dead = [
        Dead(instance=instance, port="in", reason=reason, events=pa.record_batch({"n": [1]}))
        for instance, reason in reasons.items()
    ]
    meters = {each.instance: InstanceMeter(taken=1, dead=int(each.instance in reasons)) for each in PLAN.slots}
    assert store.write(Record(batch=number, start=at, end=at, dead=tuple(dead), meters=meters))
    return store.file(number).header


def following(health: JobHealth, plan: Plan, now: float) -> Plan:
    """The plan that follows; there has to be one."""
    found = health.following(plan, now)
    assert found is not None
    return found


def failed_in(store: RecordStore) -> tuple[JobHealth, Plan]:
    """The health of a job whose instance 2 has failed, and the plan that says so."""
    health = JobHealth(PLAN)
    for _ in range(BAD_BATCHES):
        assert health.following(PLAN, BEGIN) is None
        health.note(batch(store, {2: "it broke"}), PLAN, BEGIN)
    return health, following(health, PLAN, BEGIN)


def test_only_the_instance_that_fails_is_failed(store: RecordStore) -> None:
    """The plan that follows has just that instance failed, and so has every newer plan."""
    health, plan = failed_in(store)
    assert [(SlotState.FAILED, "it broke", AGAIN), (SlotState.ACTIVE, "", None)] == [
        (slot.state, slot.reason, slot.retry) for slot in plan.slots
    ]
    assert {"2": {"reason": "it broke", "retry": AGAIN, "greedy": False}} == health.failed()
    assert plan.slots == health.applied(PLAN).slots


def test_batches_from_when_an_instance_was_failed_do_not_fail_it_again(store: RecordStore) -> None:
    """Its events became dead letters without a try, even in batches that are recorded after its retry is due."""
    health, plan = failed_in(store)
    retried = following(health, plan, AGAIN)
    assert [(SlotState.ACTIVE, "it broke", AGAIN), (SlotState.ACTIVE, "", None)] == [
        (slot.state, slot.reason, slot.retry) for slot in retried.slots
    ]
    health.note(batch(store, {2: "its task has failed: it broke"}), plan, AGAIN)
    assert health.following(retried, AGAIN) is None


def test_a_retried_instance_is_called_failed_until_an_event_passes(store: RecordStore) -> None:
    """With its reason, also by a host that was started again: without events, nothing shows that it is well."""
    health, plan = failed_in(store)
    retried = following(health, plan, AGAIN)
    expected = {"2": {"reason": "it broke", "retry": AGAIN, "greedy": False}}
    for restarted in (health, JobHealth(retried)):
        assert expected == restarted.failed()
        assert restarted.following(retried, AGAIN + 1e6) is None
        restarted.note(batch(store, {}), retried, AGAIN)
        assert {} == restarted.failed()
        assert PLAN.slots == following(restarted, retried, AGAIN).slots


def test_an_instance_that_is_no_better_is_failed_at_once_and_for_longer(store: RecordStore) -> None:
    """One bad batch after its retry is enough, and the reason is the new one."""
    health, plan = failed_in(store)
    retried = following(health, plan, AGAIN)
    for restarted in (health, JobHealth(retried)):
        restarted.note(batch(store, {2: "it broke anew"}), retried, AGAIN)
    assert {"2": {"reason": "it broke anew", "retry": AGAIN + _BACK_OFF.after(2), "greedy": False}} == health.failed()


def test_a_task_that_uses_its_allowance_up_batch_after_batch_is_failed(store: RecordStore) -> None:
    """Even though it took a part of its events each time."""
    health, plan = JobHealth(PLAN), None
    reason = Allowance(seconds=5.0, emitted=1).reason
    for _ in range(BAD_BATCHES):
        number, at = store.batches().stop, Offset(entry=1, at={})
        dead = Dead(instance=2, port="in", reason=reason, events=pa.record_batch({"n": [1]}))
        meters = {2: InstanceMeter(taken=9, dead=1), 3: InstanceMeter(taken=9)}
        record = Record(batch=number, start=at, end=at, dead=(dead,), meters=meters)
        store.write(record)
        health.note(store.file(number).header, PLAN, BEGIN)
        plan = health.following(PLAN, BEGIN)
    assert plan is not None
    assert {2: reason} == {each.instance: each.reason for each in plan.slots if each.state is SlotState.FAILED}


def test_the_costliest_task_that_a_stream_reaches_is_stopped_and_retried(store: RecordStore) -> None:
    """By what the tasks took in the last batch; the next time it is another one, and never one of another stream."""
    plan = replace(
        PLAN,
        slots=(*PLAN.slots, Slot(instance=5, type="count", inputs=(Edge(parent=4),))),
        ingress=tuple(
            Ingress(stream=stream, instance=each, supply=Subscribed(topic=stream, fields={}))
            for stream, each in (("s", 1), ("other", 4))
        ),
    )
    health = JobHealth(plan)
    at = Offset(entry=1, at={})
    taken = ((2, 5), (3, 8), (5, 9))
    meters = {each: InstanceMeter(cpu_ns=cpu, taken=9) for each, cpu in taken}
    store.write(Record(batch=0, start=at, end=at, meters=meters))
    health.note(store.file(0).header, plan, BEGIN)
    health.stop_costliest("s", BEGIN)
    reason = "it is too slow for the stream s, which others wait for"
    assert {"3": {"reason": reason, "retry": AGAIN, "greedy": True}} == health.failed()
    assert SlotState.FAILED is following(health, plan, BEGIN).slots[1].state
    for _ in range(2):
        health.stop_costliest("s", BEGIN)
        assert {"2", "3"} == health.failed().keys()
    assert health.following(health.applied(plan), AGAIN + 1) is not None
