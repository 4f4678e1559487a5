"""The pace keeper of a job: answers Spark's question where the next batch ends, when that batch may begin.

Spark asks from a process of its own, see `engine/spark/source.py`, and waits for the answer. So the answer paces the
job: it comes when there is something to do and its time has come, and at once for a plan or a marker of a bridge.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from engine.job.batch_bound import SHORTEST_BOUND
from engine.job.pace import NextBatch, ReadableSpool, Rhythm, next_batch
from engine.job.part_bounds import PartBounds, PartWork, Streams, works_of
from engine.offset import Offset
from engine.plan import Entry, Plan, PlanPart, is_switch
from engine.records.record_header import Header

_PATIENCE = 5.0
"""Seconds after which an answer comes even if there is nothing to do, so that no query waits for a dead host."""
ALIGNING = 30.0
"""Seconds for which a part waits for the rest of its streams to bring a marker."""
_POLL_SECONDS = 0.25
"""Seconds between two looks if nothing notifies the keeper of what it waits for."""
_MOST_AWAITED = 3
"""The most batches whose CPU may still be unknown: where files are copied to peers, records are followed later."""
_WORK_PATIENCE = 0.3
"""Seconds that the next batch waits for the CPU of a long one to become known."""


class _Running(NamedTuple):
    """A batch that runs."""

    end: Offset
    sizes: Mapping[str, int]
    begun: float
    pace: float
    parts: int


class Spools(Protocol):
    """The spools that a job reads."""

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """Their indexes, up to date."""

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the keeper is notified of all that enters them from now on."""


