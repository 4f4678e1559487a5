"""A connection between two machines that know one secret, for frames.

Both prove that they know it before anything else is said, and neither says it. A frame is preceded by its length. Where
machines have certificates all of it is inside TLS. The owner speaks first, so the peer sees what it speaks.
"""

import hmac
import socket
import ssl
import time
from contextlib import suppress
from secrets import token_bytes

import msgspec

from engine.replicas.copy_tls import CopyTls, tls_reason
from engine.replicas.frames import Frame, decoded, encoded

PIECE_BYTES = 1 << 20
"""The most bytes of files in one frame."""
_MOST = 16 << 20
"""The longest frame: a list of a few thousand long names."""
_HELLO = b"braid copies 1\n"
"""What an owner says first."""
_TLS_HELLO = b"\x16"
"""What it begins with over TLS."""
_NONCE = 32
_TLS_ALONE = b"this machine speaks TLS alone".ljust(_NONCE)
"""Said in the place of a nonce."""
_NO_TLS = b"this machine speaks no TLS".ljust(_NONCE)
"""Said to those who begin with TLS; it is none, so that they give up at once."""
_PATIENCE = 30.0
"""Seconds that the other side may say nothing, or take nothing."""
_GREETING = 5.0
"""Seconds for making a connection, and for proving to know the secret."""


class WrongSecret(ConnectionError):
    """The other side does not know the secret."""


class Disconnected(ConnectionError):
    """The other side hung up, or said what nobody can read."""


class TlsFailed(Disconnected):
    """The two sides do not come together over TLS; the message says why."""


class Channel:
    """One end of a connection; used by one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(_GREETING)

    @classmethod
    def to(cls, at: str, secret: str, tls: CopyTls | None = None) -> "Channel":
        """Connect to a peer at "host:port"; over TLS if this machine has it."""
        host, _, port = at.rpartition(":")
        if not host or not port.isdigit():
            raise Disconnected(f"{at!r} is no address of a machine; it reports host:port if it takes copies")
        host = host.strip("[]")
        channel = cls(socket.create_connection((host, int(port)), timeout=_GREETING))
        try:
            if tls is not None:
                channel._begin_tls(tls, host)
            channel._ask(secret)
        except BaseException:
            channel.close()
            raise
        return channel

    def _begin_tls(self, tls: CopyTls, host: str) -> None:
        self._socket = secured = tls.to(self._socket, host)
        try:
            secured.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(f"the certificate of the machine at {host} is not trusted: {tls_reason(error)}") from error
        except OSError as error:
            raise TlsFailed(
                f"no TLS with the machine at {host}: {tls_reason(error)}; see whether it has a certificate of the same "
                "authority"
            ) from error

    def _ask(self, secret: str) -> None:
        self._socket.sendall(_HELLO)
        theirs, own = self._exactly(_NONCE), token_bytes(_NONCE)
        if theirs == _TLS_ALONE:
            raise TlsFailed(
                "the machine there takes copies over TLS alone, and this one was started without certificates"
            )
        self._socket.sendall(own + _proof(secret, b"owner", theirs, own))
        if not hmac.compare_digest(self._exactly(_NONCE), _proof(secret, b"peer", own, theirs)):
            raise WrongSecret("the machine there does not know its secret; another process may have its address")
        self._socket.settimeout(_PATIENCE)

    def admit(self, secret: str, tls: CopyTls | None = None) -> None:
        """Let the other side prove that it knows the secret, then prove it; over TLS if this machine has it."""
        try:
            self._agree_on_tls(tls)
        except TlsFailed:
            # So that the other side reads why.
            self._come_to_an_end()
            raise
        if self._exactly(len(_HELLO)) != _HELLO:
            raise WrongSecret("somebody who is no machine tried to connect")
        own = token_bytes(_NONCE)
        self._socket.sendall(own)
        theirs = self._exactly(_NONCE)
        if not hmac.compare_digest(self._exactly(_NONCE), _proof(secret, b"owner", own, theirs)):
            raise WrongSecret("somebody who does not know the secret of this machine tried to connect")
        self._socket.sendall(_proof(secret, b"peer", theirs, own))
        self._socket.settimeout(_PATIENCE)

    def _agree_on_tls(self, tls: CopyTls | None) -> None:
        try:
            begins = self._socket.recv(1, socket.MSG_PEEK)
            if not begins:
                raise Disconnected("the other side hung up")
            if tls is None:
                if begins == _TLS_HELLO:
                    self._socket.sendall(_NO_TLS)
                    raise TlsFailed("it connected over TLS, and this machine was started without certificates")
                return
            if begins != _TLS_HELLO:
                self._socket.sendall(_TLS_ALONE)
                raise TlsFailed("it connected without TLS, and this machine takes copies over TLS alone")
            self._socket = secured = tls.of(self._socket)
            secured.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(f"its certificate is not trusted: {tls_reason(error)}") from error
        except ssl.SSLError as error:
            raise TlsFailed(f"no TLS with it: {tls_reason(error)}") from error

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
            self._come_to_an_end()

    def _come_to_an_end(self) -> None:
        with suppress(OSError):
            self._shut(socket.SHUT_WR)
            self._socket.settimeout(_GREETING)
            ignored = bytearray(PIECE_BYTES)
            ends = time.monotonic() + _GREETING
            # Below TLS, since it is not read.
            while time.monotonic() < ends and socket.socket.recv_into(self._socket, ignored):
                pass

    def hang_up(self) -> None:
        """End the connection; those who send or receive get an error. From any thread."""
        with suppress(OSError):
            self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        # An SSLSocket would end TLS first, and another thread could send and receive in clear for a moment.
        socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """End the connection, and give its resources back; from the thread that uses it."""
        self._socket.close()

    def _exactly(self, length: int) -> bytearray:
        content = bytearray(length)
        rest = memoryview(content)
        while rest:
            try:
                taken = self._socket.recv_into(rest)
            except ssl.SSLError as error:
                # In TLS 1.3 an owner hears only now what the peer says to its certificate.
                raise TlsFailed(f"the other side does not go on over TLS: {tls_reason(error)}") from error
            except OSError as error:
                raise Disconnected(f"the other side says nothing: {error}") from error
            if not taken:
                raise Disconnected("the other side hung up")
            rest = rest[taken:]
        return content


def _proof(secret: str, side: bytes, first: bytes | bytearray, second: bytes | bytearray) -> bytes:
    return hmac.digest(secret.encode(), b"braid copies 1 " + side + first + second, "sha256")
