"""TLS between machines: each shows a certificate that the authority of all machines has signed, and asks for one.

Files that are renewed on disk count from the next connection on.
"""

import logging
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

_FLIGHTS = 8
"""More than either side sends in a handshake."""
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

    def to(self, connection: socket.socket, host: str) -> ssl.SSLSocket:
        """The owner's end of a connection to the peer at a host; the handshake is to come."""
        context = self._current().owner
        return context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)

    def of(self, connection: socket.socket) -> ssl.SSLSocket:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contexts:
    owner: ssl.SSLContext
    peer: ssl.SSLContext


def tls_reason(error: OSError) -> str:
    """What went wrong with TLS, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__


def _versions(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(_version(path) for path in (files.certificate, files.key, files.authority))


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


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
    owner = contexts.owner
    if not host:
        owner = _context(ssl.PROTOCOL_TLS_CLIENT, files)
        owner.check_hostname = False
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        owner.wrap_bio(back, forth, server_hostname=host or None),
        contexts.peer.wrap_bio(forth, back, server_side=True),
    ]
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
