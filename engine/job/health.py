"""The health of a job's instances: when a task counts as failed or greedy, and when it is retried.

A task that parks an event now and then is well. A task that parks everything it takes, or kills its worker, batch after
batch, or uses its CPU up again and again, is failed: its events go to its dead letters without a try, and other tasks
are left undisturbed. After a while it is retried; each time that it fails again the while is longer. It is called
failed until an event has passed through it: without events, a retry shows nothing.

**Greedy tails** are tasks that serve one tenant alone, and hold up others although events of their part wait. A part of
a plan that takes too long waits in its streams, see `BatchTime` in `engine/kernel/batch.py`. In two cases that does not
help others. They read the same stream, and the part falls further and further behind; one that catches up after an
outage does not. Or what cannot wait takes much longer than a batch may. Then the costly tasks of the tail are stopped.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from bridge.machine import BackOff
from engine.kernel.task_bounds import is_overspent
from engine.kernel.watchdog import is_verdict
from engine.plan import Plan, Slot, SlotState
from engine.records.files import Header
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
    good: int = 0
    overspent: int = 0
    """Batches in which it used its CPU up since it was last well; small ones between them help no neighbour."""
    times: int = 0
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
    """The health of an instance by now: a failed one is retried in time, and failed at once if it is no better."""
    # A retry beyond the longest back-off was set before the machine was started again, so it is due.
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


GREEDY = "it took more than its part of the CPU of its batches, and others waited"
"""The reason for which a greedy task is stopped; it begins like others for which a task was stopped for its CPU."""
_BEHIND = 2.0
"""Seconds by which a part has to fall behind before a tail is greedy that others share a stream with."""
_GREEDY_SHARE = 0.5
"""The share of its part's CPU that such a tail takes at least."""
_LONG_SECONDS, _LONG_BATCHES = 3.0, 2.0
"""A tail takes too long beyond so many seconds of CPU, or so many times what a batch may take if that is more."""
_ANOTHER_JOB = ""
"""Stands for whom another job serves."""


class GreedyTasks(NamedTuple):
    """The costly tasks of greedy tails."""

    behind: frozenset[int] = frozenset()
    """Others that read the same stream have fallen behind."""
    too_long: frozenset[int] = frozenset()
    """A batch took too long, which may happen once, for instance while a library is loaded."""


class GreedyTails:
    """The greedy tails of one job; asked after each batch."""

    def __init__(self) -> None:
        self._lags: dict[frozenset[str], float] = {}
        """The lag that each part had when it began to wait, in seconds of no particular clock."""

    def after(self, header: Header, plan: Plan, now: float) -> GreedyTasks:
        """The tasks that were greedy in a batch of a plan."""
        too_long = math.inf if plan.shards > 1 else max(_LONG_SECONDS, _LONG_BATCHES * plan.batch_seconds) * 1e9
        if not header.waiting and sum(meter.cpu_ns for meter in header.meters.values()) < too_long:
            # As nearly always; all that follows costs more than most batches.
            self._lags = {}
            return GreedyTasks()
        parts, served = plan.parts(), _served(plan)
        lags, behind, long = dict[frozenset[str], float](), set[int](), set[int]()
        for part in parts:
            cpu = {instance: header.meters[instance].cpu_ns for instance in part.instances & header.meters.keys()}
            if len(parts) > 1:
                long.update(_costly(cpu, served, too_long))
            if waiting := part.streams & header.waiting.keys():
                lag = now - min(header.waiting[stream] for stream in waiting) / 1_000
                lags[part.streams] = self._lags.get(part.streams, lag)
                tenants = {tenant for instance in part.instances for tenant in served[instance]} - {_ANOTHER_JOB}
                if lag - lags[part.streams] > _BEHIND and len(tenants) > 1:
                    behind.update(_costly(cpu, served, _GREEDY_SHARE * sum(cpu.values())))
        self._lags = lags
        return GreedyTasks(frozenset(behind), frozenset(long))


def _costly(cpu: Mapping[int, int], served: Mapping[int, set[str]], bound: float) -> Iterator[int]:
    """The costly tasks of each tail that took more than a bound; `cpu` is what each task of the part took, in ns."""
    tails: dict[str, dict[int, int]] = {}
    for instance, ns in cpu.items():
        if len(served[instance]) == 1:
            tails.setdefault(min(served[instance]), {})[instance] = ns
    for tenant, tail in tails.items():
        if tenant != _ANOTHER_JOB and (total := sum(tail.values())) > bound:
            yield from (instance for instance, ns in tail.items() if 2 * ns * len(tail) >= total)


