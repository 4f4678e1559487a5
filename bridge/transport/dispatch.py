"""Dispatch: what a client hands on of what its broker sends, and what becomes of everything else.

Two rules hold for each client. A message whose topic it did not ask for is acknowledged, counted and not handed on:
some brokers send a new subscriber what is retained under other topics, and each sends for a while what was just left.
And what is called in the client's thread may raise whatever it likes: that is logged with the topic and the reason and
counted, and the thread goes on.

A message whose callback raised is not acknowledged, because nobody knows whether it is kept anywhere: where the session
is lasting, it comes again with the next connection. But a message that can never be handled must not keep all others
out, and a broker sends only so many ahead that nobody acknowledged. So no more than `MOST_UNHANDLED` of one connection
stay so, and those beyond are acknowledged. Callbacks acknowledge last, or hand on to somebody who does.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from paho.mqtt.client import topic_matches_sub

from bridge.message import Message

MOST_UNHANDLED = 10
"""Few, because some brokers send no more than twenty ahead."""
_MOST_REMEMBERED = 10_000
"""Topics; whoever publishes may make up any number of them."""
_WILD = ("+", "#")
_SHARED = "$share/"
log = logging.getLogger("braid.mqtt")


class PassedOver(NamedTuple):
    """How many messages this process passed over; made by `passed_over`."""

    unasked: int
    """They came on topics that nobody had asked for."""
    failed: int
    """Whoever should have handled them raised an error."""


class _Tally:
    """Counts for the whole process: clients come and go, and what they met is to be seen after them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._unasked = 0
        self._failed = 0
        self._failures: Counter[str] = Counter()

    @property
    def counts(self) -> PassedOver:
        with self._guard:
            return PassedOver(self._unasked, self._failed)

    def note_unasked(self) -> int:
        """Count a message; how many they are by now."""
        with self._guard:
            self._unasked += 1
            return self._unasked

    def note_failed(self, about: str) -> int:
        """Count a failure; how many there are by now about the same."""
        with self._guard:
            self._failed += 1
            if len(self._failures) > _MOST_REMEMBERED:
                self._failures.clear()
            self._failures[about] += 1
            return self._failures[about]


_tally = _Tally()


def passed_over() -> PassedOver:
    """What the clients of this process, and those behind them, passed over so far."""
    return _tally.counts


def note_failed(about: str, error: Exception) -> None:
    """Count that something raised, and log it: for a message, `about` is its topic. Any thread may call it."""
    number = _tally.note_failed(about)
    if _is_told(number):
        log.error("%s: passed over, because of %r; %d so far", about, error, number, exc_info=error)


def note_unasked(topic: str) -> None:
    """Count a message that nobody asked for, and log it."""
    number = _tally.note_unasked()
    if _is_told(number):
        log.info("topic %s: passed over, because nobody here asked for it; %d so far", topic, number)


def guarded(about: str, act: Callable[[], None]) -> None:
    """Do something in a client's thread, which goes on whatever comes of it."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever it is, the thread serves others too
        note_failed(about, error)


class SubscribedFilters:
    """The topic filters that a client asked for.

    >>> asked = SubscribedFilters(["a/b", "jobs/+/plan", "$share/all/c/#"])
    >>> [asked.cover(topic) for topic in ("a/b", "jobs/1/plan", "c/d/e", "a", "$SYS/broker")]
    [True, True, True, False, False]
    """

    def __init__(self, filters: Iterable[str] = ()) -> None:
        self._exact: dict[str, None] = {}
        self._wild: dict[str, None] = {}
        self._known: dict[str, bool] = {}
        """Whether those with wildcards cover a topic, so that each is compared once."""
        self.add(filters)

    def add(self, filters: Iterable[str]) -> None:
        """Cover more; one thread at a time, while another one may ask."""
        for each in filters:
            (self._wild if _is_wild(each) else self._exact)[each] = None
        self._known = {}

    def discard(self, filters: Iterable[str]) -> None:
        """Cover less; as `add`."""
        for each in filters:
            (self._wild if _is_wild(each) else self._exact).pop(each, None)
        self._known = {}

    def cover(self, topic: str) -> bool:
        """Whether one of them asks for a topic."""
        if topic in self._exact or self._known.get(topic):
            return True
        return bool(self._wild) and self._covers(topic)

    def _covers(self, topic: str) -> bool:
        # Another one takes its place when the filters change, so that what is found now is forgotten with it.
        known = self._known
        found = known.get(topic)
        if found is None:
            found = any(topic_matches_sub(_plain(each), topic) for each in list(self._wild))
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[topic] = found
        return found


class Dispatch:
    """Hands on the messages of one client, in its thread."""

    def __init__(
        self, filters: SubscribedFilters, hand_on: Callable[[Message], None], drop: Callable[[Message], None]
    ) -> None:
        """`drop` acknowledges a message that nobody will handle."""
        self._filters = filters
        self._hand_on = hand_on
        self._drop = drop
        self._unhandled = 0

    def connected(self) -> None:
        """A connection begins, over which all that was not acknowledged comes again."""
        self._unhandled = 0

    def hear(self, messages: Iterable[Message]) -> None:
        """Hand on what was asked for."""
        cover, hand_on = self._filters.cover, self._hand_on
        for message in messages:
            if not cover(message.topic):
                note_unasked(message.topic)
                self._drop(message)
                continue
            try:
                hand_on(message)
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread serves others too
                note_failed(f"topic {message.topic}", error)
                self._unhandled += 1
                if self._unhandled > MOST_UNHANDLED:
                    self._drop(message)


def _is_told(number: int) -> bool:
    """Whether to log that it has happened so often: a flood of what is wrong must not become one of lines."""
    return number & (number - 1) == 0


def _is_wild(topic: str) -> bool:
    return topic.startswith(_SHARED) or any(sign in topic for sign in _WILD)


def _plain(topic: str) -> str:
    """A filter without the group that shares it."""
    return topic.split("/", 2)[2] if topic.startswith(_SHARED) and topic.count("/") > 1 else topic
