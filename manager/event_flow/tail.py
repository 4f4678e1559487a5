"""A tail: every event that leaves at outputs of one dataflow, for a reader that may be slower than they come.

What waits for the reader is bounded; beyond that the oldest goes. The numbers of the events say how many those were,
and keep what is sent again, or was read from records before, from being shown twice.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.delivery.publisher import RUNS
from manager.answers import OutputEvent

MOST_WAITING = 4_000_000
"""Bytes of messages that wait for the reader."""
log = logging.getLogger("braid.tailing")


class _Place(NamedTuple):
    """Up to where a sink was read."""

    epoch: int
    next: int


class _Message(NamedTuple):
    """What an output's message says."""

    epoch: int
    first: int
    events: list[Any]


class Tail:
    """One reader's, until it is closed; made by `manager.event_flow.output_watcher.OutputWatcher`. Any thread may use it."""

    def __init__(self, sinks: Mapping[str, str], *, most_waiting: int = MOST_WAITING) -> None:
        """`sinks` has the sink of each topic."""
        self.topics = frozenset(sinks)
        self._sinks = sinks
        self._most_waiting = most_waiting
        self._guard = threading.Lock()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._recalled: list[OutputEvent] = []
        """What left before, and is shown first."""
        self._places: dict[str, _Place] = {}
        self._lost: dict[str, _Place] = {}
        """Where the first message was that went unread, before anything of its sink was read."""
        self._tell: Callable[[], object] = lambda: None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self._over

    def on_news(self, tell: Callable[[], object]) -> None:
        """Have somebody told, from any thread, when there is something to take; they only take a note of it."""
        self._tell = tell
        tell()

    def come(self, topic: str, payload: bytes) -> None:
        """Note a message of an output."""
        with self._guard:
            self._waiting.append((topic, payload))
            self._bytes += len(payload)
            while self._bytes > self._most_waiting and len(self._waiting) > 1:
                self._lose(*self._waiting.popleft())
        self._tell()

    def begin(self, topic: str, messages: Iterable[bytes], last: int) -> None:
        """Put what left before, the last events of it, before what came meanwhile."""
        sink = self._sinks[topic]
        recalled = deque((each for payload in messages for each in self.read(sink, payload)), maxlen=last)
        with self._guard:
            self._recalled += recalled

    def end(self) -> None:
        """Nothing more comes."""
        self._over = True
        self._tell()

    def take(self) -> Iterator[OutputEvent]:
        """What came since it was asked for before; for one thread at a time."""
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
        """The events of a message that were not read before, and how many were missed before them."""
        if (message := _read(sink, payload)) is not None:
            yield from self._new(sink, *message)

    def _lose(self, topic: str, payload: bytes) -> None:
        self._bytes -= len(payload)
        sink = self._sinks[topic]
        # Once something was read, the numbers that come next tell what is missing.
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
    """A message of an output; nothing where it cannot be read."""
    try:
        said = json.loads(payload)
        # Each start of a job has an epoch of its own, in which its numbers go on.
        return _Message(int(said["epoch"]) // RUNS, int(said["first"]), list(said["events"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("an output of %r is passed over, because it cannot be read: %s", sink, error)
        return None
