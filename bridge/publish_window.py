"""The messages that wait for a broker's answer, kept within bounds: they are held in memory."""

from collections.abc import Callable
from functools import partial

from bridge.message_transport import SenderTransport

MOST_UNANSWERED_BYTES = 64_000_000
_MOST_UNANSWERED_MESSAGES = 10_000  # message ids are few


class PublishWindow:
    """Publishes over a client, and counts what the broker has not answered; used by one sender, in its thread."""

    def __init__(
        self,
        transport: SenderTransport,
        *,
        enqueue: Callable[[Callable[[], None]], None],
        on_refusal: Callable[[str, str], None],
        most_bytes: int = MOST_UNANSWERED_BYTES,
    ) -> None:
        """`enqueue` takes the answers from the client's thread to the sender's."""
        self._transport = transport
        self._enqueue = enqueue
        self._on_refusal = on_refusal
        self._most_bytes = most_bytes
        self._bytes = 0
        self._messages = 0

    @property
    def has_room(self) -> bool:
        """True if one more message may be published."""
        return self._bytes < self._most_bytes and self._messages < _MOST_UNANSWERED_MESSAGES

    def publish(self, topic: str, payload: bytes, then: Callable[[str], None]) -> None:
        """Publish a message, and call `then` in the sender's thread with the broker's refusal; empty if it took it."""
        self._bytes += len(payload)
        self._messages += 1

        def note(refusal: str) -> None:
            self._bytes -= len(payload)
            self._messages -= 1
            if refusal:
                self._on_refusal(topic, refusal)
            then(refusal)

        self._transport.publish(topic, payload, answered=lambda refusal: self._enqueue(partial(note, refusal)))
