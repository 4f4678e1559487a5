"""An entrance to a mock cluster of Kafka with what that has not itself: TLS and logins."""

import base64
import hashlib
import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_int
from typing import NamedTuple

from tests.kafka_brokers import KafkaBrokers

_HANDSHAKE, _VERSIONS, _AUTHENTICATE = 17, 18, 36
"""The numbers of requests."""
_REFUSED = 58
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = 4096


class Login(NamedTuple):
    """The login that a cluster wants."""

    user: str
    password: str

    def exchange(self, mechanism: str) -> Generator[bytes, bytes, None]:
        """The answers to what a client says to log in; ends with its success, and raises if it is refused."""
        said = yield b""
        if mechanism == "PLAIN":
            if said != f"\0{self.user}\0{self.password}".encode():
                raise PermissionError
            yield b""
            return
        # RFC 5802.
        first = said.decode().removeprefix("n,,")
        name, nonce = (part[2:] for part in first.split(",")[:2])
        salt = b"salt of a test"
        challenge = f"r={nonce}server,s={base64.b64encode(salt).decode()},i={_ITERATIONS}"
        final, _, proof = (yield challenge.encode()).decode().rpartition(",p=")
        hash_ = _HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(hash_, self.password.encode(), salt, _ITERATIONS)
        talk = f"{first},{challenge},{final}".encode()
        key = hmac.digest(salted, b"Client Key", hash_)
        signature = hmac.digest(hashlib.new(hash_, key).digest(), talk, hash_)
        expected = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        if name != self.user or base64.b64decode(proof) != expected:
            raise PermissionError
        proven = hmac.digest(hmac.digest(salted, b"Server Key", hash_), talk, hash_)
        yield b"v=" + base64.b64encode(proven)


class Entrance:
    """A port in front of the only broker of a cluster, which says that it is there; made by `entrance`."""

    def __init__(self, brokers: KafkaBrokers, context: ssl.SSLContext | None, login: Login | None) -> None:
        host, _, port = brokers.addresses[0].rpartition(":")
        self.behind = host, int(port)
        self._context = context
        self._login = login
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def serve(self) -> None:
        """Let connections in until it is closed."""
        with suppress(OSError):
            while True:
                outer, _ = self.listener.accept()
                threading.Thread(target=self._admit, args=(outer,), daemon=True).start()

    def _admit(self, outer: socket.socket) -> None:
        with (
            suppress(OSError, EOFError),
            outer,
            socket.create_connection(self.behind) as inner,
            self._context.wrap_socket(outer, server_side=True) if self._context else outer as admitted,
        ):
            if self._login is not None:
                self._log_in(self._login, admitted, inner)
            threading.Thread(target=_pass_on, args=(inner, admitted), daemon=True).start()
            _pass_on(admitted, inner)

    def _log_in(self, login: Login, outer: socket.socket, inner: socket.socket) -> None:
        exchange = None
        while True:
            request = _frame(outer)
            kind, version, number, name = struct.unpack_from(">hhih", request)
            body = request[10 + max(name, 0) :]
            if kind == _VERSIONS:
                inner.sendall(_framed(request))
                _send(outer, _with_logins(_frame(inner), version))
            elif kind == _HANDSHAKE:
                exchange = login.exchange(body[2:].decode())
                next(exchange)
                _send(outer, struct.pack(">ihi", number, 0, 1) + body)
            elif exchange is not None and kind == _AUTHENTICATE:
                try:
                    answer = exchange.send(body[4:])
                except PermissionError:
                    _send(outer, struct.pack(">ihhi", number, _REFUSED, -1, 0))
                    raise
                _send(outer, struct.pack(">ihhi", number, 0, -1, len(answer)) + answer)
                if answer[:2] != b"r=":
                    return


def _with_logins(answer: bytes, version: int) -> bytes:
    """What a broker says of the requests that it knows, with those for logins; newer ones say it in another form."""
    number, error, count = struct.unpack_from(">ihi", answer)
    if error or version:
        return answer
    more = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
    return struct.pack(">ihi", number, error, count + 2) + answer[10:] + more


def _frame(stream: socket.socket) -> bytes:
    return _exactly(stream, struct.unpack(">i", _exactly(stream, 4))[0])


def _exactly(stream: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        if not (more := stream.recv(size - len(content))):
            raise EOFError
        content += more
    return content


def _framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _send(stream: socket.socket, content: bytes) -> None:
    stream.sendall(_framed(content))


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while content := one.recv(1 << 16):
            other.sendall(content)
        other.shutdown(socket.SHUT_RDWR)


@contextmanager
def entrance(
    brokers: KafkaBrokers, context: ssl.SSLContext | None = None, login: Login | None = None
) -> Iterator[KafkaBrokers]:
    """The cluster as those see it who come in by an entrance with TLS, or with a login."""
    made = Entrance(brokers, context, login)
    brokers.tell("broker_set_host_port", c_int(1), "127.0.0.1", c_int(made.port))
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield KafkaBrokers([f"127.0.0.1:{made.port}"])
    finally:
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
        thread.join()
        brokers.tell("broker_set_host_port", c_int(1), made.behind[0], c_int(made.behind[1]))
