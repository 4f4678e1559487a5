"""The subscriptions of a client, and the dispatch of its messages to its callbacks.

Subscriptions are sent again with each connection, and the broker confirms them. Two rules hold for what comes. A
message of a topic that the client did not subscribe to is acknowledged, counted and not handed on: some brokers send a
new subscriber the retained messages of other topics, and every broker sends a few more messages after an
unsubscription. And callbacks in the client's thread may raise any error: it is logged with the topic and the reason,
and counted, and the thread goes on.

A message whose callback raised is not acknowledged, because it may not be kept anywhere: in a lasting session it comes
again with the next connection. But a message that can never be handled must not keep all others out, and a broker sends
only so many unacknowledged messages. So at most `MOST_UNHANDLED` messages of one connection stay unacknowledged, and
further ones are acknowledged. Callbacks acknowledge last, or hand on to a thread that does.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.client import topic_matches_sub

from bridge.messages import Message
from bridge.topics import ROOT
from bridge.transport.address import is_unknown_user, why_refused

MOST_UNHANDLED = 10
"""Messages; few, because some brokers send no more than twenty unacknowledged ones."""
_MOST_REMEMBERED = 10_000
"""Topics; publishers may make up any number of them."""
_LONGEST_REMEMBERED = 1_000
"""Characters of a topic; publishers may make up long ones too."""
_WILD = ("+", "#")
_SHARED = "$share/"
log = logging.getLogger("braid.mqtt")


class PassedOver(NamedTuple):
    """Counts of the messages that this process did not handle; made by `passed_over`."""

    unasked: int
    failed: int
    """Messages whose callback raised an error."""


# Counts of the whole process, because they outlive clients.
_guard = threading.Lock()
_counts = Counter[str]()
_failures = Counter[str]()


def passed_over() -> PassedOver:
    """The messages that the clients of this process have not handled so far."""
    with _guard:
        return PassedOver(_counts["unasked"], _counts["failed"])


def note_failed(about: str, error: Exception) -> None:
    """Count and log an error. `about` is its subject, such as a topic. Any thread may call it."""
    with _guard:
        _counts["failed"] += 1
        if len(_failures) > _MOST_REMEMBERED:
            _failures.clear()
        _failures[about] += 1
        number = _failures[about]
    if _is_logged(number):
        log.error("%s: passed over, because of %r; %d so far", about, error, number, exc_info=error)


def note_unasked(topic: str) -> None:
    """Count and log a message of a topic without a subscription."""
    with _guard:
        _counts["unasked"] += 1
        number = _counts["unasked"]
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
        for topic_filter in filters:
            (self._wild if _is_wild(topic_filter) else self._exact)[topic_filter] = None
        self._known = {}

    def discard(self, filters: Iterable[str]) -> None:
        """Remove filters; as `add`."""
        for topic_filter in filters:
            (self._wild if _is_wild(topic_filter) else self._exact).pop(topic_filter, None)
        self._known = {}

    def cover(self, topic: str) -> bool:
        """True if one of the filters matches a topic."""
        if topic in self._exact or self._known.get(topic):
            return True
        return bool(self._wild) and self._covers(topic)

    def _covers(self, topic: str) -> bool:
        # A change of the filters replaces this dictionary, so a result that is known now is forgotten with it.
        known = self._known
        is_covered = known.get(topic)
        if is_covered is None:
            is_covered = any(topic_matches_sub(_plain(topic_filter), topic) for topic_filter in list(self._wild))
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            if len(topic) <= _LONGEST_REMEMBERED:
                known[topic] = is_covered
        return is_covered


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


PARTING = 2.0
"""Seconds for a broker to take the last acknowledgements."""
_UNUSED_TOPIC = f"{ROOT}/nobody"


class Subscriptions:
    """Topics of one client, and the state of its connection. Any thread may use it.

    Its lock must not be held while publishing: paho holds its own lock on outgoing messages while it calls back, and
    publishing takes that lock.
    """

    def __init__(self, client: paho.Client, topics: Iterable[str]) -> None:
        self.filters = SubscribedFilters()
        self._client = client
        self._topics = dict.fromkeys(topics)
        self.filters.add(self._topics)
        self._connected = False
        self._pending: dict[int, tuple[str, ...]] = {}
        """The topics of subscriptions that the broker has not confirmed, by message id."""
        self._confirmed: set[str] = set()
        self._ended = 0
        """The last message id with which the broker confirmed the end of a subscription."""
        self.refusal = "no answer"
        """Why the broker refused the client or a subscription last, or why there is no connection."""
        self._turned_away = False
        """True if the broker does not know this user, so that waiting is useless."""
        self._changed = threading.Condition()
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics."""
        return tuple(self._topics)

    @property
    def is_connected(self) -> bool:
        """True if a broker has accepted the client."""
        with self._changed:
            return self._connected

    @property
    def awaits_broker(self) -> bool:
        """True until the broker has accepted the client and answered for every subscription."""
        return not self._connected or bool(self._pending)

    def add(self, topics: tuple[str, ...]) -> None:
        """Subscribe to more topics, now and with each new connection."""
        with self._changed:
            self._topics.update(dict.fromkeys(topics))
            self.filters.add(topics)
            if self._connected:
                self._subscribe(topics)

    def remove(self, topics: tuple[str, ...]) -> None:
        """End the subscriptions to topics."""
        with self._changed:
            for topic in topics:
                self._topics.pop(topic, None)
                self._confirmed.discard(topic)
            self.filters.discard(topics)
            if topics and self._connected:
                self._client.unsubscribe(list(topics))

    def await_confirmed(self, topics: tuple[str, ...], timeout: float) -> bool:
        """Wait until the broker has confirmed topics; returns False if it did not in time."""
        wanted = set(topics)
        with self._changed:
            self._changed.wait_for(
                lambda: self._turned_away or (self._connected and wanted <= self._confirmed), timeout
            )
            return self._connected and wanted <= self._confirmed

    def await_answer(self) -> None:
        """Wait until the broker, if it is there, has read everything that was sent before, such as acknowledgements.

        A connection that is closed while the broker sends is reset, and then the broker loses what it has not read yet.
        It answers in order, so an answer to any request without effect is enough.
        """
        with self._changed:
            if self._connected:
                _, mid = self._client.unsubscribe(_UNUSED_TOPIC)
                self._changed.wait_for(lambda: not self._connected or self._ended == mid, PARTING)

    def connected(self) -> None:
        """Subscribe to all topics over a new connection; called by the client's thread."""
        with self._changed:
            self._connected, self._turned_away = True, False
            self._pending.clear()
            self._confirmed.clear()
            self._subscribe(self.topics)
            self._changed.notify_all()

    def refused(self, reason: object) -> None:
        """Note that the broker refused the client; called by the client's thread."""
        with self._changed:
            self.refusal, self._turned_away = why_refused(reason), is_unknown_user(reason)
            self._changed.notify_all()

    def unreachable(self, why: str) -> None:
        """Note that no connection came about; called by the client's thread."""
        with self._changed:
            self.refusal = why

    def disconnected(self) -> None:
        """Note that the connection ended; called by the client's thread."""
        with self._changed:
            self._connected = False

    def _subscribe(self, topics: tuple[str, ...]) -> None:
        if topics:
            _, mid = self._client.subscribe([(topic, 1) for topic in topics])
            if mid is not None:
                self._pending[mid] = topics

    def _on_subscribe(self, _client: paho.Client, _data: Any, mid: int, reasons: list[Any], _properties: Any) -> None:
        with self._changed:
            topics = self._pending.pop(mid, ())
            if any(reason.is_failure for reason in reasons):
                self.refusal = "it refused a subscription"
                return
            self._confirmed.update(topic for topic in topics if topic in self._topics)
            self._changed.notify_all()

    def _on_unsubscribe(
        self, _client: paho.Client, _data: Any, mid: int, _reasons: list[Any], _properties: Any
    ) -> None:
        with self._changed:
            self._ended = mid
            self._changed.notify_all()
