"""The plan of a live replay, as data: its settings, what is measured when, and how long it takes, about. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.traces.trace_file import Action, Trace
from workloads.way import Way

STARTING = 13.0
"""Seconds that a service takes to start, about."""
STOPPING = 5.0
"""Seconds that it takes to end, about."""
OPENING = 1.3
"""Seconds that a new job takes to start, about; they start one after the other."""
COMMITTING = 0.2
"""Seconds that a step takes which nobody waits for, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How fast a replay goes, and what it measures."""

    pace: float = 1.0
    """Seconds from one batch of a job to the next."""
    windows: int = 3
    """How often is measured at a measured step."""
    window: float = 10.0
    """Seconds of each."""
    settle: float = 2.0
    """Paces from when all runs to the first window. A job runs a batch as soon as it has a new plan, and has its rhythm
    again one and a half paces after that; windows that begin half a pace after it hold as much work on average."""
    points: int | None = None
    """At how many steps is measured, spread over the trace; at all where None."""
    hurry: bool = False
    """Whether only measured steps are waited for, and the others just committed."""
    speed: float = 1.0
    """How much faster than it says a trace with times is replayed."""
    tenants: int = 5
    """Among how many the dataflows are spread."""

    @property
    def settling(self) -> float:
        """Seconds from when all runs to the first window."""
        return self.settle * self.pace

    @property
    def measuring(self) -> float:
        """Seconds that a measured step takes once all runs."""
        return self.settling + self.windows * self.window


def measured_steps(trace: Trace, points: int | None) -> frozenset[int]:
    """At which steps is measured: evenly spread over the trace, each at the end of its part but the last.

    After the last step nothing runs any more, so it is among them only where all are.

    >>> from workloads.traces.random_walk import sequential
    >>> sorted(measured_steps(sequential("w", ["a", "b", "c", "d"], 1), 3))
    [1, 3, 5]
    """
    many = len(trace.steps)
    if points is None or points >= many:
        return frozenset(range(many))
    return frozenset(round(many * (number + 1) / (points + 1)) - 1 for number in range(points))


def awaited_steps(trace: Trace, pacing: Pacing) -> frozenset[int]:
    """After which steps is waited until all runs, or is gone."""
    return measured_steps(trace, pacing.points) if pacing.hurry else frozenset(range(len(trace.steps)))


def seconds_of(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> tuple[float, ...]:
    """How long each step takes, about; for a bar that shows the time left, and for budgets."""
    measured, awaited = measured_steps(trace, pacing.points), awaited_steps(trace, pacing)
    moves = sum(each.defragment == "step" for each in ways)
    found: list[float] = []
    opened = 0
    for number, step in enumerate(trace.steps):
        took = COMMITTING * len(ways)
        if step.action is Action.SUBMIT:
            # Packed dataflows mostly open none.
            opened += sum(each.placement != "pack" for each in ways)
        if number in awaited:
            took += pacing.pace + OPENING * opened + pacing.pace * moves
            opened = 0
        if number in measured:
            took += pacing.measuring
        found.append(took)
    return tuple(found)


def total_seconds(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> float:
    """How long a replay takes in all, about."""
    return sum(seconds_of(trace, pacing, ways)) + len(ways) * (STARTING + STOPPING)
