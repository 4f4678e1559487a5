"""A message that a broker delivered."""

import msgspec

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
