"""When a task counts as failed, and when it is tried again.

A task that parks an event now and then is well. One that parks everything it takes, or kills its worker, batch after
batch, is failed: its events go to its dead letters untried, and everybody else is spared the trouble. After a while it
is tried again; each time that it fails anew the while is longer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bridge.machine.back_off import BackOff
from engine.plan import Plan, Slot, SlotState
from engine.records.record import InstanceMeter

BAD_BATCHES = 3
"""After so many bad batches in a row an instance is failed."""
_BACK_OFF = BackOff((10.0, 30.0, 120.0, 600.0))
"""Seconds until a failed instance is tried again, the first time and every later time."""
WELL = 20
"""After so many good batches in a row it is forgotten that an instance was failed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How one instance fares; kept by its host."""

    bad: int = 0
    """Bad batches in a row."""
    good: int = 0
    """Good batches in a row."""
    times: int = 0
    """How often it was failed."""
    reason: str = ""
    """Why it is failed; empty where it runs."""
    retry: float = 0.0
    """When it is tried again, in seconds since 1970."""


def noted(health: Health, meter: InstanceMeter, *, killed: bool, reason: str, now: float) -> Health:
    """How an instance fares after a batch in which it took something; `killed` says whether its worker died of it.

    >>> bad = InstanceMeter(taken=5, dead=5)
    >>> once = noted(Health(), bad, killed=False, reason="KeyError: 't'", now=100.0)
    >>> twice = noted(once, bad, killed=False, reason="KeyError: 't'", now=101.0)
    >>> thrice = noted(twice, bad, killed=False, reason="KeyError: 't'", now=102.0)
    >>> twice.reason, thrice.reason, thrice.retry
    ('', "KeyError: 't'", 112.0)
    """
    if health.reason or not meter.taken:
        return health
    if not killed and meter.dead < meter.taken:
        good = health.good + 1
        return replace(health, bad=0, good=good, times=0 if good >= WELL else health.times)
    if health.bad + 1 < BAD_BATCHES:
        return replace(health, bad=health.bad + 1, good=0)
    times = health.times + 1
    return Health(times=times, reason=reason, retry=now + _BACK_OFF.after(times))


def retried(health: Health, now: float) -> Health:
    """A failed instance whose time has come is tried again; it is failed at once if it is no better."""
    if not health.reason or now < health.retry:
        return health
    return Health(times=health.times, bad=BAD_BATCHES - 1)


def overlaid(plan: Plan, healths: Mapping[int, Health]) -> Plan:
    """A plan with just those instances failed that are, of those that should run."""
    return replace(plan, slots=tuple(_overlaid(slot, healths.get(slot.instance, Health())) for slot in plan.slots))


def renewed(plan: Plan, healths: Mapping[int, Health]) -> Plan:
    """The plan in effect as it should be now: it takes effect at once, and brings nothing along a second time."""
    return overlaid(replace(plan, at={}, at_cut="", imports=()), healths)


def recalled(plan: Plan) -> dict[int, Health]:
    """Who is failed by what a plan says, for a host that comes back."""
    return {
        slot.instance: Health(times=1, reason=slot.reason, retry=slot.retry)
        for slot in plan.slots
        if slot.state is SlotState.FAILED and slot.retry is not None
    }


def _overlaid(slot: Slot, health: Health) -> Slot:
    # Only who is failed by a host has a time to be tried again.
    if slot.state is not SlotState.ACTIVE and slot.retry is None:
        return slot
    if not health.reason:
        return replace(slot, state=SlotState.ACTIVE, reason="", retry=None)
    return replace(slot, state=SlotState.FAILED, reason=health.reason, retry=health.retry)
