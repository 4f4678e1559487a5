"""The healths of a job's instances: what its host notes of each batch, and which plan follows from it."""

from engine.job.task_health import Health, noted, overlaid, recalled, renewed, retried
from engine.kernel.watchdog import is_verdict
from engine.plan import Plan, SlotState
from engine.records.record_file import Header


class JobHealth:
    """Who fares how in one job; called from its host's main thread."""

    def __init__(self, plan: Plan | None) -> None:
        self._healths: dict[int, Health] = recalled(plan) if plan else {}

    def note(self, header: Header, ran: Plan, now: float) -> None:
        """Note how a batch went, and with which plan it ran."""
        # One that was failed then was not tried: its dead letters say nothing of how it would fare now.
        untried = {slot.instance for slot in ran.slots if slot.state is SlotState.FAILED}
        reasons = {dead.instance: dead.reason for dead in header.dead}
        killed = {dead.instance for dead in header.dead if is_verdict(dead.reason)}
        for instance in header.meters.keys() - untried:
            self._healths[instance] = noted(
                self._healths.get(instance, Health()),
                header.meters[instance],
                killed=instance in killed,
                reason=reasons.get(instance, ""),
                now=now,
            )

    def applied(self, plan: Plan) -> Plan:
        """A new plan as it has to be logged."""
        return overlaid(plan, self._healths)

    def following(self, plan: Plan, now: float) -> Plan | None:
        """The plan that has to follow the one in effect, if any, because somebody failed or is tried again."""
        self._healths = {instance: retried(health, now) for instance, health in self._healths.items()}
        known = {slot.instance for slot in plan.slots}
        self._healths = {instance: health for instance, health in self._healths.items() if instance in known}
        following = renewed(plan, self._healths)
        return None if following.slots == plan.slots else following

    def failed(self) -> dict[str, dict[str, object]]:
        """Who is failed, why, and when it is tried again."""
        return {
            str(instance): {"reason": health.reason, "retry": health.retry}
            for instance, health in sorted(self._healths.items())
            if health.reason
        }
