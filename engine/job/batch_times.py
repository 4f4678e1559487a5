"""Batch times: how long the latest batches of a job took, from when their ends were known until the next was asked for.

That is all that a batch costs its job: what Spark does around it, and what the kernel does.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

_WINDOW = 60.0
"""Seconds for which a batch counts."""
_MOST = 600
"""Batches that count at most, the latest."""


class BatchTimes:
    """Of one job; whoever keeps its pace tells when a batch begins and ends, in one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        # Any thread may ask: a deque that is copied holds what it held.
        self._taken: deque[tuple[float, float]] = deque(maxlen=_MOST)
        """When each ended, and the seconds that it took."""

    def begin(self) -> None:
        """A batch begins."""
        self._begun = self._clock()

    def end(self) -> None:
        """The batch is done, if there was one."""
        if self._begun is not None:
            now = self._clock()
            self._taken.append((now, now - self._begun))
            self._begun = None

    def told(self) -> dict[str, float]:
        """The median and the 99th percentile of the latest; nothing where there was none."""
        since = self._clock() - _WINDOW
        taken = sorted(seconds for ended, seconds in self._taken.copy() if ended >= since)
        return {name: round(percentile(taken, part), 4) for name, part in (("p50", 0.5), ("p99", 0.99)) if taken}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of all does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
