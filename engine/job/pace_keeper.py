"""The pace keeper of a job, which says where its next batch ends and when.

A long batch of Spark has a reader for each shard, see `engine/spark/source.py`. A reader asks for one batch after the
other, and waits for each answer. So the answer paces the job: it comes when there is something to do and its time has
come, and at once for a plan or a marker of a bridge. All readers get the same batch until it is recorded, so whatever
dies in between, it is run with the same end.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from bridge import SpoolIndex
from engine.job.looks import JobLooks
from engine.job.pace import BatchTimes, NextBatch, PartBounds, PartWork, ReadableSpool, Streams, next_batch, works_of
from engine.job.plan_log import PlanLog, past_gone
from engine.job.traced_batches import TracedBatches
from engine.offset import Offset, Span
from engine.plan import SHORTEST_BOUND, Entry, Plan, PlanPart, is_switch
from engine.records.files import Header
from engine.records.job_folder import spool_folder
from engine.records.store import RecordStore

_PATIENCE = 5.0
"""Seconds after which an answer comes even if there is nothing to do, so that no query waits for a dead host."""
ALIGNING = 30.0
"""Seconds for which a part waits for the rest of its streams to bring a marker."""
IDLE_SECONDS = 20.0
"""Seconds without a batch after which a long batch ends, and its slots and processes are free for others."""
_RECORD_SECONDS = 1.0
"""Seconds between two looks for a record: a worker that died behind it has not reported it."""
_POLL_SECONDS = 0.25
"""Seconds between two looks if nothing notifies the keeper of what it waits for."""
_MOST_AWAITED = 3
"""The most batches whose CPU may still be unknown: where files are copied to peers, records are followed later."""
_RAISED = ""
"""Stands for a reader whose worker has raised an error, and which is to end."""
_WORK_PATIENCE = 0.3
"""Seconds that the next batch waits for the CPU of a long one to become known."""


class _Running(NamedTuple):
    end: Offset
    sizes: Mapping[str, int]
    begun: float
    pace: float
    parts: int


class _InEffect(NamedTuple):
    entry: int
    plan: Plan
    parts: tuple[PlanPart, ...]


class PlannedBatch(NamedTuple):
    """A batch that was decided on and is not recorded yet."""

    number: int
    span: Span
    repeats: int = 0
    """How often its shards were given it anew, each time with an earlier end."""


class LongBatch(NamedTuple):
    """A long batch of Spark: its number, and how many readers it has."""

    number: int
    shards: int


class ReaderOrder(StrEnum):
    """What a reader does that gets no batch."""

    END = "end"
    """The long batch is over."""
    NUDGE = "nudge"
    """The reader passes something on that says nothing, and asks again: only so Spark notices that a worker is lost."""
    LEAVE = "leave"
    """Another reader has begun to read the same shard: Spark has given up the task of this one."""


class JobSpools:
    """The spools of one job, as of its last look at them."""

    def __init__(self, root: Path, owned_spool: Callable[[str], ReadableSpool | None]) -> None:
        """`owned_spool` finds the spool of a stream that the job's host fills; that one is always up to date."""
        self._root = root
        self._owned_spool = owned_spool
        self._readers: Mapping[str, SpoolIndex] = {}

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """The spools of some streams, up to date; called from one thread at a time."""
        own = {stream: spool for stream in streams if (spool := self._owned_spool(stream)) is not None}
        self._readers = {
            stream: self._readers.get(stream) or SpoolIndex(spool_folder(self._root, stream))
            for stream in streams
            if stream not in own
        }
        for reader in self._readers.values():
            reader.refresh()
        return {**own, **self._readers}

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the job's host fills all of them, and so notifies the job when they grow."""
        return all(self._owned_spool(stream) is not None for stream in streams)

    def end(self, stream: str) -> int | None:
        """The end at the last look of a spool that another host fills; from any thread."""
        reader = self._readers.get(stream)
        return None if reader is None else reader.end


