"""Latencies of a job: the time from when Braid received an event until the broker had the output that it caused.

They are counted in buckets, each a twentieth wider than the one before, so that neither many outputs nor many events
cost memory or time. A bucket counts as its upper bound: a reported latency is at most a twentieth too high, and never
too low.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from bridge.wire import UNKNOWN_BIRTH, Birth

_WINDOW = 60.0
"""Seconds for which an output counts, rounded to a span."""
SPAN = 10.0
"""Seconds that are counted together."""
_LEAST = 0.001
"""The shortest latency in seconds that is reported; clocks of hosts differ by about as much."""
_GROWTH = math.log(1.05)

Percentiles = Mapping[str, float]
"""The median (`p50`) and the 99th percentile (`p99`) in seconds; empty if nothing was counted."""


class DataflowOutput(NamedTuple):
    """An output of a dataflow; messages on a task's own topics have neither name."""

    dataflow: str = ""
    sink: str = ""


class LatencyReport(NamedTuple):
    """The latencies of the latest outputs; made by `Latencies`."""

    all: Percentiles
    outputs: Mapping[str, Mapping[str, Percentiles]]


class Latencies:
    """The latencies since one start of a job; used by one thread."""

    def __init__(self) -> None:
        self._spans: dict[int, dict[DataflowOutput, Counter[int]]] = {}

    def note(self, output: DataflowOutput, births: Iterable[Birth], at: float) -> None:
        """Count events that the broker had at a moment, in seconds; events of unknown birth are left out."""
        for birth in births:
            if birth.at != UNKNOWN_BIRTH:
                span = self._spans.setdefault(int(at // SPAN), {})
                span.setdefault(output, Counter())[_bucket(at - birth.at / 1000)] += birth.many

    def report(self, now: float) -> LatencyReport:
        """The latencies of the last minute."""
        last = int(now // SPAN)
        # Spans in the future go too: the clock may have been set back.
        for span in [span for span in self._spans if not last - _WINDOW / SPAN < span <= last]:
            del self._spans[span]
        every: Counter[int] = Counter()
        by_output: defaultdict[DataflowOutput, Counter[int]] = defaultdict(Counter)
        for counted in self._spans.values():
            for output, buckets in counted.items():
                every.update(buckets)
                by_output[output].update(buckets)
        outputs: dict[str, dict[str, Percentiles]] = {}
        for output, buckets in sorted(by_output.items()):
            if output != DataflowOutput():
                outputs.setdefault(output.dataflow, {})[output.sink] = _percentiles(buckets)
        return LatencyReport(_percentiles(every), outputs)


def _bucket(seconds: float) -> int:
    return math.ceil(math.log(max(seconds, _LEAST) / _LEAST) / _GROWTH)


def _percentiles(buckets: Mapping[int, int]) -> Percentiles:
    ordered = sorted(buckets)
    ends = list(accumulate(buckets[bucket] for bucket in ordered))
    return {
        name: round(_LEAST * math.exp(_GROWTH * ordered[bisect_left(ends, part * ends[-1])]), 4)
        for name, part in (("p50", 0.5), ("p99", 0.99))
        if ends
    }
