"""The health of jobs and tasks: what fails, what is retried, and whose tasks stop when a part waits."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job.health import (
    _BACK_OFF,
    BAD_BATCHES,
    GREEDY,
    WELL,
    GreedyTails,
    GreedyTasks,
    Health,
    JobHealth,
    after_batch,
    at_time,
    failed_in,
    renewed_plan,
    with_health,
)
from engine.kernel.task_bounds import Allowance, is_overspent
from engine.offset import Offset
from engine.plan import Delivery, Edge, Forward, Ingress, Plan, Slot, SlotState, StateImport, Subscribed
from engine.records.files import Header
from engine.records.record import Dead, InstanceMeter, Record
from engine.records.store import RecordStore
from tests.engine.kernels import enters, entry, slot

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


def failed_job(store: RecordStore) -> tuple[JobHealth, Plan]:
    """The health of a job whose instance 2 has failed, and the plan that says so."""
    health = JobHealth(PLAN)
    for _ in range(BAD_BATCHES):
        assert health.following(PLAN, BEGIN) is None
        health.note(batch(store, {2: "it broke"}), PLAN, BEGIN)
    return health, following(health, PLAN, BEGIN)


def test_only_the_instance_that_fails_is_failed(store: RecordStore) -> None:
    """The plan that follows has just that instance failed, and so has every newer plan."""
    health, plan = failed_job(store)
    assert [(SlotState.FAILED, "it broke", AGAIN), (SlotState.ACTIVE, "", None)] == [
        (slot.state, slot.reason, slot.retry) for slot in plan.slots
    ]
    assert {"2": {"reason": "it broke", "retry": AGAIN, "greedy": False}} == health.failed()
    assert plan.slots == health.applied(PLAN).slots


def test_batches_from_when_an_instance_was_failed_do_not_fail_it_again(store: RecordStore) -> None:
    """Its events became dead letters without a try, even in batches that are recorded after its retry is due."""
    health, plan = failed_job(store)
    retried = following(health, plan, AGAIN)
    assert [(SlotState.ACTIVE, "it broke", AGAIN), (SlotState.ACTIVE, "", None)] == [
        (slot.state, slot.reason, slot.retry) for slot in retried.slots
    ]
    health.note(batch(store, {2: "its task has failed: it broke"}), plan, AGAIN)
    assert health.following(retried, AGAIN) is None


def test_a_retried_instance_is_called_failed_until_an_event_passes(store: RecordStore) -> None:
    """With its reason, also by a host that was started again: without events, nothing shows that it is well."""
    health, plan = failed_job(store)
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
    health, plan = failed_job(store)
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


OVERSPENT = InstanceMeter(taken=5, emitted=4, dead=1)
GOOD, BAD, NOTHING = InstanceMeter(taken=5, emitted=5), InstanceMeter(taken=5, dead=5), InstanceMeter()


def after(*meters: InstanceMeter, health: Health | None = None, killed: bool = False) -> Health:
    health = health or Health()
    for meter in meters:
        health = after_batch(health, meter, killed=killed, overspent=meter is OVERSPENT, reason="it broke", now=100.0)
    return health


def plain_slot(instance: int, state: SlotState = SlotState.ACTIVE) -> Slot:
    return Slot(instance=instance, type="count", inputs=(Edge(parent=1),), state=state)


def test_an_instance_that_parks_everything_batch_after_batch_is_failed() -> None:
    """It is failed after three batches in which all was parked, and not before."""
    assert after(BAD, BAD).reason == ""
    assert after(BAD, BAD, BAD) == Health(times=1, reason="it broke", retry=100.0 + _BACK_OFF.after(1))


def test_a_good_batch_restarts_the_count() -> None:
    """An instance that parks everything now and then is not failed."""
    assert after(BAD, BAD, GOOD, BAD, BAD).reason == ""


def test_some_parked_events_are_no_failure() -> None:
    """An instance that takes most of its events is well, however often some of them are parked."""
    assert after(*[InstanceMeter(taken=5, dead=4)] * 50).reason == ""


def test_a_batch_without_events_does_not_count() -> None:
    """An instance that takes nothing is neither better nor worse for it."""
    assert after(BAD, BAD, NOTHING, NOTHING) == after(BAD, BAD)


def test_an_instance_that_kills_its_worker_is_failed_although_it_took_events() -> None:
    """A batch in which it killed a worker counts as bad, whatever else went well."""
    assert after(*[GOOD] * BAD_BATCHES, killed=True).reason == "it broke"


def test_an_instance_that_uses_its_cpu_up_again_and_again_is_failed() -> None:
    """Whatever small batches come between, for its neighbours wait each time; many good ones make up for it."""
    between = [GOOD] * (WELL - 1)
    assert after(OVERSPENT, *between, OVERSPENT, *between).reason == ""
    failed = after(OVERSPENT, *between, OVERSPENT, *between, OVERSPENT)
    assert failed == Health(times=1, reason="it broke", retry=100.0 + _BACK_OFF.after(1))
    assert after(GOOD, OVERSPENT, health=at_time(failed, failed.retry)).retry == 100.0 + _BACK_OFF.after(2)
    assert after(OVERSPENT, OVERSPENT, *between, GOOD, OVERSPENT, OVERSPENT).reason == ""


def test_a_failed_instance_is_retried_when_its_time_has_come() -> None:
    """It runs again after the back-off; at the first bad batch it is failed for longer."""
    failed = after(BAD, BAD, BAD)
    assert at_time(failed, failed.retry - 0.1) == failed
    again = at_time(failed, failed.retry)
    assert (again.reason, again.doubt) == ("", "it broke")
    assert after(BAD, health=again).retry == 100.0 + _BACK_OFF.after(2)


def test_a_retried_instance_is_in_doubt_until_an_event_has_passed() -> None:
    """However long it takes nothing; a batch that it took in part is enough, one in which it was stopped is not."""
    again = at_time(after(BAD, BAD, BAD), 1e9)
    assert after(NOTHING, NOTHING, health=at_time(again, 2e9)) == again
    assert after(InstanceMeter(taken=5, dead=4), health=again).doubt == ""
    stopped = after(OVERSPENT, health=again)
    assert (stopped.reason, stopped.doubt) == ("it broke", "")


def test_a_retry_from_before_a_restart_of_the_machine_is_due() -> None:
    """The clock began anew, so the time of the retry may be out of reach."""
    failed = after(BAD, BAD, BAD)
    assert at_time(failed, failed.retry - 2 * _BACK_OFF.longest).reason == ""


def test_long_health_forgets_earlier_failures() -> None:
    """After many good batches the next failure is a first one."""
    again = at_time(after(BAD, BAD, BAD), 1e9)
    assert after(*[GOOD] * WELL, BAD, BAD, BAD, health=again).retry == 100.0 + _BACK_OFF.after(1)


def test_the_back_off_grows_to_its_last() -> None:
    """However often an instance fails, it is retried."""
    health = Health()
    waits = []
    for _ in range(len(_BACK_OFF.waits) + 2):
        health = after(BAD, BAD, BAD, health=at_time(health, 1e9))
        waits.append(health.retry - 100.0)
    assert waits == [*_BACK_OFF.waits, _BACK_OFF.longest, _BACK_OFF.longest]


def test_a_plan_shows_which_instances_are_failed() -> None:
    """A failed instance has a failed slot with reason and time, and an active slot again once it is retried."""
    plan = Plan(job="j", host="h", version=1, slots=(plain_slot(2), plain_slot(3)))
    failed = with_health(plan, {3: Health(reason="it broke", retry=7.0)})
    assert [(each.state, each.reason, each.retry) for each in failed.slots] == [
        (SlotState.ACTIVE, "", None),
        (SlotState.FAILED, "it broke", 7.0),
    ]
    assert failed_in(failed) == {3: Health(times=1, reason="it broke", retry=7.0)}
    retried = with_health(plan, {3: Health(doubt="it broke", retry=7.0)})
    assert [(each.state, each.reason, each.retry) for each in retried.slots] == [
        (SlotState.ACTIVE, "", None),
        (SlotState.ACTIVE, "it broke", 7.0),
    ]
    assert failed_in(retried) == {3: at_time(Health(times=1, reason="it broke", retry=7.0), 7.0)}
    assert with_health(failed, {}) == plan


@given(st.sampled_from([SlotState.PAUSED, SlotState.FAILED]))
def test_an_instance_that_the_plan_itself_holds_back_stays_held_back(state: SlotState) -> None:
    """A host neither fails nor retries an instance that the manager paused or failed."""
    plan = Plan(job="j", host="h", version=1, slots=(plain_slot(2, state),))
    assert with_health(plan, {2: Health(reason="it broke", retry=7.0)}) == plan
    assert with_health(plan, {}) == plan


def test_a_renewed_plan_takes_effect_at_once_and_imports_nothing_again() -> None:
    """The waits and imports of the plan in effect are over."""
    plan = Plan(
        job="j",
        host="h",
        version=1,
        slots=(plain_slot(2),),
        at={"s": 4},
        imports=(StateImport(instance=2, job="i", cut="c"),),
    )
    assert renewed_plan(plan, {}) == Plan(job="j", host="h", version=1, slots=(plain_slot(2),))


SLOTS = (
    slot(10, "range_filter", 1, field="a", minimum=0, maximum=1),
    slot(20, "pi_viete", 10, iterations=9_000),
    slot(21, "output", 20),
    slot(30, "count", 10),
    slot(31, "output", 30),
    slot(40, "count", 2),
    slot(41, "output", 40),
)
"""Eve and Ann share a source and a filter; Bob has a stream of his own in the job."""
WHOSE = {21: "eve", 31: "ann", 41: "bob"}
HEAVY = {10: 1, 20: 90, 21: 1, 30: 5, 31: 1}
"""Hundredths of a second of CPU."""
BEHIND = [(100.0, 50_000), (103.5, 51_000)]
"""When two batches end, and when the next event of the stream was spooled: more than two seconds longer ago."""

NOBODY = GreedyTasks()


def plan(whose: Mapping[int, str] = WHOSE, forwards: tuple[Forward, ...] = ()) -> Plan:
    deliveries = tuple(Delivery(instance=each, tenant=name, dataflow="d", sink="s") for each, name in whose.items())
    return replace(entry(SLOTS, [enters("shared", 1), enters("own", 2)], forwards).plan, deliveries=deliveries)


def greedy_batch(store: RecordStore, cpu: Mapping[int, int], waiting: Mapping[str, int]) -> Header:
    number, at = store.batches().stop, Offset(entry=1)
    meters = {each: InstanceMeter(cpu_ns=cs * 10_000_000, taken=10, emitted=10) for each, cs in cpu.items()}
    assert store.write(Record(batch=number, start=at, end=at, meters=meters, waiting=waiting))
    return store.file(number).header


def greedy(store: RecordStore, made: Plan, cpu: Mapping[int, int], stream: str = "shared") -> list[GreedyTasks]:
    """Who is greedy in each of two batches between which a part falls behind."""
    tails = GreedyTails()
    return [tails.after(greedy_batch(store, cpu, {stream: stamp}), made, now) for now, stamp in BEHIND]


def test_the_costly_task_of_one_tenant_is_greedy_once_its_part_falls_behind(store: RecordStore) -> None:
    """Not before, and neither what is cheap nor what others need as well."""
    assert [NOBODY, GreedyTasks(behind=frozenset({20}))] == greedy(store, plan(), HEAVY)


def test_a_part_that_catches_up_has_no_greedy_task(store: RecordStore) -> None:
    """It waits in each batch, and is less behind in each."""
    tails = GreedyTails()
    for now in range(100, 120):
        assert NOBODY == tails.after(greedy_batch(store, HEAVY, {"shared": (now - 100) * 2_000}), plan(), now)


def test_what_serves_all_or_only_its_owner_is_not_greedy(store: RecordStore) -> None:
    """A shared task may cost as much as it does; so may a stream that nobody else reads, as its own events wait."""
    assert [NOBODY, NOBODY] == greedy(store, plan(), {**HEAVY, 10: 150})
    assert [NOBODY, NOBODY] == greedy(store, plan(dict.fromkeys(WHOSE, "eve")), HEAVY)
    assert [NOBODY, NOBODY] == greedy(store, plan(), {40: 99, 41: 1}, "own")


def test_a_tail_of_which_a_few_events_take_very_long_is_greedy_at_once(store: RecordStore) -> None:
    """Its batches last too long although the rest of its events waits; a shorter one is not."""
    assert [NOBODY, NOBODY] == greedy(store, plan(), {40: 290, 41: 1}, "own")
    assert [GreedyTasks(too_long=frozenset({40}))] * 2 == greedy(store, plan(), {40: 310, 41: 1}, "own")


def test_what_another_job_reads_is_nobodys_tail(store: RecordStore) -> None:
    """Whom it serves there is not known."""
    assert [NOBODY, NOBODY] == greedy(store, plan(forwards=(Forward(instance=20),)), HEAVY)


def test_a_tail_that_lets_others_fall_behind_is_failed_at_once(store: RecordStore) -> None:
    """As one that used its CPU up: its events hold up the stream no more, and its tenant may get into quarantine."""
    health, made = JobHealth(plan()), plan()
    for now, stamp in BEHIND:
        assert health.following(made, now) is None
        health.note(greedy_batch(store, HEAVY, {"shared": stamp}), made, now)
    following = health.following(made, 110.0)
    assert following is not None
    assert [20] == [each.instance for each in following.slots if each.state is SlotState.FAILED]
    assert is_overspent(GREEDY)
    assert {"20": (GREEDY, True)} == {
        instance: (failed["reason"], failed["greedy"]) for instance, failed in health.failed().items()
    }


def test_a_tail_that_takes_too_long_is_failed_after_some_batches(store: RecordStore) -> None:
    """The first may have loaded a library."""
    health, made = JobHealth(plan()), plan()
    for _ in range(BAD_BATCHES):
        assert health.following(made, 100.0) is None
        health.note(greedy_batch(store, {40: 310, 41: 1}, {}), made, 100.0)
    following = health.following(made, 100.0)
    assert following is not None
    assert [(40, GREEDY)] == [(each.instance, each.reason) for each in following.slots if each.reason]
