"""The turns of reconfigurations: the next step of each, a pure function of the observed jobs; and how it is taken.

Reconfigurations: the next step of each, a pure function of the observed jobs. `manager.kernel.transitions` has the
table.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from manager.jobs.decisions import has_taken_up
from manager.kernel.older_events import NO_CLEARANCES, Clearance, Clearances, Wish, may_wish, wishes_for
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent
from manager.kernel.wanted import Reconfiguring
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from merge import JobId

PREPARED_WITHIN = 60.0
"""Seconds until the jobs that wait for markers must have logged their plans."""
PROVEN_AFTER = 20.0
"""Seconds for which changed tasks are watched; longer while events from before the switch are on their way to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationTurn:
    """An event in the life of a reconfiguration, for the committer; made by `reconfigure`."""

    reconfiguration: Reconfiguration
    event: TransitionEvent
    why: str = ""


def reconfigure(
    under_way: Iterable[Reconfiguring],
    sight: Sight,
    wished: Mapping[str, float],
    now: float,
    clearances: Clearances = NO_CLEARANCES,
) -> Iterator[Wish | ReconfigurationTurn]:
    """Yield the wishes for markers in sources, and the turns of reconfigurations."""
    alive = [host for _, host in sorted(sight.hosts.items()) if host.alive]
    for each in under_way:
        it = each.reconfiguration
        if (turn := _queue_turn(each) or _turn(each, sight, now, clearances.get(it.id))) is not None:
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


def _turn(each: Reconfiguring, sight: Sight, now: float, clearance: Clearance) -> ReconfigurationTurn | None:
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
        case Phase.PROVING | Phase.REVERTED:
            is_young = now - it.since <= PROVEN_AFTER
            is_past = clearance.is_clear or each.below <= clearance.past.keys()
            if (is_young or not is_past) and (why := _failure(it, seen)) is not None:
                return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.FAILED, why=why)
            if clearance.is_clear and not is_young:
                return ReconfigurationTurn(reconfiguration=it, event=TransitionEvent.PROVEN)
    return None


def _failure(it: Reconfiguration, seen: Mapping[JobId, JobSeen | None]) -> str | None:
    """Why a reconfiguration is to be undone, if it may be: a task that it changed, or one below, fails."""
    if it.phase is not Phase.PROVING or it.undoes is not None or it.outcome:
        return None
    failed = {task: why for job in seen.values() if job is not None for task, why in job.failed.items()}
    broken = sorted(it.watched & failed.keys())
    return f"a task fails since: {failed[broken[0]]}" if broken else None


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


log = logging.getLogger("braid.reconciler")


class ReconfigurationKeeper(Protocol):
    """The reconfigurations under way; the committer, or a test."""

    def under_way(self) -> Iterable[Reconfiguring]:
        """Return the reconfigurations under way."""

    def proceed(self, reconfiguration: int) -> None:
        """Begin one that has waited: nothing is in its way any more."""

    def interrupt(self, reconfiguration: int) -> None:
        """Have one wait again that a manager prepared which is gone."""

    def switch(self, reconfiguration: int) -> None:
        """Let the heads switch: all that wait are prepared."""

    def prove(self, reconfiguration: int) -> None:
        """Note that all jobs run the new plans."""

    def end(self, reconfiguration: int) -> None:
        """End a reconfiguration that has proven itself."""

    def give_up(self, reconfiguration: int, *, why: str) -> None:
        """Abandon a reconfiguration that waits or is only prepared."""

    def revert(self, reconfiguration: int, *, why: str) -> None:
        """Undo a reconfiguration whose changed tasks fail."""


def take_turn(reconfigurations: ReconfigurationKeeper, turn: ReconfigurationTurn) -> None:
    """Take a reconfiguration on by one event in its life."""
    number = turn.reconfiguration.id
    log.info("the reconfiguration %d: %s%s", number, turn.event, f", because {turn.why}" if turn.why else "")
    match turn.event:
        case TransitionEvent.CLEARED:
            reconfigurations.proceed(number)
        case TransitionEvent.INTERRUPTED:
            reconfigurations.interrupt(number)
        case TransitionEvent.READY:
            reconfigurations.switch(number)
        case TransitionEvent.BEGUN:
            reconfigurations.prove(number)
        case TransitionEvent.PROVEN:
            reconfigurations.end(number)
        case TransitionEvent.HINDERED:
            reconfigurations.give_up(number, why=turn.why)
        case TransitionEvent.FAILED:
            reconfigurations.revert(number, why=turn.why)
