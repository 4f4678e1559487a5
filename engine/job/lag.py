"""Lag: how far a job is behind in the spools that it reads, in events and in seconds.

To look up when what waits has come would cost more than all else at a beat. So it is noted at each beat where the
spools end: what lies before an end came before that was noted. Only what waited when the job was started is looked up.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Lag(NamedTuple):
    """How far a job is behind in one stream; made by `JobLag`."""

    events: int
    """How many wait."""
    seconds: float
    """How long the oldest of them has been waiting, to a beat."""


class JobLag:
    """One job's, from one of its starts on; noted at each beat of its host."""

    def __init__(self, came: Callable[[str, int], float | None]) -> None:
        """`came` says when what lies at a position of a stream was spooled, if that can be told."""
        self._came = came
        self._noted: dict[str, deque[tuple[int, float]]] = {}
        """For each stream the ends beyond the job's position, with when they were noted first."""

    def note(self, ends: Mapping[str, int], positions: Mapping[str, int], now: float) -> dict[str, Lag]:
        """How far the job is behind, where its spools end there and it is at these positions by now."""
        for gone in self._noted.keys() - ends.keys():
            del self._noted[gone]
        return {stream: self._lag(stream, end, positions.get(stream, end), now) for stream, end in sorted(ends.items())}

    def _lag(self, stream: str, end: int, position: int, now: float) -> Lag:
        noted = self._noted.get(stream)
        if noted is None:
            noted = self._noted[stream] = deque()
            if position < end:
                noted.append((end, self._came(stream, position) or now))
        elif position < end and (not noted or noted[-1][0] != end):
            noted.append((end, now))
        while noted and noted[0][0] <= position:
            noted.popleft()
        return Lag(end - position, round(max(0.0, now - noted[0][1]), 1)) if noted else Lag(0, 0.0)
