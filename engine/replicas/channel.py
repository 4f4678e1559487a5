"""A connection between two machines that know one secret, for frames.

Both prove that they know it before anything else is said, and neither says it. A frame is preceded by its length.
"""

import hmac
import socket
import time
from contextlib import suppress
from secrets import token_bytes

import msgspec

from engine.replicas.frames import Frame, decoded, encoded

PIECE_BYTES = 1 << 20
"""The most bytes of files in one frame."""
_MOST = 16 << 20
"""The longest frame: a list of a few thousand long names."""
_NONCE = 32
_PATIENCE = 30.0
"""Seconds that the other side may say nothing, or take nothing."""
_GREETING = 5.0
"""Seconds for making a connection, and for proving to know the secret."""


class WrongSecret(ConnectionError):
    """The other side does not know the secret."""


class Disconnected(ConnectionError):
    """The other side hung up, or said what nobody can read."""


class Channel:
    """One end of a connection; one thread sends and one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(_GREETING)

    @classmethod
    def to(cls, at: str, secret: str) -> "Channel":
        """Connect to a peer at "host:port"."""
        host, _, port = at.rpartition(":")
        if not host or not port.isdigit():
            raise Disconnected(f"{at!r} is no address of a machine; it reports host:port if it takes copies")
        channel = cls(socket.create_connection((host.strip("[]"), int(port)), timeout=_GREETING))
        try:
            channel._ask(secret)
        except BaseException:
            channel.close()
            raise
        return channel

    def _ask(self, secret: str) -> None:
        theirs, own = self._exactly(_NONCE), token_bytes(_NONCE)
        self._socket.sendall(own + _proof(secret, b"owner", theirs, own))
        if not hmac.compare_digest(self._exactly(_NONCE), _proof(secret, b"peer", own, theirs)):
            raise WrongSecret("the machine there does not know its secret; another process may have its address")
        self._socket.settimeout(_PATIENCE)

    def admit(self, secret: str) -> None:
        """Let the other side prove that it knows the secret, then prove it."""
        own = token_bytes(_NONCE)
        self._socket.sendall(own)
        theirs = self._exactly(_NONCE)
        if not hmac.compare_digest(self._exactly(_NONCE), _proof(secret, b"owner", own, theirs)):
            raise WrongSecret("somebody who does not know the secret of this machine tried to connect")
        self._socket.sendall(_proof(secret, b"peer", theirs, own))
        self._socket.settimeout(_PATIENCE)

    def send(self, frame: Frame) -> int:
        """Send a frame; returns its size."""
        body = encoded(frame)
        try:
            self._socket.sendall(len(body).to_bytes(4, "big") + body)
        except OSError as error:
            raise Disconnected(f"the other side takes nothing: {error}") from error
        return len(body)

    def receive(self) -> Frame:
        """The next frame."""
        length = int.from_bytes(self._exactly(4), "big")
        if length > _MOST:
            raise Disconnected(f"a frame of {length:,} bytes came, and {_MOST:,} are the most")
        try:
            return decoded(self._exactly(length))
        except msgspec.MsgspecError as error:
            raise Disconnected(f"a frame cannot be read: {error}") from error

    def part(self, frame: Frame) -> None:
        """Send a last frame, and let what is on its way come to an end, or the other side would never read it."""
        with suppress(OSError):
            self.send(frame)
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_GREETING)
            ignored = bytearray(PIECE_BYTES)
            ends = time.monotonic() + _GREETING
            while time.monotonic() < ends and self._socket.recv_into(ignored):
                pass

    def hang_up(self) -> None:
        """End the connection; those who send or receive get an error. From any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection, and give its resources back; from the thread that uses it."""
        self._socket.close()

    def _exactly(self, length: int) -> bytearray:
        content = bytearray(length)
        rest = memoryview(content)
        while rest:
            try:
                taken = self._socket.recv_into(rest)
            except OSError as error:
                raise Disconnected(f"the other side says nothing: {error}") from error
            if not taken:
                raise Disconnected("the other side hung up")
            rest = rest[taken:]
        return content


def _proof(secret: str, side: bytes, first: bytes | bytearray, second: bytes | bytearray) -> bytes:
    return hmac.digest(secret.encode(), b"braid copies 1 " + side + first + second, "sha256")
