"""Measurements of a service: the cores that it uses, by part, and the validity of a measurement window.

Cores come from two readings of the CPU time of its process tree. A service that is behind processes less than arrives,
so its cores do not show the cost of the work. There are three signs, in the service's figures of its jobs: events wait
too long, batches take too long, or events pile up.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from engine.host.cpu_meter import DRIVER, JVM, WORKER, Tree, look, part_below, spent_between
from manager.answers.jobs import JobAnswer
from manager.savings.counters import BROKER

MANAGER = "manager"
PARTS = (BROKER, DRIVER, JVM, WORKER, MANAGER)
_KEEPER, _HOST = "manager.process.keeper_process", "engine.machines.process"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresReading:
    """The CPU time used so far; made by `read_cores`."""

    at: float
    """The moment, by the clock of `time.monotonic`."""
    used: Tree


def read_cores(process: psutil.Process) -> CoresReading:
    """Read the CPU time of a service; `process` is its manager, with the broker and the host below it."""
    return CoresReading(at=time.monotonic(), used=look(process, MANAGER, _part))


def cores_between(begun: CoresReading, ended: CoresReading) -> Mapping[str, float]:
    """Mean cores by part between two readings."""
    spent = spent_between(begun.used, ended.used)
    return {part: spent.get(part, 0.0) / (ended.at - begun.at) for part in PARTS}


def _part(process: psutil.Process, parent: psutil.Process, above: str) -> str:
    """The part of a process, by its command and its parent."""
    if above != MANAGER:
        return part_below(process, parent, above)
    command = _command(process)
    if _HOST in command:
        return DRIVER
    return BROKER if _KEEPER not in command and _KEEPER in _command(parent) else MANAGER


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        # It has ended, but its parent has not noticed yet.
        return []


LATE = 3.0
"""Paces that an event may wait: until its batch begins, until that ends, and until the job reports it."""
LATE_AT_LEAST = 5.0
"""Seconds that it may wait at any pace, since the reports of jobs can be that old."""
DONE = 0.8
"""The part of the arrived events that must be processed."""


def why_behind(before: Sequence[JobAnswer], after: Sequence[JobAnswer], *, pace: float, seconds: float) -> str:
    """The reason to discard a window, by the jobs at its start and its end; empty if the window is valid."""
    lag, late = max(((job.lag_seconds or 0.0, job.job) for job in after), default=(0.0, ""))
    if lag > max(LATE * pace, LATE_AT_LEAST):
        return f"an event waited {lag:.0f} s for job {late}, at a pace of {pace:g} s"
    took, slow = max(((job.batch_seconds_p50 or 0.0, job.job) for job in after), default=(0.0, ""))
    if took > pace:
        return f"a batch of job {slow} took {took:.1f} s, at a pace of {pace:g} s"
    return _piling(before, after, pace, seconds)


def _piling(before: Sequence[JobAnswer], after: Sequence[JobAnswer], pace: float, seconds: float) -> str:
    """All jobs together; jobs have different batch times, so one pace's events more or less are allowed."""
    done = seconds * sum(job.events_in_per_second or 0.0 for job in after)
    piled = sum(job.lag_events or 0 for job in after) - sum(job.lag_events or 0 for job in before)
    due = done + max(0, piled)
    if piled <= 0 or done >= DONE * (due - due * pace / seconds):
        return ""
    return f"only {done:.0f} of {due:.0f} events were processed"
