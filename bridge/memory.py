"""The broker's twin in memory: the same sessions and acknowledgements, in one process and without a network.

It speeds tests up and lets them cut connections at will; it proves nothing about a real broker.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bridge.receiver import Message

_MIDS = 1 << 16


@dataclass(slots=True)
class _Session:
    topics: frozenset[str]
    client: "MemoryClient | None" = None
    unacknowledged: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """By message id, in the order in which they came."""
    next_mid: int = 1


class MemoryBroker:
    """Keeps a session for every client id, as a broker does for clients that ask for a lasting one."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def publish(self, topic: str, payload: bytes) -> None:
        """Deliver a message to every session that subscribed, and keep it until that session acknowledges."""
        for session in self._sessions.values():
            if topic in session.topics:
                session.unacknowledged[session.next_mid] = (topic, payload)
                if session.client is not None:
                    session.client.arrived(session.next_mid, topic, payload)
                session.next_mid += 1

    def session(self, client_id: str, topics: frozenset[str]) -> _Session:
        """The session of a client id, new or as it was."""
        session = self._sessions.setdefault(client_id, _Session(topics))
        session.topics = topics
        return session


class MemoryClient:
    """A client of the twin, as `bridge.mqtt.Client` is of a broker."""

    def __init__(
        self,
        broker: MemoryBroker,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._session = broker.session(client_id, frozenset(topics))
        self._on_message = on_message
        self._on_connection = on_connection
        self._connections = 0

    def start(self) -> None:
        """Connect; what was not acknowledged comes again."""
        self._session.client = self
        self._connections += 1
        self._on_connection()
        for mid, (topic, payload) in list(self._session.unacknowledged.items()):
            self.arrived(mid, topic, payload)

    def stop(self) -> None:
        """Disconnect; the session stays."""
        self._session.client = None

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages of this connection."""
        for token in tokens:
            connection, mid = divmod(token, _MIDS)
            if connection == self._connections:
                del self._session.unacknowledged[mid]

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message."""
        self._broker.publish(topic, payload)

    def arrived(self, mid: int, topic: str, payload: bytes) -> None:
        """Called by the broker for each message."""
        self._on_message(Message(topic, payload, self._connections * _MIDS + mid))
