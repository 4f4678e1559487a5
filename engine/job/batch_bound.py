"""The bound of a batch: the bytes that a job works off within a while, by how long its recent batches took.

A switch to another plan happens between two batches, so no batch may take long, even while a backlog is worked off.
"""

from collections import deque

SHORTEST_BOUND = 0.5
"""Seconds that a batch may take if the pace is less."""
_UNKNOWN = 64_000
"""The bytes of the first batch, of which nothing is known."""
_REMEMBERED = 3
"""The batches that count. The quickest of them decides, so one that was held up does not."""


class BatchBound:
    """The bound of one job's batches; called by its pace keeper, in one thread at a time.

    >>> bound = BatchBound()
    >>> bound.note(size=1_000, seconds=0.1)
    >>> bound.most_bytes(pace=1.0)
    10000
    """

    def __init__(self) -> None:
        self._per_byte = deque[float](maxlen=_REMEMBERED)

    def note(self, *, size: int, seconds: float) -> None:
        """Note how long a batch of so many bytes took, all that Spark does included."""
        if size > 0 and seconds > 0:
            self._per_byte.append(seconds / size)

    def most_bytes(self, *, pace: float) -> int:
        """The bytes that take no longer than a pace, or than half a second if that is more."""
        if not self._per_byte:
            return _UNKNOWN
        return max(1, int(max(pace, SHORTEST_BOUND) / min(self._per_byte)))
