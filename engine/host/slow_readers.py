"""Slow readers: jobs that alone hold up a stream that others read too.

A spool that is full takes nothing more, so a job that cannot keep up would in the end keep the events from every other
reader. If it is the only one that is so far behind, the costliest of the tasks that the stream reaches is stopped, and
the job works off the rest untried.
"""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

HELD_UP = 60.0
"""Seconds for which it has to be so."""
_FARTHER = 2
"""How much farther behind it has to be than any other reader."""


class Stoppable(Protocol):
    """The health of a job, as far as it can be stopped for its slowness."""

    def stop_costliest(self, stream: str, now: float) -> None:
        """Fail the instance that takes most of those that a stream reaches."""


def holding_up(end: int, positions: Mapping[str, int]) -> str | None:
    """The one reader that holds up a full spool, by the positions that all have come to; None if there is none.

    >>> holding_up(100, {"slow": 10, "quick": 95}), holding_up(100, {"slow": 10, "slow too": 20})
    ('slow', None)
    """
    behind = sorted((end - position, name) for name, position in positions.items())
    if len(behind) <= 1 or behind[-1][0] <= _FARTHER * behind[-2][0]:
        return None
    return behind[-1][1]


class SlowReaders:
    """The slow readers of the streams of one host; looked for at its beats."""

    def __init__(
        self,
        full: Callable[[], Mapping[str, int]],
        positions: Callable[[str], Mapping[str, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`full` gives the end of each full spool, `positions` those of the consumers of a stream."""
        self._full = full
        self._positions = positions
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}

    def found(self) -> dict[str, str]:
        """The jobs that have held up a stream for long enough, with the streams; each counts anew from then on."""
        now = self._clock()
        holding = {
            (job, stream)
            for stream, end in self._full().items()
            if (job := holding_up(end, self._positions(stream))) is not None
        }
        self._since = {each: self._since.get(each, now) for each in holding}
        due = {each for each, since in self._since.items() if now - since >= HELD_UP}
        for each in due:
            del self._since[each]
        return dict(sorted(due))

    def stop(self, jobs: Mapping[str, Stoppable], now: float) -> None:
        """Have those of a host's jobs fail their costliest tasks, each with the reason."""
        for job, stream in self.found().items():
            if job in jobs:
                jobs[job].stop_costliest(stream, now)
