"""The times of a job's latest batches, each from when its end was known until Spark asked for the next.

So a time covers all that a batch takes: the work of Spark around it, and that of the kernel.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

_WINDOW = 60.0
"""Seconds for which a batch counts."""
_MOST = 600
"""The most batches that count, the latest."""


class BatchTimes:
    """The batch times of one job; its pace keeper calls `begin` and `end`, in one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        # Any thread may read it: a copy of a deque is consistent.
        self._taken: deque[tuple[float, float]] = deque(maxlen=_MOST)
        """For each batch when it ended, and the seconds that it took."""

    def begin(self) -> None:
        """Note that a batch begins."""
        self._begun = self._clock()

    def end(self) -> None:
        """Note that the batch is done, if there was one."""
        if self._begun is not None:
            now = self._clock()
            self._taken.append((now, now - self._begun))
            self._begun = None

    def percentiles(self) -> dict[str, float]:
        """The median and the 99th percentile in seconds; empty if there was no batch."""
        since = self._clock() - _WINDOW
        taken = sorted(seconds for ended, seconds in self._taken.copy() if ended >= since)
        return {name: round(percentile(taken, part), 4) for name, part in (("p50", 0.5), ("p99", 0.99)) if taken}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that the given part of all does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
