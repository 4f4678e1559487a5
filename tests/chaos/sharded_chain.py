"""The chain with a job of several shards, run by several worker processes: any of them dies at any step of a batch."""

import random
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bridge import Item
from bridge.files import no_steps
from bridge.raw_events import arrow_schema
from bridge.spools.log import packed
from bridge.wire import Birth
from dags import Schema
from engine.behaviour import Behaviour
from engine.kernel.batch import BatchTime
from engine.kernel.batch_rows import arriving
from engine.kernel.entering_events import Portion
from engine.kernel.watchdog import Attempt
from engine.kernel.worker import Worker
from engine.offset import Offset, Span
from engine.plan import Entry
from tests.chaos.chain import FIELDS, JOB, PLAN, Chain, Death, dying
from tests.chaos.oracle import first_difference_by_key
from tests.engine.kernels import DrawnTime

PROCESSES = 3
MOST_RUNS = 20
"""The most times that a batch is given to its shards until they have ended at the same places."""


class Planned(NamedTuple):
    """A batch in Spark's log of offsets, which it runs until it has its record."""

    batch: int
    span: Span


class ChainWorker(Worker):
    """A worker of a chain; if that is hasty, the time of a batch may be up at any moment."""

    def __init__(self, root: Path, chain: "ShardedChain") -> None:
        super().__init__(root, JOB)
        self._chain = chain

    def _made_behaviours(self, entry: Entry, attempt: Attempt) -> dict[int, Behaviour]:
        made = super()._made_behaviours(entry, attempt)
        self._time = DrawnTime(self._chain.drawn) if self._chain.hasty else BatchTime()
        return made


class ShardedChain(Chain):
    """A chain whose plans have other numbers of shards over time."""

    def __init__(self, root: Path, drawn: random.Random | None = None, *, hasty: bool = False) -> None:
        self.drawn = drawn or random.Random(1)
        self.hasty = hasty
        self.planned: Planned | None = None
        self.processes = [ChainWorker(root, self) for _ in range(PROCESSES)]
        """Python workers of Spark. They outlive a host that only lost its query."""
        super().__init__(root)

    def settle(self) -> None:
        """As any chain does, in no haste: the time might be up each time."""
        self.hasty = False
        super().settle()

    def divide(self, shards: int) -> None:
        """Log a plan with another number of shards."""
        last = self.folder.entries(1)[-1].plan
        self.job.log(replace(PLAN, version=last.version + 1, shards=shards))

    def events(self, count: int = 12) -> None:
        """Append more events to the source's spool, of eleven keys."""
        first = len(self.entered)
        rows = [{"n": n, "k": f"k{n * 7 % 11}", "v": float(n * 13 % 101)} for n in range(first, first + count)]
        self.entered += rows
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(Schema.of(FIELDS)))
        self.source.append([Item(count=count, stamp=first, payload=packed(batch), births=(Birth(count, first),))])

    def plan_batch(self) -> Planned | None:
        """The batch that the host has Spark run next: the one that it has planned, perhaps anew, or a new one."""
        store = self.job.store
        batches = store.batches()
        if self.planned is not None and self.planned.batch >= batches.stop:
            batch, span = self.planned
            early = store.disputed_ends(batch, span.end.shards)
            self.planned = Planned(batch, span._replace(early=early or span.early))
            return self.planned
        start = store.file(batches[-1]).header.end if batches else Offset()
        self.job.offset = start
        end = store.ends.find(batches.stop) or self.job._next(self.folder.entries(max(1, start.entry))).end
        if end != start:
            store.ends.keep(batches.stop, end)
        self.planned = None if end == start else Planned(batches.stop, Span(start, end))
        return self.planned

    def batch(self) -> None:
        """Run a batch undisturbed, its shards in any order, each in any process, until all have ended alike."""
        batch = self.next_batch()
        for _ in range(MOST_RUNS):
            planned = self.plan_batch()
            if planned is None or planned.batch != batch:
                return
            shards = list(range(planned.span.end.shards))
            self.drawn.shuffle(shards)
            for shard in shards:
                self.shard(planned, shard)
        raise AssertionError(f"batch {batch} has no record")

    def next_batch(self) -> int | None:
        """The number of the batch that runs next."""
        planned = self.plan_batch()
        return None if planned is None else planned.batch

    def has_batch(self) -> bool:
        """Run the next batch; False if there is none."""
        planned = self.plan_batch()
        self.batch()
        return planned is not None

    def dying_batch(self, at: str, nth: int, *, before: int) -> None:
        """Begin a batch: some shards are done, and the worker of the next one dies at the n-th step of a name."""
        if (planned := self.plan_batch()) is None:
            return
        shards = list(range(planned.span.end.shards))
        self.drawn.shuffle(shards)
        for shard in shards[:before]:
            self.shard(planned, shard)
        for shard in shards[before : before + 1]:
            try:
                self.shard(planned, shard, at, nth)
            except Death:
                continue

    def shard(self, planned: Planned, shard: int, at: str = "", nth: int = 1) -> None:
        """Run one shard of a batch in any process, which may die."""
        place = self.drawn.randrange(len(self.processes))
        process = self.processes[place]
        process._store._step = dying(at, nth) if at else no_steps
        entry = self.folder.entry(planned.span.end.entry)
        portion = Portion(division=entry.division, shard=shard)
        items = list(arriving(self.root, entry, planned.span, portion=portion))
        try:
            process.work_off(planned.batch, planned.span, items, shard)
        except Death:
            self.processes[place] = ChainWorker(self.root, self)
            raise

    def again(self) -> None:
        """Run the last batch again, as a worker does that was given it before it was recorded elsewhere."""
        batches = self.job.store.batches()
        if batches:
            header = self.job.store.file(batches[-1]).header
            for shard in range(header.end.shards):
                self.shard(Planned(batches[-1], Span(header.start, header.end)), shard)

    def forget_planned(self) -> None:
        """Forget the batch that has no record yet, as a host does that dies."""
        self.planned = None

    def check(self) -> None:
        """Compare events and state with the oracle, the events of each key in their order."""
        for stream, expected in self.expected().items():
            assert first_difference_by_key(expected, self.received(stream)) == "", f"stream {stream}"
        delivered = [event for _, event in sorted(self.delivered.items())]
        assert sorted(self.delivered) == list(range(len(self.delivered)))
        assert first_difference_by_key(next(iter(self.expected().values())), delivered) == "", "what a tenant gets"
        assert 0 == sum(intake.counts.gaps for intake in self.receiver.intakes.values())
        self.check_state()
