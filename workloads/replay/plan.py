"""The plan of a live replay, as data: its settings, its measured steps, and its approximate duration. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.traces.trace_file import Action, Trace
from workloads.way import Way

STARTING = 13.0
"""Approximate seconds that a service takes to start."""
STOPPING = 5.0
"""Approximate seconds that it takes to end."""
OPENING = 1.3
"""Approximate seconds that a new job takes to start; jobs start one after the other."""
COMMITTING = 0.2
"""Approximate seconds of a step that the replay does not wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The speed of a replay and its measurements."""

    pace: float = 1.0
    """Seconds from one batch of a job to the next."""
    windows: int = 3
    """Windows at each measured step."""
    window: float = 10.0
    """Seconds of each window."""
    settle: float = 2.0
    """Paces between the end of a step and its first window. A job runs a batch as soon as it has a new plan, and one
    in each pace from then on."""
    points: int | None = None
    """The number of measured steps, spread over the trace; None for all."""
    hurry: bool = False
    """Wait only for measured steps, and just commit the others."""
    speed: float = 1.0
    """The factor on the speed of a trace with times."""
    tenants: int = 5
    """The number of tenants that submit the dataflows."""

    @property
    def settling(self) -> float:
        """Seconds between the end of a step and its first window."""
        return self.settle * self.pace

    @property
    def measuring(self) -> float:
        """Seconds for the measurements of a step."""
        return self.settling + self.windows * self.window


def measured_steps(trace: Trace, points: int | None) -> frozenset[int]:
    """The measured steps: they cut the trace into equal parts.

    After the last step nothing runs any more, so it is measured only if all steps are.

    >>> from workloads.traces.sequential import sequential
    >>> sorted(measured_steps(sequential("w", ["a", "b", "c", "d"], 1), 3))
    [1, 3, 5]
    """
    many = len(trace.steps)
    if points is None or points >= many:
        return frozenset(range(many))
    return frozenset(round(many * (number + 1) / (points + 1)) - 1 for number in range(points))


def awaited_steps(trace: Trace, pacing: Pacing) -> frozenset[int]:
    """The steps whose effect the replay waits for."""
    return measured_steps(trace, pacing.points) if pacing.hurry else frozenset(range(len(trace.steps)))


def seconds_of(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> tuple[float, ...]:
    """The approximate seconds of each step, for progress bars and budgets."""
    measured, awaited = measured_steps(trace, pacing.points), awaited_steps(trace, pacing)
    moves = sum(each.defragment == "step" for each in ways)
    found: list[float] = []
    opened = 0
    for number, step in enumerate(trace.steps):
        took = COMMITTING * len(ways)
        if step.action is Action.SUBMIT:
            # Packed dataflows rarely start a job.
            opened += sum(each.placement != "pack" for each in ways)
        if number in awaited:
            took += pacing.pace + OPENING * opened + pacing.pace * moves
            opened = 0
        if number in measured:
            took += pacing.measuring
        found.append(took)
    return tuple(found)


def total_seconds(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> float:
    """The approximate seconds of a replay."""
    return sum(seconds_of(trace, pacing, ways)) + len(ways) * (STARTING + STOPPING)
