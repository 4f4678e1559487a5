"""Reconfigurations: the next step of each, a pure function of the observed jobs.

`manager.kernel.transitions` has the table.
"""

from collections.abc import Iterable, Iterator, Mapping

from manager.jobs.decisions import has_taken_up
from manager.kernel.older_events import NO_CLEARANCES, Clearance, Clearances, Wish, Wishing
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent, Turn
from manager.kernel.wanted import Reconfiguring
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from merge import JobId

PREPARED_WITHIN = 60.0
"""Seconds until the jobs that wait for markers must have logged their plans."""
PROVEN_AFTER = 20.0
"""Seconds for which changed tasks are watched; longer while events from before the switch are on their way to them."""


def reconfigure(
    under_way: Iterable[Reconfiguring],
    sight: Sight,
    wished: Mapping[str, float],
    now: float,
    clearances: Clearances = NO_CLEARANCES,
) -> Iterator[Wish | Turn]:
    """Yield the wishes for markers in sources, and the turns of reconfigurations."""
    wishing = Wishing(sight.hosts, wished, now)
    for transition in under_way:
        reconfiguration = transition.reconfiguration
        if (turn := _turn(transition, sight, now, clearances.get(reconfiguration.id))) is not None:
            yield turn
        elif reconfiguration.phase is Phase.SWITCHING:
            yield from wishing.take(reconfiguration.marker, transition.streams)


def _turn(reconfiguring: Reconfiguring, sight: Sight, now: float, clearance: Clearance) -> Turn | None:
    reconfiguration, why = reconfiguring.reconfiguration, ""
    event: TransitionEvent | None = None
    seen = {job: sight.jobs.get(str(job), JobSight()).seen for job in reconfiguration.jobs}
    match reconfiguration.phase:
        case Phase.WAITING if not reconfiguring.waits:
            event = TransitionEvent.CLEARED
        case Phase.PREPARING if reconfiguration.prepared is None:
            # Who has prepared it is not there any more.
            event = TransitionEvent.INTERRUPTED
        case Phase.PREPARING:
            if why := _hindrance(reconfiguration, seen, now):
                event = TransitionEvent.HINDERED
            elif all(has_taken_up(seen[job], reconfiguring.plans[job]) for job in reconfiguration.awaiting):
                event = TransitionEvent.READY
        case Phase.SWITCHING if all(_runs(reconfiguring, job, seen[job]) for job in reconfiguration.jobs):
            event = TransitionEvent.BEGUN
        case Phase.PROVING | Phase.REVERTED:
            is_young = now - reconfiguration.since <= PROVEN_AFTER
            is_past = clearance.is_clear or reconfiguring.below <= clearance.past.keys()
            if (is_young or not is_past) and (why := _failure(reconfiguration, seen)):
                event = TransitionEvent.FAILED
            elif clearance.is_clear and not is_young:
                event = TransitionEvent.PROVEN
    return None if event is None else Turn(reconfiguration, event, why)


def _failure(reconfiguration: Reconfiguration, seen: Mapping[JobId, JobSeen | None]) -> str:
    """Why a reconfiguration is to be undone, if it may be: a task that it changed, or one below, fails."""
    if reconfiguration.phase is not Phase.PROVING or reconfiguration.undoes is not None or reconfiguration.outcome:
        return ""
    failed = {task: why for job in seen.values() if job is not None for task, why in job.failed.items()}
    broken = sorted(reconfiguration.watched & failed.keys())
    return f"a task fails since: {failed[broken[0]]}" if broken else ""


def _hindrance(reconfiguration: Reconfiguration, seen: Mapping[JobId, JobSeen | None], now: float) -> str:
    for job in sorted(reconfiguration.awaiting):
        if (report := seen[job]) is not None and report.refused:
            return f"job {job} refused: {report.refused}"
    return (
        f"the jobs were not ready within {PREPARED_WITHIN:.0f} s"
        if now - reconfiguration.since > PREPARED_WITHIN
        else ""
    )


def _runs(reconfiguring: Reconfiguring, job: JobId, seen: JobSeen | None) -> bool:
    plan = reconfiguring.plans.get(job)
    # A job that was stopped has nothing to run.
    return plan is None or (seen is not None and has_taken_up(seen, plan) and seen.in_effect >= plan.version)
