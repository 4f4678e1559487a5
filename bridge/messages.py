"""Messages: what a broker delivers, and how large it may be.

The bounds keep anybody's message from filling or holding up what others use too. An event is so much smaller than a
message that it fits into one in every form: in JSON a byte takes six at most.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
QoS: TypeAlias = Literal[0, 1]
"""Whether a message is sent once, or until the broker has answered that it has it."""

PACKET_IDS = 1 << 16
"""Tokens of a connection; what remains of a token is the packet id of the message."""

UNACKNOWLEDGED = 4_000
"""Messages that may wait to be acknowledged; beyond that the broker holds back. MQTT 3.1.1 has no such bound.

A client that fetches twenty times a second gets no more than this each time. Few would also mean small files: with a
quarter of it, a message takes half as much CPU again.
"""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message that the broker delivered and that waits to be acknowledged."""

    topic: str
    payload: bytes
    token: int
    """Identifies the message to `acknowledge`, on the connection that it came over."""
    again: bool = False
    """True if the broker may have delivered it over an earlier connection (DUP)."""
    retained: bool = False
    """True if it is what the topic retained when it was subscribed to, not what was published since."""


LARGEST_PACKET = 32_000_000
"""Bytes of a packet that a broker of Braid's takes. It disconnects a client that sends more."""
LARGEST_PAYLOAD = LARGEST_PACKET - 200_000
"""Bytes that Braid itself sends in one message; topic and properties take the rest of the packet."""
LARGEST_RAW_MESSAGE = 8_000_000
"""Bytes of a message of raw events."""
MOST_RAW_EVENTS = 100_000
"""Events in a message of raw events."""
LARGEST_EVENT = 4_000_000
"""Bytes of one event."""
MOST_UNFIT_REPORTED = 100
"""Events of one message that are each reported as unfit; those after them are reported together."""


def why_unsendable(payload: bytes) -> str:
    """Why no broker would take a message from Braid, which would be disconnected for it; empty if it is small enough.

    >>> why_unsendable(b"small")
    ''
    """
    if len(payload) <= LARGEST_PAYLOAD:
        return ""
    return f"it has {len(payload):,} bytes, and a message may have {LARGEST_PAYLOAD:,}"


def grouped(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in groups of at most so many bytes, but of at least one item.

    >>> list(grouped(["a", "bc", "defg", "h"], len, 3))
    [['a', 'bc'], ['defg'], ['h']]
    """
    group: list[T] = []
    total = 0
    for item in items:
        if group and total + size(item) > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group
