"""A connection between two machines that know one secret: TLS, the proof of the secret, and frames.

Both prove that they know the secret before anything else is said, and neither says it. The owner speaks first, so the
peer sees what it speaks. Where machines have certificates all of it is inside TLS: each shows a certificate that the
authority of all machines has signed, and asks for one. Files that are renewed on disk count from the next connection
on.

A frame is preceded by its length.

```text
owner  Greeting                              SentFiles ... SentFiles with a commit             SentFiles ...
peer             PresentFiles ... (last)                                            Confirmed
```

At any time a peer may answer `PeerRefusal`, and hang up.
"""

import hmac
import logging
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple, TypeAlias

import msgspec


class Greeting(msgspec.Struct, frozen=True, tag=True):
    """The first frame of an owner: whose files it is about to send, and as whose carrier."""

    host: str
    term: int
    machine: str


class PresentFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that a peer has."""

    path: str
    size: int
    mtime_ns: int
    digest: bytes = b""
    """Empty if size and time are enough to know it."""


class PresentFiles(msgspec.Struct, frozen=True, tag=True):
    """Some of the files and folders that a peer has; the last frame of them ends the answer to a `Greeting`."""

    files: list[PresentFile]
    folders: list[str]
    last: bool = False


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file, or all of it."""

    path: str
    size: int
    mtime_ns: int
    at: int
    data: bytes
    digest: bytes = b""
    """The digest of the whole file, with its last piece."""


class Commit(msgspec.Struct, frozen=True):
    """The end of a round, and what it does besides putting files: all of it takes effect, or nothing."""

    whole: bool
    """Whether the copy then has exactly the owner's files."""
    portion: bool = False
    """Whether more belongs to it, without which no host could begin from the copy."""
    folders: list[str] = []
    withdrawn: list[str] = []
    """Files that were sent since the last commit and do not count any more."""
    removed: list[str] = []
    removed_folders: list[str] = []
    """Folders to remove, the inner ones first."""


class SentFiles(msgspec.Struct, frozen=True, tag=True):
    """Files, or a part of one, which take effect with the next commit; perhaps that commit."""

    pieces: list[Piece] = []
    commit: Commit | None = None


class Confirmed(msgspec.Struct, frozen=True, tag=True):
    """A round is durable at the peer."""


class PeerRefusal(msgspec.Struct, frozen=True, tag=True):
    """A peer takes nothing from this owner, or cannot do its part for now."""

    why: str
    term: int = 0
    """The highest term of the host that the peer knows, if that is the reason."""


Frame: TypeAlias = Greeting | PresentFiles | SentFiles | Confirmed | PeerRefusal
_FRAME_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_ENCODE = msgspec.msgpack.Encoder().encode


class PeerRefuses(ConnectionError):
    """A peer or store takes nothing from this owner, or cannot do its part for now."""

    def __init__(self, why: str, term: int = 0) -> None:
        super().__init__(why)
        self.term = term
        """The highest term of the host that is known there, if that is the reason."""


_FLIGHTS = 8
"""More messages than either side sends in a handshake."""
log = logging.getLogger("braid.host")


class UnfitCertificate(ValueError):
    """Files that cannot be used for TLS; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a machine for TLS with others, in PEM format."""

    certificate: Path
    """The machine's certificate, and those between it and the authority."""
    key: Path
    authority: Path
    """The certificate of the authority that has signed those of all machines."""


class CopyTls:
    """One machine's TLS with others; called from any thread."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises UnfitCertificate."""
        self._files = files
        self._using = threading.Lock()
        self._versions = _versions(files)
        self._contexts = _load(files)

    def check_name(self, host: str) -> None:
        """Raise UnfitCertificate if others that connect to this name or IP address refuse the certificate."""
        _prove(self._files, self._current(), host)

    def owner_end(self, connection: socket.socket, host: str) -> ssl.SSLSocket:
        """The owner's end of a connection to the peer at a host; the handshake is to come."""
        context = self._current().owner
        return context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)

    def peer_end(self, connection: socket.socket) -> ssl.SSLSocket:
        """The peer's end of a connection; the handshake is to come."""
        context = self._current().peer
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _current(self) -> "_Contexts":
        with self._using:
            versions = _versions(self._files)
            if versions != self._versions:
                self._versions = versions
                try:
                    self._contexts = _load(self._files)
                except UnfitCertificate as error:
                    # Perhaps not all of them are there yet; then they change once more.
                    log.warning("copies: the certificate from before is still used, because %s", error)
                else:
                    log.info("copies: %s is used from now on", self._files.certificate)
            return self._contexts


