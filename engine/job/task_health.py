"""The health of a task: when it counts as failed, and when it is retried.

A task that parks an event now and then is well. A task that parks everything it takes, or kills its worker, batch after
batch, or uses its CPU up again and again, is failed: its events go to its dead letters without a try, and other tasks
are left undisturbed. After a while it is retried; each time that it fails again the while is longer. It is called
failed until an event has passed through it: without events, a retry shows nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bridge.machine import BackOff
from engine.plan import Plan, Slot, SlotState
from engine.records.record import InstanceMeter

BAD_BATCHES = 3
"""The number of bad batches in a row after which an instance is failed."""
_BACK_OFF = BackOff((10.0, 30.0, 120.0, 600.0))
"""Seconds until a failed instance is retried, by how often it was failed; the last for every later time."""
WELL = 20
"""The number of good batches in a row after which earlier failures are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of one instance."""

    bad: int = 0
    """Bad batches in a row."""
    good: int = 0
    """Good batches in a row."""
    overspent: int = 0
    """Batches in which it used its CPU up since it was last well; small ones between them help no neighbour."""
    times: int = 0
    """The number of times that it was failed."""
    reason: str = ""
    """The reason that it is failed; empty if it runs."""
    doubt: str = ""
    """The reason that it was failed before it was retried; empty once an event has passed through it."""
    retry: float = 0.0
    """When it is or was retried, in seconds of the machine's monotonic clock."""


def after_batch(  # noqa: PLR0913 - what was, what happened in three regards, why and when are six things
    health: Health, meter: InstanceMeter, *, killed: bool, reason: str, now: float, overspent: bool = False
) -> Health:
    """The health of an instance after a batch, in which it killed the worker, or used its CPU up, or neither.

    >>> bad = InstanceMeter(taken=5, dead=5)
    >>> once = after_batch(Health(), bad, killed=False, reason="KeyError: 't'", now=100.0)
    >>> twice = after_batch(once, bad, killed=False, reason="KeyError: 't'", now=101.0)
    >>> thrice = after_batch(twice, bad, killed=False, reason="KeyError: 't'", now=102.0)
    >>> twice.reason, thrice.reason, thrice.retry
    ('', "KeyError: 't'", 112.0)
    """
    if health.reason or not meter.taken:
        return health
    if not (killed or overspent) and meter.dead < meter.taken:
        good = health.good + 1
        if good >= WELL:
            return Health(good=good)
        return replace(health, bad=0, good=good, doubt="", retry=0.0)
    worse = replace(health, bad=health.bad + 1, good=0, overspent=health.overspent + overspent)
    return worse if max(worse.bad, worse.overspent) < BAD_BATCHES else failed(health, reason, now)


def failed(health: Health, reason: str, now: float) -> Health:
    """The health of an instance that is failed now; the more often it was, the later it is retried."""
    times = health.times + 1
    return Health(times=times, reason=reason, retry=now + _BACK_OFF.after(times))


def at_time(health: Health, now: float) -> Health:
    """The health of an instance by now: a failed one is retried once it is time, and failed at once if it is no better.

    A retry beyond the longest back-off was set before the machine was started again, so it is due.
    """
    if not health.reason or now < health.retry <= now + _BACK_OFF.longest:
        return health
    return _retried(health.times, health.reason, health.retry)


def with_health(plan: Plan, healths: Mapping[int, Health]) -> Plan:
    """A plan in which the instances that should run are failed or not, by their health."""
    return replace(plan, slots=tuple(_with_health(slot, healths.get(slot.instance, Health())) for slot in plan.slots))


def renewed_plan(plan: Plan, healths: Mapping[int, Health]) -> Plan:
    """The plan in effect, by the health of its instances now: it takes effect at once, and imports nothing again."""
    return with_health(replace(plan, at={}, at_cut="", imports=()), healths)


def failed_in(plan: Plan) -> dict[int, Health]:
    """The failed and retried instances of a plan, for a host that was started again."""
    return {
        slot.instance: Health(times=1, reason=slot.reason, retry=slot.retry)
        if slot.state is SlotState.FAILED
        else _retried(1, slot.reason, slot.retry)
        for slot in plan.slots
        if slot.state is not SlotState.PAUSED and slot.retry is not None
    }


def _retried(times: int, doubt: str, retry: float) -> Health:
    return Health(times=times, bad=BAD_BATCHES - 1, overspent=BAD_BATCHES - 1, doubt=doubt, retry=retry)


def _with_health(slot: Slot, health: Health) -> Slot:
    # Only an instance that a host failed has a time to be retried.
    if slot.state is not SlotState.ACTIVE and slot.retry is None:
        return slot
    if not health.reason:
        retry = health.retry if health.doubt else None
        return replace(slot, state=SlotState.ACTIVE, reason=health.doubt, retry=retry)
    return replace(slot, state=SlotState.FAILED, reason=health.reason, retry=health.retry)
