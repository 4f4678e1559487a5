"""The parts of an MQTT client that receivers and senders use."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol


class ReceiverTransport(Protocol):
    """A broker's client, as a receiver uses it."""

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        """Acknowledge messages in this order: they are durable. Calls `taken` once the broker has surely taken that."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message; if it is retained, the broker keeps it for later subscribers."""


class SenderTransport(Protocol):
    """A broker's client, as a sender uses it."""

    def together(self) -> AbstractContextManager[None]:
        """Send what is published within, in this thread, at its end and in few pieces."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages: they were understood."""

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, answered: Callable[[str], None] = ...
    ) -> None:
        """Send a message, and call `answered` with the broker's reason to refuse it; empty if it took the message."""

    def subscribe(self, topics: Iterable[str], *, timeout: float = ...) -> None:
        """Receive the messages of topics from now on."""

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Receive no more messages of topics."""
