"""The connection of a listener to the broker, as it uses one; `MqttClient`, or a test's."""

from collections.abc import Callable, Iterable
from typing import Protocol

from bridge import Message


class ListenerLine(Protocol):
    """The broker's client, as a listener uses it."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge these messages to the broker."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message."""


class ListenerConnector(Protocol):
    """Makes and starts a client without waiting for a broker."""

    def __call__(
        self,
        client_id: str,
        *,
        topics: Iterable[str],
        on_message: Callable[[Message], None],
        on_connection: Callable[[], None],
        on_disconnection: Callable[[], None],
    ) -> ListenerLine:
        """Return a client that subscribes to these topics."""
