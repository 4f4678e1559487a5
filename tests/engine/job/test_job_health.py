"""JobHealth: which plan follows from how a job's batches went, as its host notes them."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from engine.job.job_health import JobHealth
from engine.job.task_health import _BACK_OFF, BAD_BATCHES
from engine.offset import Offset
from engine.plan import Edge, Plan, Slot, SlotState
from engine.records.record import Dead, InstanceMeter, Record
from engine.records.record_file import Header
from engine.records.record_store import RecordStore

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
    """Where the batches are recorded."""
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


def following(healths: JobHealth, plan: Plan, now: float) -> Plan:
    """The plan that follows, which has to be one."""
    found = healths.following(plan, now)
    assert found is not None
    return found


def failed_in(store: RecordStore) -> tuple[JobHealth, Plan]:
    """Instance 2 has failed, and the plan says so."""
    healths = JobHealth(PLAN)
    for _ in range(BAD_BATCHES):
        assert healths.following(PLAN, BEGIN) is None
        healths.note(batch(store, {2: "it broke"}), PLAN, BEGIN)
    return healths, following(healths, PLAN, BEGIN)


def test_who_fails_alone_is_failed(store: RecordStore) -> None:
    """The plan that follows has just that instance failed, and so has every newer one."""
    healths, plan = failed_in(store)
    assert [(SlotState.FAILED, "it broke", AGAIN), (SlotState.ACTIVE, "", None)] == [
        (slot.state, slot.reason, slot.retry) for slot in plan.slots
    ]
    assert {"2": {"reason": "it broke", "retry": AGAIN}} == healths.failed()
    assert plan.slots == healths.applied(PLAN).slots


def test_batches_of_when_it_was_failed_do_not_fail_it_again(store: RecordStore) -> None:
    """Its events were dead letters untried in them, also in those that are recorded after it is to be tried again."""
    healths, plan = failed_in(store)
    assert PLAN.slots == following(healths, plan, AGAIN).slots
    healths.note(batch(store, {2: "its task has failed: it broke"}), plan, AGAIN)
    assert (None, {}) == (healths.following(PLAN, AGAIN), healths.failed())


def test_who_is_no_better_is_failed_at_once_and_for_longer(store: RecordStore) -> None:
    """One bad batch in which it was tried again is enough, and its reason is the new one."""
    healths, plan = failed_in(store)
    following(healths, plan, AGAIN)
    healths.note(batch(store, {2: "it broke anew"}), PLAN, AGAIN)
    assert {"2": {"reason": "it broke anew", "retry": AGAIN + _BACK_OFF.after(2)}} == healths.failed()
