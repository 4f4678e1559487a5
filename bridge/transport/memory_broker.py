"""The broker's twin in memory: the same sessions and acknowledgements, in one process and without a network.

It speeds tests up and lets them cut connections at will; it proves nothing about a real broker.
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
    """By message id, in the order in which they came."""
    next_mid: int = 1
    lasting: bool = True
    """Whether messages are kept for a client that is away."""

    def take(self, topic: str, payload: bytes) -> None:
        """Keep a message, and deliver it if the client is there."""
        if self.client is None and not self.lasting:
            return
        mid = self.next_mid
        self.next_mid += 1
        self.unacknowledged[mid] = (topic, payload)
        if self.client is not None:
            self.client.arrived(mid, topic, payload)


class MemoryBroker:
    """Keeps a session for every client id, as a broker does for clients that ask for a lasting one."""

    def __init__(self) -> None:
        self.swallows: Callable[[str, bytes], bool] = lambda _topic, _payload: False
        """Says of each message whether the broker loses it after it has acknowledged it; tests set it."""
        self.lock = threading.RLock()
        """Held while anything changes; callbacks run inside and only hand on."""
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, bytes] = {}

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Deliver a message to every session that subscribed, and keep it until that session acknowledges."""
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
        """What the broker keeps for whoever subscribes to topics."""
        wanted = list(topics)
        found = self._retained.items()
        return [each for each in found if any(topic_matches_sub(topic, each[0]) for topic in wanted)]

    def session(self, client_id: str, topics: Iterable[str], *, lasting: bool = True) -> _Session:
        """The session of a client id, new or as it was."""
        with self.lock:
            session = self._sessions.setdefault(client_id, _Session({}))
            session.topics, session.lasting = dict.fromkeys(topics), lasting
            return session


class MemoryClient:
    """A client of the twin, as `bridge.transport.mqtt_client.MqttClient` is of a broker."""

    def __init__(  # noqa: PLR0913 - as the client whose twin it is
        self,
        broker: MemoryBroker,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
        on_disconnection: Callable[[], None] = lambda: None,
        will: tuple[str, bytes] | None = None,
        lasting: bool = True,
    ) -> None:
        self._broker = broker
        self._session = broker.session(client_id, topics, lasting=lasting)
        self._on_message = on_message
        self._on_connection = on_connection
        self._on_disconnection = on_disconnection
        self._will = will
        self._connections = 0
        self._outbox: list[tuple[str, bytes, bool, Callable[[str], None]]] = []

    def start(self) -> None:
        """Connect; what was not acknowledged comes again, then what is retained, and what waited is published."""
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

    def vanish(self) -> None:
        """Be gone without a word, as a process that was killed; the broker publishes the will."""
        self.stop()
        if self._will is not None:
            self._broker.publish(*self._will, retain=True)

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages of this connection."""
        with self._broker.lock:
            for token in tokens:
                connection, mid = divmod(token, _MIDS)
                if connection == self._connections and self._session.client is self:
                    del self._session.unacknowledged[mid]

    def subscribe(self, topics: Iterable[str], *, timeout: float = 10.0) -> None:  # noqa: ARG002 - it never waits
        """Get the messages of more topics, and what is retained of them."""
        with self._broker.lock:
            wanted = dict.fromkeys(topics)
            self._session.topics.update(wanted)
            if self._session.client is self:
                self._take_retained(wanted)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Get no more messages of topics."""
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
        """Send a message; without a connection it waits."""
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
        """Called by the broker for each message."""
        self._on_message(Message(topic, payload, self._connections * _MIDS + mid))