class _Contexts(NamedTuple):
    owner: ssl.SSLContext
    peer: ssl.SSLContext


def tls_reason(error: OSError) -> str:
    """The reason of a failure of TLS, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__


def _versions(files: TlsFiles) -> list[tuple[int, int, int]]:
    """The versions of the files that are there, which change whenever a file does."""
    versions = []
    for path in (files.certificate, files.key, files.authority):
        with suppress(OSError):
            file_stat = path.stat()
            versions.append((file_stat.st_ino, file_stat.st_size, file_stat.st_ctime_ns))
    return versions


def _load(files: TlsFiles) -> _Contexts:
    for path in (files.certificate, files.key, files.authority):
        try:
            path.read_bytes()
        except OSError as error:
            raise UnfitCertificate(f"{path} cannot be read: {error.strerror}") from None
    contexts = _Contexts(owner=_context(ssl.PROTOCOL_TLS_CLIENT, files), peer=_context(ssl.PROTOCOL_TLS_SERVER, files))
    contexts.peer.verify_mode = ssl.CERT_REQUIRED
    # An owner connects seldom, and shows its certificate each time.
    contexts.peer.num_tickets = 0
    contexts.peer.options |= ssl.OP_NO_TICKET
    _prove(files, contexts)
    return contexts


def _context(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise UnfitCertificate(
            f"{files.authority} holds no certificate of an authority in PEM format: {tls_reason(error)}"
        ) from None

    def ask() -> str:
        raise UnfitCertificate(f"{files.key} is encrypted; give a key without a passphrase")

    try:
        context.load_cert_chain(files.certificate, files.key, ask)
    except ssl.SSLError as error:
        raise UnfitCertificate(
            f"{files.key} is not the key of {files.certificate}"
            if error.reason == "KEY_VALUES_MISMATCH"
            else f"{files.certificate} and {files.key} hold no certificate and its key in PEM format"
        ) from None
    return context


def _prove(files: TlsFiles, contexts: _Contexts, host: str = "") -> None:
    """Have both ends of this machine shake hands: what they do not accept, others do not either."""
    owner, peer = contexts
    if not host:
        owner = _context(ssl.PROTOCOL_TLS_CLIENT, files)
        owner.check_hostname = False
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [owner.wrap_bio(back, forth, server_hostname=host or None), peer.wrap_bio(forth, back, server_side=True)]
    for end in ends * _FLIGHTS:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as error:
            raise UnfitCertificate(
                f"{files.certificate} is no certificate for this machine signed by {files.authority}: "
                f"{tls_reason(error)}"
            ) from None


PIECE_BYTES = 1 << 20
"""The most bytes of files in one frame."""
_MOST = 256 << 20
"""The longest frame: the names of all files of a host, which are removed at once."""
_HELLO = b"braid copies 2\n"
_TLS_HELLO = b"\x16"
"""The first byte of a connection over TLS."""
_NONCE = 32
_TLS_ALONE = b"this machine speaks TLS alone".ljust(_NONCE)
"""The answer, in the place of a nonce, to those who begin without TLS."""
_NO_TLS = b"this machine speaks no TLS".ljust(_NONCE)
"""The answer to those who begin with TLS; it is none, so that they give up at once."""
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
        self._socket = secured = tls.owner_end(self._socket, host)
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
            self._socket = secured = tls.peer_end(self._socket)
            secured.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(f"its certificate is not trusted: {tls_reason(error)}") from error
        except ssl.SSLError as error:
            raise TlsFailed(f"no TLS with it: {tls_reason(error)}") from error

    def send(self, frame: Frame) -> int:
        """Send a frame; returns its size."""
        body = _ENCODE(frame)
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
            return _FRAME_DECODER.decode(self._exactly(length))
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
    return hmac.digest(secret.encode(), b"braid copies 2 " + side + first + second, "sha256")