class PaceKeeper:
    """Answers for one start of a job."""

    def __init__(  # noqa: PLR0913 - what it reads, and whom it asks and notifies are seven things
        self,
        *,
        run: int,
        plans: PlanLog,
        store: RecordStore,
        spools: JobSpools,
        gone: Mapping[str, int],
        is_read: Callable[[str], bool],
        on_end: Callable[[], None],
    ) -> None:
        """`gone` are the ends of what was removed while it was stopped; `on_end` is called when a batch is recorded."""
        self._run = run
        self._plans = plans
        self._store = store
        self._spools = spools
        self._gone = gone
        self._is_read = is_read
        self._on_end = on_end
        batches = store.batches()
        self._number = batches.stop
        self._start = store.file(batches[-1]).header.end if batches else Offset()
        self.times = BatchTimes()
        self.looks = JobLooks()
        self.traced = TracedBatches()
        self._planning = threading.Lock()
        """Held by the reader that waits for the next batch on behalf of all."""
        self._planned: PlannedBatch | None = None
        self._long_batch: LongBatch | None = None
        self._given_at = 0.0
        self._readers: dict[int, str] = {}
        """For each shard the reader that began last, or `_RAISED`."""
        self._news = threading.Condition()
        self._wakes = self._lost_workers = 0
        self._stopped = False
        self._has_events = False
        """Whether events have come that only wait for the time of their batch."""
        self._begun_at = -math.inf
        """When the last batch with events began: the first event after a quiet while waits for no pace."""
        self._bounds = PartBounds()
        self._in_effect: _InEffect | None = None
        """The plan that the latest batch runs."""
        self._running: _Running | None = None
        # The batches whose seconds are noted once it is known what their tasks took, and what those did, by their ends.
        self._timed_batches = deque[tuple[_Running, float]]()
        self._works = deque[tuple[Offset, Mapping[Streams, PartWork]]](maxlen=2 * _MOST_AWAITED)
        self._eager = False
        self._waiting_since: dict[str, float] = {}
        self.deciding = threading.Lock()
        """Held while an end is decided, so that a plan is logged against a known past."""
        self.is_asked = False
        """Whether Spark waits for the next long batch now."""
        self.has_ended = threading.Event()
        """Set once Spark has asked for another long batch although the keeper was stopped: none is under way."""
        self.decided: Offset | None = None
        """The last end that was decided, or asked about; None before the first question."""
        self.cuts = set[str]()
        """The cuts that were decided since it was made."""
        self.given_up = frozenset[str]()
        """The cuts that a part has waited for in vain."""
        self.released = frozenset[str]()

    def wake(self) -> None:
        """Look again at once, because a plan was logged or a marker came; from any thread."""
        with self._news:
            self._wakes += 1
            self._news.notify_all()

    def note_growth(self, stream: str, *, marked: bool) -> None:
        """Look again if a stream of the job has grown, perhaps by a marker; from any thread."""
        # If some events wait for their time already, more of them change nothing.
        if (marked or not self._has_events) and self._is_read(stream):
            self.wake()

    def due(self, stream: str, after: float) -> float:
        """When the next batch after a time may begin that reads on in a stream, by `time.monotonic`; from any thread.

        A moment that has passed, if one may begin already, whatever that time is; never if the job does not read the
        stream, and while a batch runs for longer than its pace, as it is not known then.
        """
        in_effect, now = self._in_effect, time.monotonic()
        if not self._is_read(stream):
            return math.inf
        if self._eager or in_effect is None:
            return 0.0
        due = self._begun_at + in_effect.plan.pace
        if due < now:
            return math.inf if self._planned is not None else due
        return due if due > after else due + in_effect.plan.pace

    def pass_over(self, cut: str) -> None:
        """Wait for a cut no longer, because it was released; from any thread."""
        self.released |= {cut}
        self.given_up -= {cut}
        self.wake()

    def note_work(self, header: Header, plan: Plan) -> None:
        """Note what the tasks of a batch took, once it is recorded; from any thread."""
        number = header.end.entry
        in_effect = self._in_effect
        parts = in_effect.parts if in_effect is not None and in_effect.entry == number else plan.parts()
        if len(parts) > 1:
            with self._news:
                self._works.append((header.end, works_of(parts, header, plan.shards)))
                self._news.notify_all()

    def is_timed(self, batch: PlannedBatch) -> bool:
        """Whether the parts of a batch are to be timed, because it is traced; from any thread."""
        in_effect = self._in_effect
        plan = in_effect.plan if in_effect is not None and in_effect.entry == batch.span.end.entry else None
        return self.traced.begin(batch.number, batch.span, plan)

    def stop(self) -> None:
        """Answer every question at once."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def long_batch_after(self, number: int) -> LongBatch | None:
        """The long batch that follows one, once there is something to do; None after a while without."""
        self.is_asked = True
        if self._stopped:
            self.has_ended.set()
        try:
            with self._planning:
                if self._planned is None:
                    self._plan(time.monotonic() + _PATIENCE)
                planned = self._planned
                if planned is None or self._stopped:
                    return None
                self._long_batch = LongBatch(number + 1, planned.span.end.shards)
                self._given_at = time.monotonic()
                self._readers.clear()
                return self._long_batch
        finally:
            self.is_asked = False

    def batch_after(
        self, within: LongBatch, shard: int, reader: str, last: tuple[int, int] | None
    ) -> PlannedBatch | ReaderOrder:
        """The batch after the one that a reader of a shard has passed on, or that one with an earlier end.

        `last` is its number, and how often it had been given anew. A reader that begins has passed on none.
        """
        if last is None:
            with self._news:
                self._readers[shard] = reader
                self._news.notify_all()
            if (planned := self._planned) is not None:
                # It may have been recorded by a worker that was taken for dead.
                self.note_record(planned.number)
        lost = self._lost_workers
        while within == self._long_batch and not self._stopped:
            planned = self._planned
            if self._readers.get(shard) == _RAISED:
                return ReaderOrder.END
            if self._readers.get(shard) != reader:
                return ReaderOrder.LEAVE
            if planned is None:
                self._await_batch()
            elif last is not None and (planned.number, planned.repeats) <= last:
                if not self._await_record(planned, lost):
                    return ReaderOrder.NUDGE
            elif planned.span.end.shards == within.shards:
                return planned
            else:
                self._long_batch = None
        return ReaderOrder.END

    def shards_waiting(self, patience: float) -> int:
        """The number of shards for which Spark has found no slot for so many seconds."""
        long_batch = self._long_batch
        if long_batch is None or time.monotonic() - self._given_at < patience:
            return 0
        return long_batch.shards - len(self._readers)

    def note_lost_worker(self) -> None:
        """Have Spark notice that a worker has ended; from any thread."""
        with self._news:
            self._lost_workers += 1
            self._news.notify_all()

    def note_raised(self, shard: int) -> None:
        """Have the reader of a shard end, because its worker raised: then Spark takes the error up. From any thread."""
        with self._news:
            self._readers[shard] = _RAISED
            self._lost_workers += 1
            self._news.notify_all()

    def note_record(self, number: int) -> bool:
        """Begin the next batch, if the current one is recorded; whether it is. From any thread.

        If all shards are done and some have read on where others ended early, they are given it anew.
        """
        if (record := self._store.find(number)) is None:
            self._end_early(number)
            return False
        end = record.header.end
        with self._news:
            planned = self._planned
            if planned is None or planned.number != number:
                return True
            self._number, self._start, self._planned = number + 1, end, None
            if self._running is not None:
                ran = self._running._replace(end=end, sizes=_sizes_read(self._running.sizes, planned, end))
                self._timed_batches.append((ran, time.monotonic() - ran.begun))
            self._running = None
            self._news.notify_all()
        self.times.end()
        self._on_end()
        return True

    def _end_early(self, number: int) -> None:
        planned = self._planned
        if planned is None or planned.number != number or planned.span.end.shards == 1:
            return
        early = self._store.disputed_ends(number, planned.span.end.shards)
        if early and early != planned.span.early:
            with self._news:
                if self._planned is planned:
                    span = planned.span._replace(early=early)
                    self._planned = PlannedBatch(number, span, planned.repeats + 1)
                    self._news.notify_all()

    def _await_batch(self) -> None:
        """Wait for the next batch on behalf of all readers; the long batch is over if none comes for long."""
        with self._planning:
            is_open = self._planned is None and self._long_batch is not None
            if is_open and not self._plan(time.monotonic() + IDLE_SECONDS):
                self._long_batch = None

    def _await_record(self, planned: PlannedBatch, lost: int) -> bool:
        """Wait for a record; False if it is not there after a while, or a worker was lost meanwhile."""
        with self._news:
            self._news.wait_for(
                lambda: self._planned is not planned or lost != self._lost_workers or self._stopped, _RECORD_SECONDS
            )
        return self._planned is not planned or self.note_record(planned.number)

    def _plan(self, until: float) -> bool:
        """Decide on the next batch once it may begin; False if there is none until a time, or the keeper is stopped."""
        start = self._start
        self._note(start)
        if (end := self._store.ends.find(self._number)) is not None:
            self._give(start, end)
            return True
        self._await_work()
        while True:
            with self._news:
                wakes, stopped = self._wakes, self._stopped
            if stopped:
                return False
            with self.deciding:
                self._note_times()
                entries = [past_gone(entry, self._gone) for entry in self._plans.since(start.entry)]
                streams = sorted({stream for entry in entries for stream in entry.plan.streams})
                # Asked first: what came before this host began to fill a spool is seen below.
                notified = self._spools.all_notify(streams)
                step = self._step(start, entries, streams)
                now = time.monotonic()
                is_there = step.end != start
                when = step.when(self._due(start, entries, step), now=now, latest=until) if is_there else until
                if is_there and now >= when:
                    self._store.ends.keep(self._number, step.end)
                    self._begin(start, step, entries, now)
                    self._give(start, step.end)
                    return True
            if now >= until:
                return False
            with self._news:
                if not self._stopped and self._wakes == wakes:
                    self._has_events = step.end.at != start.at
                    # Nothing notifies it when a plan's position has come, or when it has waited for a marker in vain.
                    alone = notified and len(entries) == 1 and not start.held
                    self._news.wait(max(0.0, min(when - now, until - now if alone else _POLL_SECONDS)))
                self._has_events = False

    def _give(self, start: Offset, end: Offset) -> None:
        self._note(end)
        self.times.begin()
        self._planned = PlannedBatch(self._number, Span(start, end))

    def _await_work(self) -> None:
        """Wait a moment for what the tasks of a long batch took, so that a slow part has its own bound at once."""
        if not self._timed_batches:
            return
        batch, seconds = self._timed_batches[-1]
        if batch.parts > 1 and seconds > max(batch.pace, SHORTEST_BOUND):
            with self._news:
                self._news.wait_for(
                    lambda: self._stopped or any(end == batch.end for end, _ in self._works), _WORK_PATIENCE
                )

    def _note_times(self) -> None:
        """Note how long batches took, with what their parts took of that, as far as it is known by now."""
        works = list(self._works)
        while self._timed_batches:
            batch, seconds = self._timed_batches[0]
            work = next((work for end, work in works if end == batch.end), None)
            if work is None and batch.parts > 1 and len(self._timed_batches) <= _MOST_AWAITED:
                return
            self._bounds.note(batch.sizes, seconds, work or {}, pace=batch.pace)
            self._timed_batches.popleft()

    def _note(self, end: Offset) -> None:
        self.decided = end
        self.cuts.update(end.cuts)

    def _step(self, start: Offset, entries: Sequence[Entry], streams: Sequence[str]) -> NextBatch:
        return next_batch(
            start,
            run=self._run,
            entries=entries,
            spools=self._spools.readable(streams),
            given_up=self._given_up(start),
            most_bytes=self._bounds.most_bytes(pace=min((entry.plan.pace for entry in entries), default=0.0)),
        )

    def _given_up(self, start: Offset) -> frozenset[str]:
        # A switch waits as long as it takes: the jobs above have switched already.
        now, names = time.monotonic(), {name for name in start.held.values() if not is_switch(name)}
        self._waiting_since = {name: self._waiting_since.get(name, now) for name in names}
        late = (name for name, since in self._waiting_since.items() if now - since > ALIGNING)
        # For good: a stream that brings the marker later would hold up the rest of its part once more.
        self.given_up = (self.given_up | frozenset(late)) - self.released
        return self.given_up | self.released

    def _due(self, start: Offset, entries: Sequence[Entry], step: NextBatch) -> float:
        # Somebody waits for the first events after a new plan.
        if self._eager and step.end.at != start.at:
            return 0.0
        return self._begun_at + _plan(entries, step).pace

    def _begin(self, start: Offset, step: NextBatch, entries: Sequence[Entry], now: float) -> None:
        plan = _plan(entries, step)
        if self._in_effect is None or self._in_effect.entry != step.end.entry:
            self._in_effect = _InEffect(step.end.entry, plan, plan.parts())
        self._running = _Running(step.end, step.sizes, now, plan.pace, len(self._in_effect.parts))
        self._eager = step.end.entry != start.entry or step.end.run != start.run
        if step.end.at != start.at:
            self._begun_at = now


def _plan(entries: Sequence[Entry], step: NextBatch) -> Plan:
    return next(entry.plan for entry in entries if entry.number == step.end.entry)


def _sizes_read(sizes: Mapping[str, int], planned: PlannedBatch, end: Offset) -> Mapping[str, int]:
    """The bytes that a batch had of each stream, by those that it was to have, and where it ended."""
    if end == planned.span.end:
        return sizes
    begun, to = planned.span.start.at, planned.span.end.at
    return {
        stream: size * (end.at[stream] - begun.get(stream, 0)) // max(1, to[stream] - begun.get(stream, 0))
        for stream, size in sizes.items()
        if stream in end.at
    }
