"""The records of a job in memory, as far as a pace keeper looks at them."""

from types import SimpleNamespace
from typing import cast

from engine.job.pace_keeper import PaceKeeper, PlannedBatch
from engine.offset import EarlyEnd, Offset
from engine.records.store import RecordStore


class MemoryEnds:
    """The ends of batches that are only planned."""

    def __init__(self, begun: Offset | None) -> None:
        self.kept: dict[int, Offset] = {} if begun is None else {0: begun}

    def keep(self, batch: int, end: Offset) -> None:
        """As `PlannedEnds` does."""
        self.kept[batch] = end

    def find(self, batch: int) -> Offset | None:
        """As `PlannedEnds` does."""
        return self.kept.get(batch)


class MemoryRecords:
    """The ends of batches that are recorded, and of those that are only planned."""

    def __init__(self, begun: Offset | None = None) -> None:
        """`begun` is the end of the first batch, if it was planned before."""
        self.recorded: dict[int, Offset] = {}
        self.ends = MemoryEnds(begun)
        self.disputed: dict[str, EarlyEnd] = {}
        """Where shards of the next batch end early although others read on."""

    @property
    def store(self) -> RecordStore:
        """As a keeper sees them."""
        return cast("RecordStore", self)

    def batches(self) -> range:
        """As `RecordStore` does; there are none when a keeper begins."""
        return range(0)

    def find(self, batch: int) -> SimpleNamespace | None:
        """As `RecordStore` does, with nothing but the end."""
        end = self.recorded.get(batch)
        return None if end is None else SimpleNamespace(header=SimpleNamespace(end=end))

    def disputed_ends(self, batch: int, shards: int) -> dict[str, EarlyEnd]:
        """As `RecordStore` does."""
        del batch, shards
        return self.disputed

    @classmethod
    def under(cls, keeper: PaceKeeper) -> "MemoryRecords":
        """Have a keeper look at records in memory from now on."""
        records = cls()
        keeper._store = records.store
        return records

    def begin(self, keeper: PaceKeeper) -> PlannedBatch | None:
        """Begin a keeper's next batch; None if there is none for a while."""
        long_batch = keeper.long_batch_after(0)
        if long_batch is None:
            return None
        batch = keeper.batch_after(long_batch, 0, "reader", None)
        assert isinstance(batch, PlannedBatch)
        return batch

    def run(self, keeper: PaceKeeper) -> Offset | None:
        """The end of a keeper's next batch, which is recorded at once; None if there is none for a while."""
        batch = self.begin(keeper)
        if batch is None:
            return None
        self.recorded[batch.number] = batch.span.end
        assert keeper.note_record(batch.number)
        return batch.span.end
