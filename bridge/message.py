"""A message that a broker delivered."""

import msgspec


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message that the broker delivered and that waits to be acknowledged."""

    topic: str
    payload: bytes
    token: int
    """Identifies the message to `acknowledge`, on the connection that it came over."""
