"""Counts of answered requests, by route and status, with their durations."""

from collections.abc import Iterator
from itertools import chain

from prometheus_client import Counter, Histogram
from prometheus_client import Metric as Family

from manager.metrics.catalogue import REQUEST_SECONDS, REQUESTS

_BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""The buckets in seconds; few, because each makes a series for each route."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER = "other"
"""The label for unknown methods and paths, which clients can make up without limit."""


class RequestCounts:
    """Counts requests of one app. Thread-safe."""

    def __init__(self) -> None:
        # Without a registry, so that each app has its own counters.
        self._answers = Counter(REQUESTS.name, REQUESTS.about, REQUESTS.labels, registry=None)
        self._seconds = Histogram(
            REQUEST_SECONDS.name, REQUEST_SECONDS.about, REQUEST_SECONDS.labels, registry=None, buckets=_BOUNDS
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count an answered request; the route is a path with parameters in braces, None for an unknown path."""
        path = route or _OTHER
        self._answers.labels(method if method in _METHODS else _OTHER, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        for family in chain(self._answers.collect(), self._seconds.collect()):
            # The times of creation would double the number of samples.
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
