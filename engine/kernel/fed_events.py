"""The events of dead letters that tasks take again in a batch, after those that arrived."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.event_streams import EventStream
from engine.kernel.dead_letter_feed import fitting, unshaped_rows
from engine.kernel.portion import Portion
from engine.plan import Feed
from engine.records.record import Dead


class _Fed(NamedTuple):
    """The events of one feed."""

    cause: int
    """The cause of the first event."""
    feed: Feed
    events: list[Any]


class FedEvents:
    """What is fed in one batch; made by the kernel. Events that cannot be taken are parked again."""

    def __init__(self, feeds: Sequence[Feed], cause: int, portion: Portion, dead: list[Dead]) -> None:
        """Causes begin with `cause`. Parked events are added to `dead`."""
        self._portion = portion
        self._dead = dead
        self._fed: list[_Fed] = []
        for feed in feeds:
            events = json.loads(feed.events)
            self._fed.append(_Fed(cause, feed, events))
            cause += len(events)

    def places(self) -> Iterator[tuple[int, str, int]]:
        """The cause, stream and position of the first event of each feed."""
        yield from ((each.cause, f"feed/{each.feed.id}", 0) for each in self._fed)

    def park_others(self, running: Collection[int]) -> None:
        """Park the events of instances that do not run."""
        for each in self._fed:
            if each.feed.instance not in running and self._portion.is_first:
                self._park(each.feed, each.events, "its task no longer runs")

    def taken(
        self, instance: int, takes: Mapping[str, pa.Schema], streams: frozenset[str]
    ) -> dict[str, list[EventStream]]:
        """The events for an instance in the part of some streams, at each of its ports."""
        found: dict[str, list[EventStream]] = {}
        if not self._fed:
            return found
        for cause, feed, events in (each for each in self._fed if each.feed.instance == instance):
            parks = self._portion.parks(min(streams, default=""))
            if feed.port not in takes:
                if parks:
                    self._park(feed, events, f"no stream enters its task at port {feed.port!r}")
                continue
            fits = fitting(events, takes[feed.port])
            for at, reason in fits.unfit if parks else ():
                self._park(feed, events[at : at + 1], reason)
            whole = EventStream(fits.rows, np.array(fits.kept, np.int64) + cause)
            own = whole if self._portion.is_all else whole.take(self._portion.taken_fed(streams, fits.rows))
            found.setdefault(feed.port, []).append(own)
        return found

    def _park(self, feed: Feed, events: Sequence[Any], reason: str) -> None:
        self._dead.append(Dead(instance=feed.instance, port=feed.port, reason=reason, events=unshaped_rows(events)))
