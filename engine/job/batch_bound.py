"""The bound of a batch: the bytes that a job works off within a while, by how long its recent batches took.

A switch to another plan happens between two batches, so no batch may take long, even while a backlog is worked off. But
a part of its time goes to every batch, however small. Where that part alone takes longer than the while, as on a busy
cluster, smaller batches would help nobody, and each would be smaller than the last. So batches of different sizes are
compared: what the larger one took longer is the time of its bytes.
"""

from collections import deque

from engine.plan import SHORTEST_BOUND

_UNKNOWN = 64_000
"""The bytes of the first batch, of which nothing is known."""
_LEAST = 2_000
"""The bytes that any batch may have, so that batches of one event do not hide what more of them would take."""
_REMEMBERED = 8
"""The batches that are compared."""
_LATEST = 3
"""The batches that count alone. The quickest of them decides, so one that was held up does not."""
_COMPARABLE = 2
"""The least ratio of two sizes that are compared, and the most by which a bound found so grows at once."""


class BatchBound:
    """The bound of one job's batches; called by its pace keeper, in one thread at a time.

    >>> bound = BatchBound()
    >>> bound.note(size=1_000, seconds=1.0)
    >>> bound.most_bytes(pace=1.0)
    2000
    >>> bound.note(size=2_000, seconds=1.1)
    >>> bound.most_bytes(pace=1.0)
    4000
    """

    def __init__(self) -> None:
        self._recent = deque[tuple[int, float]](maxlen=_REMEMBERED)
        """Bytes and seconds."""

    def note(self, *, size: int, seconds: float) -> None:
        """Note how long a batch of so many bytes took, all that Spark does included."""
        if size > 0 and seconds > 0:
            self._recent.append((size, seconds))

    def most_bytes(self, *, pace: float) -> int:
        """The bytes that take no longer than a pace, or than half a second if that is more."""
        if not self._recent:
            return _UNKNOWN
        seconds = max(pace, SHORTEST_BOUND)
        quickest = max(size / took for size, took in list(self._recent)[-_LATEST:])
        return max(_LEAST, int(seconds * quickest), self._by_comparison(seconds))

    def _by_comparison(self, seconds: float) -> int:
        """The bytes that take so long beside what any batch takes; 0 if no two sizes can be compared."""
        small, large = min(self._recent), max(self._recent)
        if large[0] < _COMPARABLE * small[0]:
            return 0
        most = _COMPARABLE * large[0]
        longer = large[1] - small[1]
        return most if longer <= 0 else min(most, int(seconds * (large[0] - small[0]) / longer))
