"""Metering: looks every few seconds at what was done, and writes down at the end of each minute what it cost whom.

What the database cannot take right now is written with the next minute. A manager that dies loses the minute that is
open, and what is done while nobody leads is not metered.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from bridge.machine.process_identity import began
from manager.committer.committer import Committer
from manager.defragmentation.choice import Chooser
from manager.observations.reports import Observations
from manager.savings.cost_split import CostSplit, split, together
from manager.savings.counter_growth import BrokerTaken, Counters, counters, grown
from manager.savings.ledger import HOUR, MINUTE, Minute, write
from manager.savings.settlement import Price, settle
from manager.savings.usage import Use, running_now, use_of
from manager.store.database import Store

_LOOK_EVERY = 5.0
"""Seconds between two looks at least; a host measures its CPU as often."""
_SHARE = 0.03
"""The part of the time that looks may take."""
MOST_UNWRITTEN = 2 * HOUR // MINUTE
"""So many minutes are kept while the database is away; then the oldest are lost."""
log = logging.getLogger("braid.metering")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was seen at one look."""

    version: int
    """Of the committed state."""
    use: Use
    counters: Counters


class Meter:
    """One manager's; `look` is called from one thread, again and again, and `end` when it drives the hosts no more."""

    def __init__(  # noqa: PLR0913 - what it reads, what it writes to, and two clocks
        self,
        store: Store,
        committer: Committer,
        seeing: Observations,
        chooser: Chooser,
        *,
        broker: Callable[[], BrokerTaken | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`broker` says what the broker has taken, where it is this manager's."""
        self._store = store
        self._committer = committer
        self._seeing = seeing
        self._chooser = chooser
        self._broker = broker
        self._clock = clock
        self._wall = wall
        self._due = 0.0
        self._last: _Look | None = None
        self._open = 0
        """Which minute is open, by when it began."""
        self._splits = CostSplit()
        """What was done in it."""
        self._unwritten: list[Minute] = []

    def look(self) -> None:
        """See what was done since the last look, once its time has come."""
        now = self._clock()
        if now < self._due or not self._committer.leads:
            return
        self._fold(now)
        minute = int(self._wall()) // MINUTE * MINUTE
        # Never back: a minute is written once.
        if minute > self._open:
            self._close()
            self._open = minute
            self._write()
        self._due = self._clock() + max(_LOOK_EVERY, (self._clock() - now) / _SHARE)

    def end(self) -> None:
        """Write down what is known of the minute that is open, and forget how far everything was counted."""
        if self._last is not None and self._committer.leads:
            self._fold(self._clock())
        self._close()
        self._last, self._due = None, 0.0
        self._write()
        self._unwritten.clear()

    def _fold(self, now: float) -> None:
        look = self._seen(now)
        before, self._last = self._last, look
        if before is not None:
            done = grown(before.counters, look.counters)
            more = split(done, before.use, look.use, pace=self._committer.ground.pace)
            self._splits = together((self._splits, more))

    def _seen(self, now: float) -> _Look:
        with self._committer.looking() as state:
            version, there = state.version, [str(job) for job in (*state.plans, *state.stopped)]
            before = self._last
            known = before.use if before is not None and before.version == version else None
            running = running_now(state) if known is None else None
        jobs = {job: seen for job in there if (seen := self._seeing.job(job)) is not None}
        return _Look(
            version=version,
            use=use_of(running) if running is not None else known or Use(),
            counters=counters(
                before.counters if before is not None else None,
                now,
                self._seeing.hosts(),
                jobs,
                there=there,
                broker=self._broker(),
            ),
        )

    def _close(self) -> None:
        """Settle the minute that is open."""
        done, self._splits = self._splits, CostSplit()
        if not done.seconds:
            return
        paid, (low, high) = self._chooser.paid()
        price = Price(
            batch=paid.batch,
            batch_low=low,
            batch_high=high,
            bridge=paid.bridge,
            paused=paid.paused,
            pace=self._committer.ground.pace,
        )
        self._unwritten = [*self._unwritten, Minute(at=self._open, settled=settle(done, price))][-MOST_UNWRITTEN:]

    def _write(self) -> None:
        if self._unwritten:
            with self._store.write() as session:
                if not write(session, self._committer.name, self._unwritten):
                    log.info("another manager leads, and meters from now on")
            self._unwritten = []


def broker_taken(keeper: int | None, folder: str) -> BrokerTaken | None:
    """What the broker has taken that a keeper runs with its files in a folder; None where there is none to be seen."""
    try:
        for child in psutil.Process(keeper).children() if keeper is not None else ():
            if any(word.startswith(folder) for word in child.cmdline()):
                times = child.cpu_times()
                return BrokerTaken(pid=child.pid, began=began(child), seconds=times.user + times.system)
    except psutil.Error:
        # It is about to be started again.
        return None
    return None
