"""The meter: looks at the counters every few seconds, and settles every minute for the ledger.

A minute that cannot be written now is written with the next one. A manager that dies loses the open minute, and nothing
is metered while no manager leads.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from bridge.machine import began
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.observations.reports import Observations
from manager.savings.counters import BrokerCpu, Counters, Usage, counters, growth, running_snapshot, usage_of
from manager.savings.ledger import HOUR, MINUTE, Minute, write
from manager.savings.settlement import CostSplit, Price, combined, settle, split
from manager.store.database import Store

_LOOK_EVERY = 5.0
"""The least seconds between two looks; a host measures its CPU as often."""
_SHARE = 0.03
"""The part of the time that looks may take."""
_MOST_UNWRITTEN = 2 * HOUR // MINUTE
"""Minutes kept while the database is away; then the oldest are lost."""
log = logging.getLogger("braid.metering")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The counters and the usage at one look."""

    version: int
    """The version of the committed state."""
    usage: Usage
    counters: Counters


class Meter:
    """The meter of one manager. One thread calls `look` repeatedly, and `end` when the manager no longer leads."""

    def __init__(  # noqa: PLR0913 - the collaborators and two clocks have nothing in common
        self,
        store: Store,
        committer: Committer,
        observations: Observations,
        chooser: Chooser,
        *,
        broker: Callable[[], BrokerCpu | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`broker` returns the CPU of the broker, if this manager runs it."""
        self._store = store
        self._committer = committer
        self._observations = observations
        self._chooser = chooser
        self._broker = broker
        self._clock = clock
        self._wall = wall
        self._due = 0.0
        self._last: _Look | None = None
        self._open = 0
        """The beginning of the open minute."""
        self._splits = CostSplit()
        """The work in the open minute."""
        self._unwritten: list[Minute] = []

    def look(self) -> None:
        """Meter the work since the last look, if it is time."""
        now = self._clock()
        if now < self._due or not self._committer.leads:
            return
        self._fold(now)
        minute = int(self._wall()) // MINUTE * MINUTE
        # Never backwards, because a minute is written only once.
        if minute > self._open:
            self._close()
            self._open = minute
            self._write()
        self._due = self._clock() + max(_LOOK_EVERY, (self._clock() - now) / _SHARE)

    def end(self) -> None:
        """Write the open minute, and forget all counters."""
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
            done = growth(before.counters, look.counters)
            more = split(done, before.usage, look.usage, pace=self._committer.ground.pace)
            self._splits = combined((self._splits, more))

    def _seen(self, now: float) -> _Look:
        with self._committer.looking() as state:
            version, there = state.version, [str(job) for job in (*state.plans, *state.stopped)]
            before = self._last
            known = before.usage if before is not None and before.version == version else None
            running = running_snapshot(state) if known is None else None
        jobs = {job: seen for job in there if (seen := self._observations.job(job)) is not None}
        return _Look(
            version=version,
            usage=usage_of(running) if running is not None else known or Usage(),
            counters=counters(
                before.counters if before is not None else None,
                now,
                self._observations.hosts(),
                jobs,
                there=there,
                broker=self._broker(),
            ),
        )

    def _close(self) -> None:
        """Settle the open minute."""
        done, self._splits = self._splits, CostSplit()
        if not done.seconds:
            return
        price = present_price(self._chooser, self._committer.ground.pace)
        self._unwritten = [*self._unwritten, Minute(at=self._open, settled=settle(done, price))][-_MOST_UNWRITTEN:]

    def _write(self) -> None:
        if self._unwritten:
            with self._store.write() as session:
                if not write(session, self._committer.name, self._unwritten):
                    log.info("another manager leads, and meters from now on")
            self._unwritten = []


def present_price(chooser: Chooser, pace: float) -> Price:
    """Return the prices as they are known now, for jobs of a pace."""
    paid, (low, high) = chooser.paid()
    return Price(batch=paid.batch, batch_low=low, batch_high=high, bridge=paid.bridge, paused=paid.paused, pace=pace)


def broker_cpu(keeper: int | None, folder: str) -> BrokerCpu | None:
    """Return the CPU of the broker that a keeper runs with its files in a folder; None if there is none."""
    try:
        for child in psutil.Process(keeper).children() if keeper is not None else ():
            if any(word.startswith(folder) for word in child.cmdline()):
                times = child.cpu_times()
                return BrokerCpu(pid=child.pid, began=began(child), seconds=times.user + times.system)
    except psutil.Error:
        # The broker has ended and will be started again.
        return None
    return None
