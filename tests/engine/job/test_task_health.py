"""The health of a task: when an instance counts as failed, and when it is retried."""

from hypothesis import given
from hypothesis import strategies as st

from engine.job.health import (
    _BACK_OFF,
    BAD_BATCHES,
    WELL,
    Health,
    after_batch,
    at_time,
    failed_in,
    renewed_plan,
    with_health,
)
from engine.plan import Edge, Plan, Slot, SlotState, StateImport
from engine.records.record import InstanceMeter

OVERSPENT = InstanceMeter(taken=5, emitted=4, dead=1)
GOOD, BAD, NOTHING = InstanceMeter(taken=5, emitted=5), InstanceMeter(taken=5, dead=5), InstanceMeter()


def after(*meters: InstanceMeter, health: Health | None = None, killed: bool = False) -> Health:
    health = health or Health()
    for meter in meters:
        health = after_batch(health, meter, killed=killed, overspent=meter is OVERSPENT, reason="it broke", now=100.0)
    return health


def slot(instance: int, state: SlotState = SlotState.ACTIVE) -> Slot:
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
    plan = Plan(job="j", host="h", version=1, slots=(slot(2), slot(3)))
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
    plan = Plan(job="j", host="h", version=1, slots=(slot(2, state),))
    assert with_health(plan, {2: Health(reason="it broke", retry=7.0)}) == plan
    assert with_health(plan, {}) == plan


def test_a_renewed_plan_takes_effect_at_once_and_imports_nothing_again() -> None:
    """The waits and imports of the plan in effect are over."""
    plan = Plan(
        job="j",
        host="h",
        version=1,
        slots=(slot(2),),
        at={"s": 4},
        imports=(StateImport(instance=2, job="i", cut="c"),),
    )
    assert renewed_plan(plan, {}) == Plan(job="j", host="h", version=1, slots=(slot(2),))
