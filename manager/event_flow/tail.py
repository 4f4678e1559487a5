"""A tail: all events that leave outputs of one dataflow, for a reader that may be too slow for them.

The queue is bounded; when it is full, the oldest messages are dropped. Events are numbered, so the reader learns how
many it missed, and an event that is sent again, or was read from records before, is not shown twice.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.delivery.publisher import RUNS
from manager.answers import OutputEvent
from manager.event_flow.output_reader import OutputReader

_MOST_WAITING = 4_000_000
"""Bytes of messages in the queue at most."""
log = logging.getLogger("braid.tailing")


class _Place(NamedTuple):
    """A position in the output of a sink."""

    epoch: int
    next: int


class _Message(NamedTuple):
    """A message of an output."""

    epoch: int
    first: int
    events: list[Any]


class Tail(OutputReader):
    """A tail of some outputs; made by `manager.event_flow.output_watcher.OutputWatcher`. Thread-safe."""

    def __init__(self, sinks: Mapping[str, str], *, most_waiting: int = _MOST_WAITING) -> None:
        """`sinks` has the sink of each topic."""
        super().__init__()
        self.topics = frozenset(sinks)
        self._sinks = sinks
        self._most_waiting = most_waiting
        self._guard = threading.Lock()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._recalled: list[OutputEvent] = []
        """Earlier events, which are shown first."""
        self._places: dict[str, _Place] = {}
        """The position up to which each sink was read."""
        self._lost: dict[str, _Place] = {}
        """The position of the first dropped message of each sink, if none of its messages was read before."""

    def receive(self, topic: str, payload: bytes) -> None:
        """Queue a message of an output."""
        with self._guard:
            self._waiting.append((topic, payload))
            self._bytes += len(payload)
            while self._bytes > self._most_waiting and len(self._waiting) > 1:
                self._lose(*self._waiting.popleft())
        self._notify()

    def prepend(self, topic: str, messages: Iterable[bytes], last: int) -> None:
        """Put the last events of earlier messages before those that have arrived meanwhile."""
        sink = self._sinks[topic]
        recalled = deque((each for payload in messages for each in self.read(sink, payload)), maxlen=last)
        with self._guard:
            self._recalled += recalled

    def take(self) -> Iterator[OutputEvent]:
        """Yield all events that have arrived; for one thread at a time."""
        with self._guard:
            recalled, self._recalled = self._recalled, []
        yield from recalled
        while True:
            with self._guard:
                if not self._waiting:
                    return
                topic, payload = self._waiting.popleft()
                self._bytes -= len(payload)
            yield from self.read(self._sinks[topic], payload)

    def read(self, sink: str, payload: bytes) -> Iterator[OutputEvent]:
        """Yield the events of a message that were not read before, and the number missed before them."""
        if (message := _read(sink, payload)) is not None:
            yield from self._new(sink, *message)

    def _lose(self, topic: str, payload: bytes) -> None:
        self._bytes -= len(payload)
        sink = self._sinks[topic]
        # Once a message was read, the gap shows in the numbers of the next.
        if sink not in self._places and sink not in self._lost and (message := _read(sink, payload)) is not None:
            self._lost[sink] = _Place(message.epoch, message.first)

    def _new(self, sink: str, epoch: int, first: int, events: list[Any]) -> Iterator[OutputEvent]:
        known = self._places.get(sink)
        if known is None and (lost := self._lost.get(sink)) is not None and lost.next < first:
            known = lost
        if known is not None and epoch < known.epoch:
            return
        following = first if known is None or known.epoch < epoch else known.next
        if first > following:
            yield OutputEvent(sink=sink, epoch=epoch, number=following, missed=first - following)
        for number, event in enumerate(events, first):
            if number >= following:
                yield OutputEvent(sink=sink, epoch=epoch, number=number, event=event)
        self._places[sink] = _Place(epoch, max(following, first + len(events)))


def _read(sink: str, payload: bytes) -> _Message | None:
    """Parse a message of an output; None if it cannot be read."""
    try:
        content = json.loads(payload)
        # Every start of a job raises the epoch, but the numbers continue.
        return _Message(int(content["epoch"]) // RUNS, int(content["first"]), list(content["events"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("an output of %r is passed over, because it cannot be read: %s", sink, error)
        return None