def _served(plan: Plan) -> dict[int, set[str]]:
    """The tenants that each instance serves in this job."""
    served: dict[int, set[str]] = {instance: set() for instance in plan.instances}
    for delivery in plan.deliveries:
        served[delivery.instance].add(delivery.tenant)
    for forward in plan.forwards:
        served[forward.instance].add(_ANOTHER_JOB)
    for slot in reversed(plan.active):
        for edge in slot.inputs:
            served.setdefault(edge.parent, set()).update(served[slot.instance])
    return served


_TOO_SLOW = "it is too slow for the stream"
"""How the reason of a task begins that was stopped because its job holds up a stream."""


class JobHealth:
    """The health of each instance of one job; called from its host's main thread."""

    def __init__(self, plan: Plan | None) -> None:
        self._healths: dict[int, Health] = failed_in(plan) if plan else {}
        self._meters: Mapping[int, InstanceMeter] = {}
        """Those of the last batch that took events."""
        self._tails = GreedyTails()
        self._plan = plan
        self._tasks = _tasks_of(plan) if plan else {}

    def stop_costliest(self, stream: str, now: float) -> None:
        """Fail the instance that took most CPU lately in the part that is too slow for a stream, for a while."""
        parts = self._plan.parts() if self._plan else ()
        reading = {instance for part in parts if stream in part.streams for instance in part.instances}
        running = {
            instance: meter
            for instance, meter in self._meters.items()
            if instance in reading and not self._healths.get(instance, Health()).reason
        }
        if running:
            costliest = max(running, key=lambda instance: (running[instance].cpu_ns, instance))
            reason = f"{_TOO_SLOW} {stream}, which others wait for"
            self._healths[costliest] = failed(self._healths.get(costliest, Health()), reason, now)

    def note(self, header: Header, ran: Plan, now: float) -> None:
        """Note the outcome of a batch, and the plan that it ran."""
        # An instance that was failed did not run: its dead letters say nothing about its health now.
        untried = {slot.instance for slot in ran.slots if slot.state is SlotState.FAILED}
        # Nor does the health of a task before it was changed.
        untried |= self._changed_in(_tasks_of(ran))
        reasons = {dead.instance: dead.reason for dead in header.dead}
        killed = {dead.instance for dead in header.dead if is_verdict(dead.reason)}
        greedy = self._tails.after(header, ran, now)
        overspent = {dead.instance for dead in header.dead if is_overspent(dead.reason)} | greedy.too_long
        self._meters = header.meters or self._meters
        for instance in header.meters.keys() - untried:
            self._healths[instance] = after_batch(
                self._healths.get(instance, Health()),
                header.meters[instance],
                killed=instance in killed,
                overspent=instance in overspent,
                reason=GREEDY if instance in greedy.too_long else reasons.get(instance, ""),
                now=now,
            )
        for instance in greedy.behind - untried:
            if not (health := self._healths.get(instance, Health())).reason:
                self._healths[instance] = failed(health, GREEDY, now)

    def applied(self, plan: Plan) -> Plan:
        """A new plan, with the instances failed that are to be. A changed task is tried anew."""
        tasks = _tasks_of(plan)
        for instance in self._changed_in(tasks):
            self._healths.pop(instance, None)
        self._plan, self._tasks = plan, tasks
        return with_health(plan, self._healths)

    def _changed_in(self, tasks: Mapping[int, tuple[str, int, str]]) -> set[int]:
        return {instance for instance, task in tasks.items() if self._tasks.get(instance, task) != task}

    def following(self, plan: Plan, now: float) -> Plan | None:
        """The plan that has to follow the one in effect because an instance failed or is retried, if any."""
        known = {slot.instance for slot in plan.slots}
        self._healths = {
            instance: at_time(health, now) for instance, health in self._healths.items() if instance in known
        }
        following = renewed_plan(plan, self._healths)
        return None if following.slots == plan.slots else following

    def failed(self) -> dict[str, dict[str, object]]:
        """The instances that are failed, or retried with no event passed: why, when, and if for asking too much."""
        return {
            str(instance): {"reason": reason, "retry": health.retry, "greedy": _is_greedy(reason)}
            for instance, health in sorted(self._healths.items())
            if (reason := health.reason or health.doubt)
        }


def _is_greedy(reason: str) -> bool:
    """Whether a task was stopped for what it takes from others, and not because it fails."""
    return is_overspent(reason) or is_verdict(reason) or reason.startswith(_TOO_SLOW)


def _tasks_of(plan: Plan) -> dict[int, tuple[str, int, str]]:
    return {slot.instance: (slot.type, slot.version, slot.config) for slot in plan.slots}
