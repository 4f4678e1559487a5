"""The writer of series: looks at the counters whenever a finest step ends, and writes what was done in it.

It has a thread of its own, and computes without the committer's lock and outside of transactions. A step that cannot be
written is lost. A leader's first look only learns where the counters stand, so the step before it is a gap.
"""

import logging
import time
from collections.abc import Callable, Mapping

from manager.savings.counters import Usage, counters, running_snapshot, usage_of
from manager.savings.meter import present_price
from manager.series.figures import CountedParts, SeriesLook, counted_parts, dataflow_figures
from manager.series.resolutions import FINEST, write_step
from manager.use_case import Tools

log = logging.getLogger("braid.series")


class SeriesWriter:
    """The writer of one manager. One thread calls `look` repeatedly, and `end` when the manager no longer leads."""

    def __init__(
        self,
        tools: Tools,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._tools = tools
        self._clock = clock
        self._wall = wall
        self._step: int | None = None
        """The beginning of the step of the last look."""
        self._last: SeriesLook | None = None
        self._parts: tuple[int, Usage, Mapping[str, CountedParts]] = (-1, Usage(), {})
        """The parts of dataflows and what they use, with the version of the committed state that they are from."""

    def look(self) -> None:
        """Write the step that is over, if one is."""
        step = int(self._wall()) // FINEST * FINEST
        if step == self._step or not self._tools.committer.leads:
            return
        before, self._last, self._step = self._last, self._seen(), step
        if before is None:
            return
        price = present_price(self._tools.chooser, self._tools.committer.ground.pace)
        known = dataflow_figures(before, self._last, price)
        with self._tools.store.write() as session:
            if not write_step(session, self._tools.committer.name, step - FINEST, known):
                log.info("another manager leads, and writes series from now on")

    def end(self) -> None:
        """Forget all counters."""
        self._last = self._step = None

    def _seen(self) -> SeriesLook:
        before, tools = self._last, self._tools
        version, usage, parts = self._parts
        with tools.committer.looking() as state:
            there = [str(job) for job in (*state.plans, *state.stopped)]
            running = running_snapshot(state) if state.version != version else None
            version = state.version
        if running is not None:
            usage = usage_of(running)
            parts = counted_parts(running, usage)
            self._parts = (version, usage, parts)
        seen = counters(
            before.counters if before is not None else None,
            self._clock(),
            tools.seeing.hosts(),
            {job: report for job in there if (report := tools.seeing.job(job)) is not None},
            there=there,
        )
        return SeriesLook(counters=seen, usage=usage, parts=parts)