class PaceKeeper:
    """Answers for one start of a job."""

    def __init__(  # noqa: PLR0913 - what it asks and whom it notifies are seven things
        self,
        *,
        run: int,
        entries: Callable[[int], Sequence[Entry]],
        is_bridged: Callable[[str], bool | None],
        spools: Spools,
        recorded: Callable[[Offset], Offset | None],
        on_ask: Callable[[Offset], None],
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_ask` is called for each question, and `on_answer` for each answer that begins a batch.

        `is_bridged` says whether a stream comes over a bridge; None if the job does not read it. From any thread.
        """
        self._run = run
        self._entries = entries
        self._is_bridged = is_bridged
        self._spools = spools
        self._recorded = recorded
        self._on_ask = on_ask
        self._on_answer = on_answer
        self._news = threading.Condition()
        self._wakes = 0
        self._stopped = False
        self._timed = frozenset[str]()
        """The streams with events that only wait for the time of their batch."""
        self._rhythm = Rhythm()
        self._bounds = PartBounds()
        self._parts: tuple[int, tuple[PlanPart, ...]] = (0, ())
        """The parts of the plan of an entry."""
        self._running: _Running | None = None
        self._timed_batches = deque[tuple[_Running, float]]()
        """The batches whose seconds are noted once it is known what their tasks took."""
        self._works = deque[tuple[Offset, Mapping[Streams, PartWork]]](maxlen=2 * _MOST_AWAITED)
        """The work of each part in the latest recorded batches, by their ends."""
        self._eager = False
        self._waiting_since: dict[str, float] = {}
        self.deciding = threading.Lock()
        """Held while an end is decided, so that a plan is logged against a known past."""
        self.decided: Offset | None = None
        """The last end that was decided, or asked about; None before the first question."""
        self.is_asked = False
        """Whether Spark waits for an answer now."""
        self.cuts = set[str]()
        """The cuts that were decided since it was made."""
        self.given_up = frozenset[str]()
        """The cuts that a part has waited for in vain."""
        self._released = frozenset[str]()
        """The cuts that were released."""

    def wake(self) -> None:
        """Look again at once, because a plan was logged or a marker came; from any thread."""
        with self._news:
            self._wakes += 1
            self._news.notify_all()

    def note_growth(self, stream: str, *, marked: bool) -> None:
        """Look again if a stream of the job has grown, perhaps by a marker, and that matters; from any thread.

        If some events wait for their time already, more of them change nothing. But events that come over a bridge may
        begin a batch before others would.
        """
        bridged = self._is_bridged(stream)
        if bridged is not None and (marked or not self._timed or (bridged and stream not in self._timed)):
            self.wake()

    def pass_over(self, cut: str) -> None:
        """Wait for a cut no longer, because it was released; from any thread."""
        self._released |= {cut}
        self.given_up -= {cut}
        self.wake()

    def is_passed_over(self, cut: str) -> bool:
        """Whether a cut was released."""
        return cut in self._released

    def note_work(self, header: Header, plan: Plan) -> None:
        """Note what the tasks of a batch took, once it is recorded; from any thread."""
        number = header.end.entry
        parts = self._parts[1] if self._parts[0] == number else plan.parts()
        if len(parts) > 1:
            with self._news:
                self._works.append((header.end, works_of(parts, header, plan.shards)))
                self._news.notify_all()

    def stop(self) -> None:
        """Answer every question at once."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def end_after(self, start: Offset) -> Offset:
        """The end of the batch after an offset; the offset itself after a while without anything to do."""
        self.is_asked = True
        if self._running is not None:
            self._timed_batches.append((self._running, time.monotonic() - self._running.begun))
            self._running = None
        try:
            return self._end_after(start)
        finally:
            self.is_asked = False

    def _end_after(self, start: Offset) -> Offset:
        self._on_ask(start)
        if (known := self._recorded(start)) is not None:
            self._note(known)
            self._on_answer()
            return known
        self._note(start)
        self._await_work()
        until = time.monotonic() + _PATIENCE
        while True:
            with self._news:
                wakes, stopped = self._wakes, self._stopped
            if stopped:
                return start
            with self.deciding:
                self._note_times()
                entries = self._entries(start.entry)
                streams = sorted({stream for entry in entries for stream in entry.plan.streams})
                # Asked first: what came before this host began to fill a spool is seen below.
                notified = self._spools.all_notify(streams)
                step = self._step(start, entries, streams)
                now = time.monotonic()
                found = step.end != start
                when = step.when(self._due(start, entries, step), now=now, latest=until) if found else until
                if found and now >= when:
                    self._begin(start, step, entries, now)
                    self._note(step.end)
                    self._on_answer()
                    return step.end
            if now >= until:
                return start
            with self._news:
                if not self._stopped and self._wakes == wakes:
                    self._timed = _moved(start, step) if found else frozenset()
                    # Nothing notifies it when a plan's position has come, or when it has waited for a marker in vain.
                    alone = notified and len(entries) == 1 and not start.held
                    self._news.wait(max(0.0, min(when - now, until - now if alone else _POLL_SECONDS)))
                self._timed = frozenset()

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
            most_bytes=self._bounds.most_bytes(pace=min((each.plan.pace for each in entries), default=0.0)),
        )

    def _given_up(self, start: Offset) -> frozenset[str]:
        # A switch waits as long as it takes: the jobs above have switched already.
        now, names = time.monotonic(), {name for name in start.held.values() if not is_switch(name)}
        self._waiting_since = {name: self._waiting_since.get(name, now) for name in names}
        late = (name for name, since in self._waiting_since.items() if now - since > ALIGNING)
        # For good: a stream that brings the marker later would hold up the rest of its part once more.
        self.given_up = (self.given_up | frozenset(late)) - self._released
        return self.given_up | self._released

    def _due(self, start: Offset, entries: Sequence[Entry], step: NextBatch) -> float:
        # Somebody waits for the first events after a new plan.
        if self._eager and step.end.at != start.at:
            return 0.0
        return self._rhythm.due(_plan(entries, step), _moved(start, step))

    def _begin(self, start: Offset, step: NextBatch, entries: Sequence[Entry], now: float) -> None:
        plan = _plan(entries, step)
        if self._parts[0] != step.end.entry:
            self._parts = (step.end.entry, plan.parts())
        self._running = _Running(step.end, step.sizes, now, plan.pace, len(self._parts[1]))
        self._eager = step.end.entry != start.entry or step.end.run != start.run
        if step.end.at != start.at:
            self._rhythm = self._rhythm.after(now, pace=plan.pace)


def _plan(entries: Sequence[Entry], step: NextBatch) -> Plan:
    """The plan that a batch runs."""
    return next(entry.plan for entry in entries if entry.number == step.end.entry)


def _moved(start: Offset, step: NextBatch) -> frozenset[str]:
    """The streams that a batch reads on."""
    return frozenset(stream for stream, end in step.end.at.items() if start.at.get(stream) != end)
