"""The run of a generator: appends its events to its spool when they are due.

Events and progress are appended together, so that after a crash at any instruction no event is doubled or left out.
While the spool is full the generator waits, and then catches up, a bounded batch at a time.
"""

import threading
from collections.abc import Iterator

from bridge.generated.file_replay import Chunk, OnUnfit, Unreplayable, chunks, due_of
from bridge.generated.generators import DueEvents, Generator, Progress, Replay, due, milliseconds
from bridge.intake import Expected
from bridge.machine import Clock, SystemClock
from bridge.spools.log import Item, packed
from bridge.spools.spool import Spool, SpoolState
from bridge.wire import Birth

GENERATOR = "generator"
"""The producer under which a spool keeps a generator's progress: its start as the epoch, and its next number."""
_GROUPING = 0.25
"""Seconds whose events are grouped into one file, because a file costs more than the events in it."""
_LONGEST = 1.0
"""Seconds between two checks, however far away the next event is: clocks may be set, and spools emptied."""


class GeneratorRun:
    """A generator that fills its spool; `run` in a thread, or `work` step by step."""

    def __init__(
        self, generator: Generator, spool: Spool, *, clock: Clock | None = None, on_unfit: OnUnfit = lambda _unfit: None
    ) -> None:
        self._generator = generator
        self._spool = spool
        self._clock = clock or SystemClock()
        self._on_unfit = on_unfit
        self._ahead: Iterator[Chunk] | None = None
        self._chunk: Chunk | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Work until stopped, or until there is nothing more to send."""
        while not self._stopping.is_set() and (pause := self.work()) is not None:
            self._stopping.wait(pause)

    def stop(self) -> None:
        """Let `run` return after its current batch."""
        self._stopping.set()

    def work(self) -> float | None:
        """Append a batch of due events; returns the seconds until there may be more, or None after the last one."""
        if self._spool.state is SpoolState.FULL:
            self._spool.prune()
        if self._spool.state is SpoolState.FULL:
            return _GROUPING
        now = milliseconds(self._clock.now())
        kept = self._spool.producers.get(GENERATOR)
        progress = Progress(start=now) if kept is None else Progress(start=kept.epoch, next=kept.next or 0)
        ready = self._due(progress, now)
        if ready.events is not None:
            count = len(ready.events)
            item = Item(count=count, stamp=now, payload=packed(ready.events), births=(Birth(count, now),))
            after = Expected(epoch=ready.progress.start, next=ready.progress.next)
            self._spool.append([item], {GENERATOR: after})
        if ready.then is None:
            return None
        if ready.then <= now:
            # It is behind.
            return 0.0
        return min(_LONGEST, max(_GROUPING, (ready.then - now) / 1000))

    def _due(self, progress: Progress, now: int) -> DueEvents:
        if not isinstance(self._generator, Replay):
            return due(self._generator, progress, now)
        if self._ahead is None:
            self._ahead = chunks(self._generator, progress.next, self._on_unfit)
        if self._chunk is None or progress.next == self._chunk.end:
            try:
                self._chunk = next(self._ahead, None)
            except Unreplayable:
                # A generator that raised is finished, so begin a new one next time.
                self._ahead = None
                raise
            if self._chunk is None:
                return DueEvents(progress=progress, then=None)
        return due_of(self._chunk, progress, now)
