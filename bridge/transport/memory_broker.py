"""The broker's twin in memory: the same sessions and acknowledgements, in one process and without a network.

It makes tests fast and lets them cut connections at will. It proves nothing about a real broker.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from paho.mqtt.client import topic_matches_sub

from bridge.message import Message

_MIDS = 1 << 40


@dataclass(slots=True)
class _Session:
    topics: dict[str, None]
    client: "MemoryClient | None" = None
    unacknowledged: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """By message id, in the order of arrival."""
    next_mid: int = 1
    lasting: bool = True
    """True if messages are kept for a client that is away."""

    def take(self, topic: str, payload: bytes) -> None:
        """Keep a message, and deliver it if the client is connected."""
        if self.client is None and not self.lasting:
            return
        mid = self.next_mid
        self.next_mid += 1
        self.unacknowledged[mid] = (topic, payload)
        if self.client is not None:
            self.client.arrived(mid, topic, payload)


class MemoryBroker:
    """A broker with a session for each client id."""

    def __init__(self) -> None:
        self.swallows: Callable[[str, bytes], bool] = lambda _topic, _payload: False
        """True for messages that the broker loses after it has acknowledged them; tests set it."""
        self.lock = threading.RLock()
        """Held while anything changes. Callbacks run inside, and only hand on."""
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, bytes] = {}

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Deliver a message to every subscribed session, which keeps it until it is acknowledged."""
        with self.lock:
            if self.swallows(topic, payload):
                return
            if retain:
                self._retained.pop(topic, None)
                if payload:
                    self._retained[topic] = payload
            for session in self._sessions.values():
                if any(topic_matches_sub(each, topic) for each in session.topics):
                    session.take(topic, payload)

    def retained(self, topics: Iterable[str]) -> list[tuple[str, bytes]]:
        """The retained messages of topics."""
        wanted = list(topics)
        found = self._retained.items()
        return [each for each in found if any(topic_matches_sub(topic, each[0]) for topic in wanted)]

    def session(self, client_id: str, topics: Iterable[str], *, lasting: bool = True) -> _Session:
        """The session of a client id; made if there is none."""
        with self.lock:
            session = self._sessions.setdefault(client_id, _Session({}))
            session.topics, session.lasting = dict.fromkeys(topics), lasting
            return session


class MemoryClient:
    """A client of the twin, with the interface of `bridge.transport.mqtt_client.MqttClient`."""

    def __init__(  # noqa: PLR0913 - as the client whose twin it is
        self,
        broker: MemoryBroker,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
        on_disconnection: Callable[[], None] = lambda: None,
        lasting: bool = True,
    ) -> None:
        self._broker = broker
        self._session = broker.session(client_id, topics, lasting=lasting)
        self._on_message = on_message
        self._on_connection = on_connection
        self._on_disconnection = on_disconnection
        self._connections = 0
        self._outbox: list[tuple[str, bytes, bool, Callable[[str], None]]] = []

    def start(self) -> None:
        """Connect: unacknowledged messages come again, then retained ones, and waiting ones are published."""
        with self._broker.lock:
            self._session.client = self
            self._connections += 1
            self._on_connection()
            for mid, (topic, payload) in list(self._session.unacknowledged.items()):
                self.arrived(mid, topic, payload)
            self._take_retained(self._session.topics)
            waiting, self._outbox = self._outbox, []
            for topic, payload, retain, answered in waiting:
                self.publish(topic, payload, retain=retain, answered=answered)

    def stop(self) -> None:
        """Disconnect; the session stays."""
        with self._broker.lock:
            if self._session.client is self:
                self._session.client = None
                if not self._session.lasting:
                    self._session.unacknowledged.clear()
                self._on_disconnection()

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages of this connection."""
        with self._broker.lock:
            for token in tokens:
                connection, mid = divmod(token, _MIDS)
                if connection == self._connections and self._session.client is self:
                    del self._session.unacknowledged[mid]

    def subscribe(self, topics: Iterable[str], *, timeout: float = 10.0) -> None:  # noqa: ARG002 - it never waits
        """Receive the messages of more topics, and their retained messages."""
        with self._broker.lock:
            wanted = dict.fromkeys(topics)
            self._session.topics.update(wanted)
            if self._session.client is self:
                self._take_retained(wanted)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Receive no more messages of topics."""
        with self._broker.lock:
            for topic in topics:
                self._session.topics.pop(topic, None)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message. Without a connection it waits."""
        with self._broker.lock:
            if self._session.client is self:
                self._broker.publish(topic, payload, retain=retain)
                answered("")
            else:
                self._outbox.append((topic, payload, retain, answered))

    def _take_retained(self, topics: Iterable[str]) -> None:
        for topic, payload in self._broker.retained(topics):
            self._session.take(topic, payload)

    def arrived(self, mid: int, topic: str, payload: bytes) -> None:
        """Hand on a message; called by the broker."""
        self._on_message(Message(topic, payload, self._connections * _MIDS + mid))
