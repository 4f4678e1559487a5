"""The line of domain events: one client of the broker that reads the outputs which policies name."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from bridge import Message, NotConnected

MOST_WAITING = 10_000
"""Events that wait for the next look at most; older ones are passed over, since guards go by the newest."""
log = logging.getLogger("braid.adapting")


class HeardEvent(NamedTuple):
    """An event that left at an output."""

    topic: str
    at: float
    """When it came, in seconds since 1970."""
    fields: Mapping[str, Any]


class EventLine(Protocol):
    """The broker's client, as domain events are read with it."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge these messages to the broker."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; returns once the broker has confirmed it, or raises `NotConnected`."""

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Read these topics no more."""


class EventConnector(Protocol):
    """Makes and starts a client without waiting for a broker."""

    def __call__(self, client_id: str, *, on_message: Callable[[Message], None]) -> EventLine:
        """Return a client without topics."""


class DomainEventLine:
    """Reads topics from the first time that any is wanted until `stop`; one thread takes what came."""

    def __init__(self, connect: EventConnector, *, clock: Callable[[], float] = time.time) -> None:
        self._connect = connect
        self._clock = clock
        self._line: EventLine | None = None
        self._read: frozenset[str] = frozenset()
        # Guards what waits.
        self._guard = threading.Lock()
        self._waiting: deque[HeardEvent] = deque(maxlen=MOST_WAITING)

    def take(self, topics: frozenset[str]) -> tuple[HeardEvent, ...]:
        """The events of some topics that came since the last time. From now on these topics are read."""
        self._follow(topics)
        with self._guard:
            found = tuple(each for each in self._waiting if each.topic in topics)
            self._waiting.clear()
        return found

    def stop(self) -> None:
        """Read nothing more; it can be used again."""
        line, self._line, self._read = self._line, None, frozenset()
        if line is not None:
            line.stop()

    def _follow(self, topics: frozenset[str]) -> None:
        if self._line is None and topics:
            self._line = self._connect("braid-adapts", on_message=self._receive)
        if self._line is None or topics == self._read:
            return
        try:
            if new := topics - self._read:
                self._line.subscribe(new)
            if gone := self._read - topics:
                self._line.unsubscribe(gone)
        except NotConnected as error:
            log.warning("some domain events are not read yet: %s", error)
        else:
            self._read = topics

    def _receive(self, message: Message) -> None:
        found = tuple(_events(message, self._clock()))
        with self._guard:
            self._waiting.extend(found)
        # It is assigned before any topic is subscribed to.
        if (line := self._line) is not None:
            line.acknowledge([message.token])


def _events(message: Message, now: float) -> tuple[HeardEvent, ...]:
    try:
        events = json.loads(message.payload)["events"]
        return tuple(HeardEvent(message.topic, now, each) for each in events if isinstance(each, dict))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("topic %s: passed over, because it is no output: %s", message.topic, error)
        return ()
