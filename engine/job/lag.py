"""The lag of a job: how far it is behind in the spools that it reads, in events and in seconds.

To look up when the waiting events came would cost more than everything else at a beat. So the ends of the spools are
noted at each beat: what lies before an end came before that beat. Only what waited when the job was started is looked
up.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Lag(NamedTuple):
    """The lag in one stream."""

    events: int
    """The number of events that wait."""
    seconds: float
    """The time for which the oldest of them has been waiting, rounded to a beat."""


class JobLag:
    """The lag since one start of a job; noted at each beat of its host."""

    def __init__(self, spooled_at: Callable[[str, int], float | None]) -> None:
        """`spooled_at` says when the item at a position of a stream was spooled; None if that is unknown."""
        self._spooled_at = spooled_at
        self._noted: dict[str, deque[tuple[int, float]]] = {}
        """For each stream the ends beyond the job's position, each with when it was noted first."""

    def note(self, ends: Mapping[str, int], positions: Mapping[str, int], now: float) -> dict[str, Lag]:
        """The lag in each stream, by the ends of the spools and the positions that the job has come to."""
        for gone in self._noted.keys() - ends.keys():
            del self._noted[gone]
        return {stream: self._lag(stream, end, positions.get(stream, end), now) for stream, end in sorted(ends.items())}

    def _lag(self, stream: str, end: int, position: int, now: float) -> Lag:
        noted = self._noted.get(stream)
        if noted is None:
            noted = self._noted[stream] = deque()
            if position < end:
                noted.append((end, self._spooled_at(stream, position) or now))
        elif position < end and (not noted or noted[-1][0] != end):
            noted.append((end, now))
        while noted and noted[0][0] <= position:
            noted.popleft()
        return Lag(end - position, round(max(0.0, now - noted[0][1]), 1)) if noted else Lag(0, 0.0)
