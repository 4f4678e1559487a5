"""Reconfigurations: the next step of each, a pure function of the observed jobs.

`manager.transitions.life` has the table.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from manager.committed.wanted import Reconfiguring
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from manager.reconciler.drains import Wish, may_wish, wishes_for
from manager.reconciler.job_decisions import has_taken_up
from manager.transitions.life import Phase, TransitionEvent
from manager.transitions.reconfiguration import Reconfiguration
from merge import JobId

PREPARED_WITHIN = 60.0
"""Seconds until the jobs that wait for markers must have logged their plans."""
PROVEN_AFTER = 20.0
"""Seconds for which changed tasks are watched. It takes longer while events from before the switch are under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationTurn:
    """An event in the life of a reconfiguration, for the committer; made by `reconfigure`."""

    reconfiguration: Reconfiguration
    event: TransitionEvent
    why: str = ""


def reconfigure(
    under_way: Iterable[Reconfiguring], sight: Sight, wished: Mapping[str, float], now: float
) -> Iterator[Wish | ReconfigurationTurn]:
    """Yield the wishes for markers in sources, and the turns of reconfigurations."""
    alive = [host for _, host in sorted(sight.hosts.items()) if host.alive]
    for each in under_way:
        it = each.reconfiguration
        if (turn := _queue_turn(each) or _turn(each, sight, now)) is not None:
            yield turn
        elif it.phase is Phase.SWITCHING and each.streams and may_wish(it.marker, wished, now):
            yield from wishes_for(it.marker, each.streams, alive)


def _queue_turn(each: Reconfiguring) -> ReconfigurationTurn | None:
    """The turn of one that waits, or that nobody has prepared who is still there; whatever is seen of jobs."""
    match each.reconfiguration.phase:
        case Phase.WAITING if not each.waits:
            event = TransitionEvent.CLEARED
        case Phase.PREPARING if each.reconfiguration.prepared is None:
            event = TransitionEvent.INTERRUPTED
        case _:
            return None
    return ReconfigurationTurn(reconfiguration=each.reconfiguration, event=event)


def _turn(each: Reconfiguring, sight: Sight, now: float) -> ReconfigurationTurn | None:
    it = each.reconfiguration
    seen = {job: sight.jobs.get(str(job), JobSight()).seen for job in it.jobs}
    match it.phase:
        case Phase.PREPARING:
            if (why := _hindrance(each, seen, now)) is not None:
                return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.HINDERED, why=why)
            if all(has_taken_up(seen[job], each.plans[job]) for job in it.awaiting):
                return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.READY)
        case Phase.SWITCHING if all(_runs(each, job, seen[job]) for job in it.jobs):
            return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.BEGUN)
        case Phase.PROVING:
            failed = {task: why for job in seen.values() if job is not None for task, why in job.failed.items()}
            if it.undoes is None and (broken := sorted(it.watched & failed.keys())):
                return ReconfigurationTurn(
                    reconfiguration=it, event=TransitionEvent.FAILED, why=f"a task fails since: {failed[broken[0]]}"
                )
            if now - it.since > PROVEN_AFTER and _oldest(each, sight) < now - it.since:
                return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.PROVEN)
    return None


def _oldest(each: Reconfiguring, sight: Sight) -> float:
    """The age of the oldest event that a job of it has still to read, in seconds."""
    reports = (sight.jobs.get(str(job), JobSight()).seen for job in each.below)
    newest = (seen.measured[-1] for seen in reports if seen is not None and seen.measured)
    return max((stream.lag_seconds for last in newest for stream in last.streams.values()), default=0.0)


def _hindrance(each: Reconfiguring, seen: Mapping[JobId, JobSeen | None], now: float) -> str | None:
    it = each.reconfiguration
    for job in sorted(it.awaiting):
        report = seen[job]
        if report is not None and report.refused:
            return f"job {job} refused: {report.refused}"
    if now - it.since > PREPARED_WITHIN:
        return f"the jobs were not ready within {PREPARED_WITHIN:.0f} s"
    return None


def _runs(each: Reconfiguring, job: JobId, seen: JobSeen | None) -> bool:
    plan = each.plans.get(job)
    # A job that was stopped has nothing to run.
    return plan is None or (seen is not None and has_taken_up(seen, plan) and seen.in_effect >= plan.version)
