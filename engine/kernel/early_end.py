"""The early end of a batch for a part of its plan, once the tasks of a tenant have used the time that a batch has.

What a task takes for an event is known only afterwards. So the events of a part run in chunks, each as large as the
last ones allow. All parts that serve one tenant share the time of a batch; those that need little of it run first. Once
the time is used, the remaining events wait in their streams, and the record says where the batch ended for them. So
nobody's tasks hold up the other parts of a job for longer, even if nothing was known of them. If one event took longer
than that, its tenant has less time in the next batches.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.event_streams import Arrived, EventStream, Numbers
from engine.kernel.layout import PartLayout
from engine.offset import Offset
from engine.plan import Port

_CHUNKS = 8
"""The chunks in which a batch uses its time."""
_MORE = 8
"""The most by which a chunk is larger than the one before."""
_REMEMBERED = 0.5
"""The part of a cost that still counts in the next batch with events of the part."""


class BatchTime:
    """The time that each batch of a job has, and who uses how much of it; kept by a worker from batch to batch.

    >>> time, part = BatchTime(), PartLayout(owner="ann", instances=frozenset({1, 2}))
    >>> time.begin(1.0)
    >>> time.first_chunk(part), time.next_chunk(part, 1, 100), time.next_chunk(part, 8, 2_500_000_000)
    (1, 8, 1)
    >>> time.is_up(part, is_long=True)
    True
    """

    def __init__(self) -> None:
        self._most = self._chunk = 0
        self._used = Counter[str | frozenset[int]]()
        self._costs: dict[frozenset[int], float] = {}
        """What an event of each part cost at most lately, in ns."""
        self._noted = set[frozenset[int]]()
        """The parts that ran in this batch."""

    def begin(self, seconds: float) -> None:
        """Begin a batch that has so many seconds of CPU for each owner, without what it used too much before."""
        self._used = Counter({owner: used - self._most for owner, used in self._used.items() if used > self._most})
        self._most = int(seconds * 1e9)
        self._chunk = self._most // _CHUNKS
        self._noted.clear()

    def is_long(self, part: PartLayout, events: int) -> bool:
        """Whether so many events may need more than a chunk."""
        cost = self._costs.get(part.instances)
        return cost is None or cost * events > self._chunk

    def is_up(self, part: PartLayout, *, is_long: bool) -> bool:
        """Whether those whom a part serves have used it; a chunk is kept for what is long, as that runs last."""
        return self._used[part.owner] >= (self._most if is_long else self._most - self._chunk)

    def first_chunk(self, part: PartLayout) -> int:
        """The events of a part that run first."""
        cost = self._costs.get(part.instances)
        return 1 if cost is None else max(1, int(self._chunk / cost))

    def next_chunk(self, part: PartLayout, events: int, ns: int) -> int:
        """The events that run after some that took so much CPU."""
        self._used[part.owner] += ns
        known = self._costs.get(part.instances, 0.0)
        if part.instances not in self._noted:
            self._noted.add(part.instances)
            known *= _REMEMBERED
        self._costs[part.instances] = max(known, ns / events)
        return max(1, min(events * _MORE, events * self._chunk // max(1, ns)))


def causes_in(entering: Mapping[Port, EventStream]) -> Numbers:
    """The causes of the events that enter a part, each once and in order."""
    streams = [stream.causes for stream in entering.values()]
    return streams[0] if len(streams) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *streams]))


def between(entering: Mapping[Port, EventStream], low: int, high: int | None) -> dict[Port, EventStream]:
    """The events whose causes are at least `low` and less than `high`."""
    return {
        origin: stream.slice(
            int(np.searchsorted(stream.causes, low)),
            len(stream) if high is None else int(np.searchsorted(stream.causes, high)),
        )
        for origin, stream in entering.items()
    }


class EarlyEnd(NamedTuple):
    """Where a batch ended in a stream whose next events wait."""

    position: int
    stamp: int
    """The time when the first of them was spooled, in milliseconds."""


def early_ends(cause: int, items: Iterable[tuple[int, Arrived]], streams: frozenset[str]) -> dict[str, EarlyEnd]:
    """Where a batch ends in those streams that have events from a cause on; each item comes with its first cause."""
    ends: dict[str, EarlyEnd] = {}
    for first, item in items:
        if item.stream in streams and first + item.count > cause:
            ends.setdefault(item.stream, EarlyEnd(item.first + max(0, cause - first), item.stamp))
    return ends


def ended_early(end: Offset, early: Mapping[str, EarlyEnd]) -> Offset:
    """The end of a batch that has come less far in some streams than it was to.

    >>> ended_early(Offset(at={"a": 9, "b": 4}, held={"a": "cut"}), {"a": EarlyEnd(7, stamp=0)})
    Offset(run=0, entry=0, at={'a': 7, 'b': 4}, held={}, cuts={}, shards=1)
    """
    if not early:
        return end
    held = {stream: marker for stream, marker in end.held.items() if stream not in early}
    at = {stream: early[stream].position if stream in early else position for stream, position in end.at.items()}
    return replace(end, at=at, held=held)
