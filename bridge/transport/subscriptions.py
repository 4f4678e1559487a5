"""The subscriptions of a client: sent again with each connection, and confirmed by the broker."""

import threading
from collections.abc import Iterable
from typing import Any

import paho.mqtt.client as paho

from bridge.topics import ROOT
from bridge.transport.broker_login import is_unknown_user, why_refused
from bridge.transport.dispatch import SubscribedFilters

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
        self._refusal = "no answer"
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

    def are_confirmed(self, topics: Iterable[str]) -> bool:
        """True if the broker has confirmed topics over the present connection."""
        with self._changed:
            return self._connected and self._confirmed.issuperset(topics)

    @property
    def refusal(self) -> str:
        """The reason why the broker refused the client or a subscription last, or why there is no connection."""
        return self._refusal

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
            self._refusal, self._turned_away = why_refused(reason), is_unknown_user(reason)
            self._changed.notify_all()

    def unreachable(self, why: str) -> None:
        """Note that no connection came about; called by the client's thread."""
        with self._changed:
            self._refusal = why

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
                self._refusal = "it refused a subscription"
                return
            self._confirmed.update(topic for topic in topics if topic in self._topics)
            self._changed.notify_all()

    def _on_unsubscribe(
        self, _client: paho.Client, _data: Any, mid: int, _reasons: list[Any], _properties: Any
    ) -> None:
        with self._changed:
            self._ended = mid
            self._changed.notify_all()
