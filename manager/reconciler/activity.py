"""The activity of a reconciler since its start, for metrics and the overview."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

DELAY_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, math.inf)
"""The most seconds of each class of delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays, counted by class."""

    counts: tuple[int, ...] = (0,) * len(DELAY_BOUNDS)
    seconds: float = 0.0
    """In sum."""

    def plus(self, seconds: float) -> "Delays":
        """These, and one more.

        >>> Delays().plus(0.25).plus(0.3).counts[:4]
        (0, 1, 1, 0)
        """
        at = bisect_left(DELAY_BOUNDS, seconds)
        return Delays(
            counts=(*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :]), seconds=self.seconds + seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerActivity:
    """Counts of a reconciler's work; made by the reconciler on demand."""

    connected: bool
    """The broker is connected, and all its retained messages have arrived."""
    unread: int
    """Messages that could not be read."""
    looks: int
    failures: int
    """Looks that failed."""
    steps: Mapping[str, int]
    """Instructions sent to hosts, by kind."""
    turns: Mapping[str, int]
    """Events in the life of moves, by kind."""
    reconfigurations: Mapping[str, int]
    """Events in the life of reconfigurations, by kind."""
    reconfiguration_delays: Delays
    """Seconds from the requests of reconfigurations until all their jobs had switched."""
    dataflows: Mapping[str, int]
    """Dataflows in each state, as of the last look."""
