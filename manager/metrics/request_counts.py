"""RequestCounts: how many requests REST has answered, how, and how soon; one for each app."""

from collections.abc import Iterator
from itertools import chain

from prometheus_client import Counter, Histogram
from prometheus_client import Metric as Family

from manager.metrics.catalogue import REQUEST_SECONDS, REQUESTS

BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""In seconds. Few, because each is a series for each route."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER = "other"
"""In the place of what anybody may make up: a method, or a path that leads nowhere."""


class RequestCounts:
    """Counts requests; any thread may."""

    def __init__(self) -> None:
        # In no registry, so that each app has its own.
        self._answers = Counter(REQUESTS.name, REQUESTS.about, REQUESTS.labels, registry=None)
        self._seconds = Histogram(
            REQUEST_SECONDS.name, REQUEST_SECONDS.about, REQUEST_SECONDS.labels, registry=None, buckets=BOUNDS
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request was answered; the route is a path with its parameters in braces, None where it leads nowhere."""
        path = route or _OTHER
        self._answers.labels(method if method in METHODS else _OTHER, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def families(self) -> Iterator[Family]:
        """What was counted."""
        for family in chain(self._answers.collect(), self._seconds.collect()):
            # When each began to be counted would be as many samples once more, which nobody asks for.
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
