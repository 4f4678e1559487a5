"""The bounds of the parts of a job: those whose tasks take most of a batch have bounds of their own.

A batch ends for all of a job's tasks at once. Where one part of its plan takes long for few events, a bound for all
would let the others read as few, and fall behind. So the batch is divided: what a slow part has read, and the CPU that
its tasks took, count for that part alone.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from engine.job.batch_bound import BatchBound
from engine.kernel.task_bounds import is_overspent
from engine.plan import SHORTEST_BOUND, PlanPart
from engine.records.record_header import Header

Streams: TypeAlias = frozenset[str]
"""The streams of one part."""
_HEAVY = 0.5
"""A part is slow if its tasks take so much of the time that a batch may have."""
_REMEMBERED = 8
"""Batches with events after which a part that took less is like the others again."""
_BESIDE = 500_000
"""The bytes that all others may have at least beside a slow part: more comes while its batches last than before."""


class PartWork(NamedTuple):
    """The work of one part in a batch; made by `works_of`."""

    seconds: float
    """Of CPU."""
    tried: float = 1.0
    """The part of its events that was tried before a task had used its CPU; the rest became dead letters at once."""


class StreamBounds(NamedTuple):
    """The bytes that a batch may have: of the streams of each slow part, and of all others together."""

    common: int
    slow: Mapping[str, int]
    """Of each stream of a slow part, its own."""


class PartBounds:
    """The bounds of one job's batches; called by its pace keeper, in one thread at a time."""

    def __init__(self) -> None:
        self._common = BatchBound()
        self._slow: dict[Streams, BatchBound] = {}
        self._since: dict[Streams, int] = {}
        """For each slow part the batches since it was slow."""

    def note(self, sizes: Mapping[str, int], seconds: float, works: Mapping[Streams, PartWork], *, pace: float) -> None:
        """Note the bytes that a batch had of each stream, how long it took, and the work of each part in that."""
        most = max(pace, SHORTEST_BOUND)
        size = sum(sizes.values())
        for part, (took, tried) in works.items():
            own = sum(sizes.get(stream, 0) for stream in part)
            if not own:
                continue
            # Alone it holds up nobody, and its batches are bounded as a whole.
            is_slow = len(works) > 1 and took >= _HEAVY * most
            since = 0 if is_slow else self._since.get(part, _REMEMBERED) + 1
            if since < _REMEMBERED:
                self._since[part] = since
                self._slow.setdefault(part, BatchBound()).note(size=max(1, int(own * tried)), seconds=took)
                size, seconds = size - own, seconds - took
            else:
                self._since.pop(part, None)
        self._since = {part: since for part, since in self._since.items() if part in works}
        self._slow = {part: self._slow[part] for part in self._since}
        # CPU of several shards may be more than the time.
        self._common.note(size=size, seconds=max(seconds, 0.001))

    def most_bytes(self, *, pace: float) -> StreamBounds:
        """The bytes of the next batch; slow parts share the time that a batch may take."""
        each = max(pace, SHORTEST_BOUND) / max(1, len(self._slow))
        slow = {
            stream: max(1, bound.most_bytes(pace=each) // len(part))
            for part, bound in self._slow.items()
            for stream in part
        }
        common = self._common.most_bytes(pace=pace)
        return StreamBounds(max(common, _BESIDE) if slow else common, slow)


def works_of(parts: Iterable[PlanPart], header: Header, shards: int) -> Mapping[Streams, PartWork]:
    """The work of each part of a plan in a recorded batch, on average in each of its shards."""
    overspent = {dead.instance for dead in header.dead if is_overspent(dead.reason)}
    return {part.streams: _work_of(part, header, shards, overspent & part.instances) for part in parts if part.streams}


def _work_of(part: PlanPart, header: Header, shards: int, overspent: Iterable[int]) -> PartWork:
    meters = header.meters
    seconds = sum(meters[each].cpu_ns for each in part.instances if each in meters) / 1e9 / shards
    return PartWork(seconds, min((1 - meters[each].dead / meters[each].taken for each in overspent), default=1.0))
