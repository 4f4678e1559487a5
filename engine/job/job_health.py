"""The health of a job's instances, noted after each batch, and the plan that follows from it."""

from collections.abc import Mapping
from typing import NamedTuple

from engine.job.greedy_tails import GREEDY, GreedyTails
from engine.job.task_health import Health, after_batch, at_time, failed, failed_in, renewed_plan, with_health
from engine.kernel.task_bounds import is_overspent
from engine.kernel.watchdog import is_verdict
from engine.plan import Plan, SlotState
from engine.records.record import InstanceMeter
from engine.records.record_header import Header

_TOO_SLOW = "it is too slow for the stream"
"""How the reason of a task begins that was stopped because its job holds up a stream."""


class _TaskConfig(NamedTuple):
    type: str
    version: int
    config: str


class JobHealth:
    """The health of each instance of one job; called from its host's main thread."""

    def __init__(self, plan: Plan | None) -> None:
        self._healths: dict[int, Health] = failed_in(plan) if plan else {}
        self._meters: Mapping[int, InstanceMeter] = {}
        """Those of the last batch that took events."""
        self._tails = GreedyTails()
        self._plan = plan
        """The latest."""
        self._tasks: Mapping[int, _TaskConfig] = _tasks_of(plan) if plan else {}
        """The tasks of the latest plan."""

    def stop_costliest(self, stream: str, now: float) -> None:
        """Fail the instance that took most CPU lately in the part that is too slow for a stream; it is retried later.

        Other parts of the job wait for nothing there, whatever they take.
        """
        parts = self._plan.parts() if self._plan else ()
        reading = {each for part in parts if stream in part.streams for each in part.instances}
        running = {
            each: meter
            for each, meter in self._meters.items()
            if each in reading and not self._healths.get(each, Health()).reason
        }
        if running:
            costliest = max(running, key=lambda each: (running[each].cpu_ns, each))
            reason = f"{_TOO_SLOW} {stream}, which others wait for"
            self._healths[costliest] = failed(self._healths.get(costliest, Health()), reason, now)

    def note(self, header: Header, ran: Plan, now: float) -> None:
        """Note the outcome of a batch, and the plan that it ran."""
        # An instance that was failed did not run: its dead letters say nothing about its health now.
        untried = {slot.instance for slot in ran.slots if slot.state is SlotState.FAILED}
        # Nor does the health of a task before it was changed.
        untried |= {each for each, task in _tasks_of(ran).items() if self._tasks.get(each, task) != task}
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
        changed = {each for each, task in tasks.items() if self._tasks.get(each, task) != task}
        self._healths = {each: health for each, health in self._healths.items() if each not in changed}
        self._plan, self._tasks = plan, tasks
        return with_health(plan, self._healths)

    def following(self, plan: Plan, now: float) -> Plan | None:
        """The plan that has to follow the one in effect because an instance failed or is retried, if any."""
        self._healths = {instance: at_time(health, now) for instance, health in self._healths.items()}
        known = {slot.instance for slot in plan.slots}
        self._healths = {instance: health for instance, health in self._healths.items() if instance in known}
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


def _tasks_of(plan: Plan) -> dict[int, _TaskConfig]:
    return {slot.instance: _TaskConfig(slot.type, slot.version, slot.config) for slot in plan.slots}
