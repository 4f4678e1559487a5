"""Validity: whether a window counts, by what the service says of its jobs. Pure.

A service that falls behind does less than comes in, so its cores say nothing of what the work takes. Three things give
it away: events that wait too long, batches that take longer than they may, and events that pile up meanwhile.
"""

from collections.abc import Sequence

from manager.answers import JobAnswer

LATE = 3.0
"""Paces that an event may wait: one for its batch to begin, one for that to end, and one to be heard of."""
LATE_AT_LEAST = 5.0
"""Seconds that it may wait whatever the pace: what jobs tell of themselves is as old as that."""
DONE = 0.8
"""The part of the events that came which has to be done."""


def behind(before: Sequence[JobAnswer], after: Sequence[JobAnswer], *, pace: float, seconds: float) -> str:
    """Why a window does not count, by the jobs at its two ends, so many seconds apart; empty where it counts.

    The worst job is named where it is one that is late.
    """
    return _waiting(after, pace) or _slow(after, pace) or _piling(before, after, pace, seconds)


def _waiting(jobs: Sequence[JobAnswer], pace: float) -> str:
    latest = max(jobs, key=lambda job: job.lag_seconds or 0.0, default=None)
    lag = (latest.lag_seconds if latest else None) or 0.0
    if latest is None or lag <= max(LATE * pace, LATE_AT_LEAST):
        return ""
    return f"an event has waited {lag:.0f} s for job {latest.job}, at a pace of {pace:g} s"


def _slow(jobs: Sequence[JobAnswer], pace: float) -> str:
    slowest = max(jobs, key=lambda job: job.batch_seconds_p50 or 0.0, default=None)
    took = (slowest.batch_seconds_p50 if slowest else None) or 0.0
    if slowest is None or took <= pace:
        return ""
    return f"a batch of job {slowest.job} takes {took:.1f} s, at a pace of {pace:g} s"


def _piling(before: Sequence[JobAnswer], after: Sequence[JobAnswer], pace: float, seconds: float) -> str:
    """Of all jobs together, as each begins its batches when it likes; so one pace's events more or less are chance."""
    done = seconds * sum(job.events_in_per_second or 0.0 for job in after)
    piled = sum(job.lag_events or 0 for job in after) - sum(job.lag_events or 0 for job in before)
    due = done + max(0, piled)
    if piled <= 0 or done >= DONE * (due - due * pace / seconds):
        return ""
    return f"of {due:.0f} events that came {done:.0f} were done"
