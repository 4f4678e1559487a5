"""The dispatch of a client's messages: which ones are handed on, and what happens to all others.

Two rules hold for each client. A message of a topic that the client did not subscribe to is acknowledged, counted and
not handed on: some brokers send a new subscriber the retained messages of other topics, and every broker sends a few
more messages after an unsubscription. And callbacks in the client's thread may raise any error: it is logged with the
topic and the reason, and counted, and the thread goes on.

A message whose callback raised is not acknowledged, because it may not be kept anywhere: in a lasting session it comes
again with the next connection. But a message that can never be handled must not keep all others out, and a broker sends
only so many unacknowledged messages. So at most `MOST_UNHANDLED` messages of one connection stay unacknowledged, and
further ones are acknowledged. Callbacks acknowledge last, or hand on to a thread that does.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from paho.mqtt.client import topic_matches_sub

from bridge.message import Message

MOST_UNHANDLED = 10
"""Messages; few, because some brokers send no more than twenty unacknowledged ones."""
_MOST_REMEMBERED = 10_000
"""Topics; publishers may make up any number of them."""
_WILD = ("+", "#")
_SHARED = "$share/"
log = logging.getLogger("braid.mqtt")


class PassedOver(NamedTuple):
    """Counts of the messages that this process did not handle; made by `passed_over`."""

    unasked: int
    """Messages of topics without a subscription."""
    failed: int
    """Messages whose callback raised an error."""


class _Tally:
    """Counts of the whole process, because they outlive clients."""

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
        """Count a message; returns the new count."""
        with self._guard:
            self._unasked += 1
            return self._unasked

    def note_failed(self, about: str) -> int:
        """Count a failure; returns the new count of its subject."""
        with self._guard:
            self._failed += 1
            if len(self._failures) > _MOST_REMEMBERED:
                self._failures.clear()
            self._failures[about] += 1
            return self._failures[about]


_tally = _Tally()


def passed_over() -> PassedOver:
    """The messages that the clients of this process have not handled so far."""
    return _tally.counts


def note_failed(about: str, error: Exception) -> None:
    """Count and log an error. `about` is its subject, such as a topic. Any thread may call it."""
    number = _tally.note_failed(about)
    if _is_logged(number):
        log.error("%s: passed over, because of %r; %d so far", about, error, number, exc_info=error)


def note_unasked(topic: str) -> None:
    """Count and log a message of a topic without a subscription."""
    number = _tally.note_unasked()
    if _is_logged(number):
        log.info("topic %s: passed over, because there is no subscription to it; %d so far", topic, number)


def guarded(about: str, act: Callable[[], None]) -> None:
    """Call something in a client's thread, and count and log its error, if any."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the thread serves other callbacks too
        note_failed(about, error)


class SubscribedFilters:
    """The topic filters that a client subscribed to.

    >>> asked = SubscribedFilters(["a/b", "jobs/+/plan", "$share/all/c/#"])
    >>> [asked.cover(topic) for topic in ("a/b", "jobs/1/plan", "c/d/e", "a", "$SYS/broker")]
    [True, True, True, False, False]
    """

    def __init__(self, filters: Iterable[str] = ()) -> None:
        self._exact: dict[str, None] = {}
        self._wild: dict[str, None] = {}
        self._known: dict[str, bool] = {}
        """Topics, and whether filters with wildcards cover them; so each topic is compared once."""
        self.add(filters)

    def add(self, filters: Iterable[str]) -> None:
        """Add filters. One thread at a time may change them, while another one calls `cover`."""
        for each in filters:
            (self._wild if _is_wild(each) else self._exact)[each] = None
        self._known = {}

    def discard(self, filters: Iterable[str]) -> None:
        """Remove filters; as `add`."""
        for each in filters:
            (self._wild if _is_wild(each) else self._exact).pop(each, None)
        self._known = {}

    def cover(self, topic: str) -> bool:
        """True if one of the filters matches a topic."""
        if topic in self._exact or self._known.get(topic):
            return True
        return bool(self._wild) and self._covers(topic)

    def _covers(self, topic: str) -> bool:
        # A change of the filters replaces this dictionary, so a result that is found now is forgotten with it.
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
        self,
        filters: SubscribedFilters,
        hand_on: Callable[[Message], None],
        drop: Callable[[Message], None],
        *,
        all_at_once: Callable[[Sequence[Message]], None] | None = None,
    ) -> None:
        """`drop` acknowledges a message that will not be handled; `all_at_once` is called in place of `hand_on`."""
        self._filters = filters
        self._hand_on = hand_on
        self._drop = drop
        self._all_at_once = all_at_once
        self._unhandled = 0

    def connected(self) -> None:
        """Note a new connection, over which all unacknowledged messages come again."""
        self._unhandled = 0

    def hand_on_all(self, messages: Sequence[Message]) -> None:
        """Hand on the messages of subscribed topics, and drop the others."""
        unasked = {topic for topic in {message.topic for message in messages} if not self._filters.cover(topic)}
        if unasked:
            for message in messages:
                if message.topic in unasked:
                    note_unasked(message.topic)
                    self._drop(message)
            messages = [message for message in messages if message.topic not in unasked]
        if not messages:
            return
        try:
            if self._all_at_once is not None:
                self._all_at_once(messages)
                return
        except Exception as error:  # noqa: BLE001 - the thread serves other callbacks too
            self._fail(messages, error)
            return
        hand_on = self._hand_on
        for message in messages:
            try:
                hand_on(message)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail([message], error)

    def _fail(self, messages: Sequence[Message], error: Exception) -> None:
        for message in messages:
            note_failed(f"topic {message.topic}", error)
            self._unhandled += 1
            if self._unhandled > MOST_UNHANDLED:
                self._drop(message)


def _is_logged(number: int) -> bool:
    """True for counts that are logged: powers of two, so that many failures do not become as many lines."""
    return number & (number - 1) == 0


def _is_wild(topic: str) -> bool:
    return topic.startswith(_SHARED) or any(sign in topic for sign in _WILD)


def _plain(topic: str) -> str:
    """A filter without the group of a shared subscription."""
    return topic.split("/", 2)[2] if topic.startswith(_SHARED) and topic.count("/") > 1 else topic
