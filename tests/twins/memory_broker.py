"""The broker's twin in memory: the same sessions and acknowledgements, in one process and without a network.

It makes tests fast and lets them cut connections at will. It proves nothing about a real broker. As mosquitto does, it
gives packet ids in turn, and delivers again with the same id, marked.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from paho.mqtt.client import topic_matches_sub

from bridge.messages import PACKET_IDS, Message
from bridge.transport.mqtt_client import MqttClient


@dataclass(slots=True)
class _Parcel:
    topic: str
    payload: bytes
    retained: bool
    again: bool = False
    """True once it was sent."""


@dataclass(slots=True)
class _Session:
    topics: dict[str, None]
    client: "MemoryClient | None" = None
    unacknowledged: dict[int, _Parcel] = field(default_factory=dict)
    """By packet id, in the order of arrival."""
    last: int = 0
    """The packet id that was given last."""
    begun: bool = False
    """True once a client has connected."""
    lasting: bool = True
    """True if messages are kept for a client that is away."""

    def take(self, topic: str, payload: bytes, *, retained: bool = False) -> None:
        """Keep a message, and deliver it if the client is connected."""
        if self.client is None and not self.lasting:
            return
        self.last = self._following(self.last)
        while self.last in self.unacknowledged:
            self.last = self._following(self.last)
        self.unacknowledged[self.last] = _Parcel(topic, payload, retained)
        self.send(self.last)

    def send(self, packet: int) -> None:
        """Send a message that is not acknowledged, if the client is connected."""
        parcel = self.unacknowledged[packet]
        if self.client is not None:
            again, parcel.again = parcel.again, True
            self.client.arrived(packet, parcel.topic, parcel.payload, again=again, retained=parcel.retained)

    @staticmethod
    def _following(packet: int) -> int:
        return packet % (PACKET_IDS - 1) + 1


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

    def end_session(self, client_id: str) -> None:
        """Lose the session of a client that is away."""
        with self.lock:
            self._sessions.pop(client_id, None)

    def session(self, client_id: str, topics: Iterable[str], *, lasting: bool = True) -> _Session:
        """The session of a client id; made if there is none."""
        with self.lock:
            session = self._sessions.setdefault(client_id, _Session({}))
            session.topics, session.lasting = dict.fromkeys(topics), lasting
            return session


class MemoryClient(MqttClient):
    """A client of the twin, as far as tests use one."""

    def __init__(  # noqa: PLR0913 - as the client whose twin it is
        self,
        broker: MemoryBroker,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
        on_new_session: Callable[[], None] = lambda: None,
        on_disconnection: Callable[[], None] = lambda: None,
        lasting: bool = True,
    ) -> None:
        self._broker = broker
        self._kept = broker.session(client_id, topics, lasting=lasting)
        self._on_message = on_message
        self._on_connection = on_connection
        self._on_new_session = on_new_session
        self._on_disconnection = on_disconnection
        self._connections = 0
        self._outbox: list[tuple[str, bytes, bool, Callable[[str], None]]] = []

    def start(self, timeout: float = 10.0) -> None:  # noqa: ARG002 - it never waits
        """Connect: unacknowledged messages come again, then retained ones, and waiting ones are published."""
        with self._broker.lock:
            self._kept.client = self
            self._connections += 1
            if not self._kept.begun:
                self._kept.begun = True
                self._on_new_session()
            self._on_connection()
            for packet in list(self._kept.unacknowledged):
                self._kept.send(packet)
            self._take_retained(self._kept.topics)
            waiting, self._outbox = self._outbox, []
            for topic, payload, retain, answered in waiting:
                self.publish(topic, payload, retain=retain, answered=answered)

    def stop(self) -> None:
        """Disconnect; the session stays."""
        with self._broker.lock:
            if self._kept.client is self:
                self._kept.client = None
                if not self._kept.lasting:
                    self._kept.unacknowledged.clear()
                self._on_disconnection()

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        """Acknowledge messages of this connection."""
        with self._broker.lock:
            if self._kept.client is not self:
                return
            for token in tokens:
                connection, packet = divmod(token, PACKET_IDS)
                if connection == self._connections:
                    del self._kept.unacknowledged[packet]
            if taken is not None:
                taken()

    def subscribe(self, topics: Iterable[str], *, timeout: float = 10.0) -> None:  # noqa: ARG002 - as above
        """Receive the messages of more topics, and their retained messages."""
        with self._broker.lock:
            wanted = dict.fromkeys(topics)
            self._kept.topics.update(wanted)
            if self._kept.client is self:
                self._take_retained(wanted)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Receive no more messages of topics."""
        with self._broker.lock:
            for topic in topics:
                self._kept.topics.pop(topic, None)

    def together(self) -> AbstractContextManager[None]:
        """Send each message at once: nobody would wake up less often."""
        return nullcontext()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),  # noqa: ARG002 - nobody here reads them
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message. Without a connection it waits. Nobody here reads its properties."""
        with self._broker.lock:
            if self._kept.client is self:
                self._broker.publish(topic, payload, retain=retain)
                answered("")
            else:
                self._outbox.append((topic, payload, retain, answered))

    def publish_once(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),  # noqa: ARG002 - nobody here reads them
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message that is lost without a connection."""
        with self._broker.lock:
            if self._kept.client is self:
                self._broker.publish(topic, payload, retain=retain)
        answered("")

    def _take_retained(self, topics: Iterable[str]) -> None:
        for topic, payload in self._broker.retained(topics):
            self._kept.take(topic, payload, retained=True)

    def arrived(self, packet: int, topic: str, payload: bytes, *, again: bool, retained: bool) -> None:
        """Hand on a message; called by the broker."""
        self._on_message(Message(topic, payload, self._connections * PACKET_IDS + packet, again, retained))
