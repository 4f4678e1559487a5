"""The portion of one shard: which of a batch's events it takes, and which key groups of the states are its own."""

from collections import Counter
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa

from dags.divisibility import GROUPS, DividedBy
from engine.division import UNDIVIDED, Division, StreamDivision
from engine.event_streams import Numbers
from engine.implementations.keys import keyed
from engine.offset import Offset
from engine.records.staged_state import NUMBERS, Staged, packed_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One shard of a batch."""

    division: Division
    shard: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the batch has one shard."""
        return self.division.shards == 1

    @property
    def is_first(self) -> bool:
        """Whether it is the shard that does what is done once in a batch."""
        return self.shard == 0

    def owns(self, instance: int, group: int) -> bool:
        """Whether a key group of an instance's state is its own. What is known to all shards is."""
        return self.is_all or group == NUMBERS or self.division.owner(instance, group) == self.shard

    def strays(self, instance: int, staged: Staged) -> bool:
        """Whether a task with a divided state has changed a key group that is another shard's."""
        if instance not in self.division.keyed:
            return False
        return not all(self.owns(instance, group) for group in staged.changed_groups())

    def range(self, stream: str, start: Offset, end: Offset, *, whole: bool = False) -> tuple[int, int]:
        """The positions between which its events of a stream are; all of the batch's if the `whole` stream is read."""
        first, last = start.at.get(stream, 0), end.at.get(stream, 0)
        found = self._of(stream)
        if self.is_all or found.by is DividedBy.KEY or (whole and found.by is DividedBy.POSITION):
            return first, last
        if found.by is DividedBy.NOTHING:
            return (first, last) if self.shard == found.shard else (last, last)
        shards, length = self.division.shards, last - first
        return first + length * self.shard // shards, first + length * (self.shard + 1) // shards

    def parks(self, stream: str) -> bool:
        """Whether it parks the events of a stream that cannot be read."""
        return self.shard == self._of(stream).shard

    def parks_at(self, stream: str, position: int, start: Offset, end: Offset) -> bool:
        """Whether it parks an event that cannot be read at a position of a batch."""
        if self._of(stream).by is not DividedBy.POSITION:
            return self.parks(stream)
        low, high = self.range(stream, start, end)
        return low <= position < high

    def taken(  # noqa: PLR0913, PLR0917 - events and their place in a batch, and what counts them
        self,
        stream: str,
        positions: Numbers,
        rows: pa.RecordBatch,
        start: Offset,
        end: Offset,
        grouped: Counter[int],
    ) -> Numbers:
        """The indexes of its events among some of a stream at ascending positions.

        Those that are divided by key are counted by their key groups.
        """
        found = self._of(stream)
        if found.by is DividedBy.NOTHING:
            return np.arange(len(rows) if self.shard == found.shard else 0)
        if found.by is DividedBy.POSITION:
            low, high = self.range(stream, start, end)
            return np.arange(*np.searchsorted(positions, [low, high]))
        groups = groups_of(rows, found.key)
        own = np.flatnonzero(np.array(self.division.groups)[groups] == self.shard)
        counts = np.bincount(groups[own])
        grouped.update({int(group): int(counts[group]) for group in np.flatnonzero(counts)})
        return own

    def taken_fed(self, streams: frozenset[str], rows: pa.RecordBatch) -> Numbers:
        """The indexes of its events among some that are fed again to a task in the part of some streams."""
        found = self._of(min(streams, default=""))
        if found.by is DividedBy.KEY and set(found.key) <= set(rows.schema.names):
            return np.flatnonzero(np.array(self.division.groups)[groups_of(rows, found.key)] == self.shard)
        return np.arange(len(rows) if self.shard == found.shard else 0)

    def _of(self, stream: str) -> StreamDivision:
        return self.division.streams.get(stream, _FIRST)


_FIRST = StreamDivision(by=DividedBy.NOTHING)
EVERYTHING = Portion(division=UNDIVIDED)
"""The portion of the one task of an undivided batch."""


def groups_of(rows: pa.RecordBatch, key: tuple[str, ...]) -> Numbers:
    """The key group of each event. A missing field counts as null."""
    missing = [name for name in key if name not in rows.schema.names]
    for name in missing:
        rows = rows.append_column(name, pa.nulls(len(rows)))
    found = keyed(rows, key)
    of_key = np.array([crc32(packed_key(each)) % GROUPS for each in found.keys], np.int64)
    groups = np.empty(len(rows), np.int64)
    groups[found.order] = np.repeat(of_key, np.diff(found.bounds))
    return groups
