"""Code that connects: it gets what its module names and an operator lets tasks reach, and nothing else."""

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dags import Kind, Schema
from engine.code.cell import confinement
from engine.code.cells import Connections
from engine.code.store import CodeStore, digest_of
from engine.outside import HostOutside
from engine.tasks import TYPES
from engine.trial import Trial
from tests.engine.code.publication import OWNER, result
from tests.tasks.worksite import allow

TEXT = {"m": "string"}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.path.encode())

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"]))[::-1])

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server of HTTP on loopback; its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def connecting(root: Path, code: str, *targets: str, per: str = "event") -> Trial:
    """A task that runs some lines for each event."""
    body = indent(code, "    ")
    text = f"def entry(event):\n{body}\n"
    CodeStore(root).put(digest_of(text), text)
    config = {
        "digest": digest_of(text),
        "entry": "entry",
        "per": per,
        "input": {"in": {"n": "integer"}},
        "output": {"fields": TEXT},
        "owner": OWNER,
        "connects": list(targets),
    }
    return Trial("connecting_code", config, {"in": Schema.of(n=Kind.INTEGER)}, HostOutside(root))


def attempt(root: Path, code: str, *targets: str) -> str:
    """What some lines return as text, or why the event is parked."""
    given, reasons = result(connecting(root, code, *targets).take([("in", {"n": 1})]))
    return str(given[0]["m"]) if given else reasons[0]


ASKING = "import urllib.request\nreturn {'m': urllib.request.urlopen('http://%s/path', timeout=9).read().decode()}"


def test_plain_libraries_connect_to_what_is_named_and_listed(tmp_path: Path, port: int) -> None:
    """Over HTTP, several times in a batch and over one connection; by name or address, as the form names it."""
    allow(tmp_path, "127.0.0.1", "localhost")
    for host in ("127.0.0.1", "localhost"):
        assert "/path" == attempt(tmp_path, ASKING % f"{host}:{port}", f"{host}:{port}")
    code = f"import http.client\nfound = http.client.HTTPConnection('LOCALHOST', {port}, timeout=9)\ntexts = []\n"
    code += "for text in ('abc', 'x' * 200_000):\n    found.request('POST', '/', text)\n"
    code += "    texts.append(found.getresponse().read().decode())\nreturn {'m': texts[0] + str(len(texts[1]))}"
    assert "cba200000" == attempt(tmp_path, code, f"localhost:{port}")


def test_code_per_batch_connects_too(tmp_path: Path, port: int) -> None:
    """Likewise."""
    allow(tmp_path, "127.0.0.1")
    code = f"import pyarrow as pa, urllib.request\ntext = urllib.request.urlopen('http://127.0.0.1:{port}/b').read()\n"
    code += "return pa.record_batch({'m': [text.decode()] * len(event)})"
    trial = connecting(tmp_path, code, f"127.0.0.1:{port}", per="batch")
    assert ([{"n": 1, "m": "/b"}], []) == result(trial.take([("in", {"n": 1})]))


def test_tls_works(tmp_path: Path) -> None:
    """With a certificate that the code trusts, and not with another one; those of the machine can be read."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    # Strict checks, such as those of Python 3.13, want to know whose key has signed it, also if it is its own.
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "pair.pem").write_bytes(pem + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    allow(tmp_path, "localhost")
    with serving(context) as port:
        code = "import ssl, urllib.request\ncontext = ssl.create_default_context()\n%s"
        code += f"return {{'m': urllib.request.urlopen('https://localhost:{port}/t', context=context).read().decode()}}"
        trusting = code % f"context.load_verify_locations(cadata={pem.decode()!r})\n"
        assert "/t" == attempt(tmp_path, trusting, f"localhost:{port}")
        assert "CERTIFICATE_VERIFY_FAILED" in attempt(tmp_path, code % "", f"localhost:{port}")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("127.0.0.1:PORT", "its host is not on the internet"),
        ("localhost:PORT", "its host is not on the internet"),
        ("[::1]:80", "its host is not on the internet"),
        ("[::ffff:7f00:1]:PORT", "its host is not on the internet"),
        ("0.0.0.0:PORT", "its host is not on the internet"),
        ("169.254.169.254:80", "its host is not on the internet"),
        ("10.0.0.1:80", "its host is not on the internet"),
        ("2130706433:PORT", "its host is not on the internet"),
        ("nowhere.invalid:80", "its host cannot be found"),
    ],
)
def test_what_an_operator_does_not_list_is_not_reached(tmp_path: Path, port: int, target: str, why: str) -> None:
    """Loopback, private and metadata addresses in any spelling, even if the module names them."""
    text = target.replace("PORT", str(port))
    assert why in attempt(tmp_path, ASKING % text, text)


@pytest.mark.parametrize("target", ["127.0.0.1:PORT", "localhost:1", "example.org:443", "127.0.0.1.nip.io:80"])
def test_what_the_module_does_not_name_is_not_reached(tmp_path: Path, port: int, target: str) -> None:
    """Another host, another port, or the address behind a name; nothing is looked up either."""
    allow(tmp_path, "localhost", "127.0.0.1")
    found = attempt(tmp_path, ASKING % target.replace("PORT", str(port)), f"localhost:{port}")
    assert f"the module does not name {target.replace('PORT', str(port))} in 'connects'" in found


def test_what_is_checked_is_what_is_connected_to(port: int) -> None:
    """The name is looked up once, so that one which changes in between leads nowhere else."""
    asked: list[str] = []

    def addresses(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with Connections([f"moving.invalid:{port}"], addresses).begin() as link:
        link.other.send(msgpack_of("MOVING.invalid.", port))
        assert link.answer(float("inf"))
        _, (handle,), _, _ = socket.recv_fds(link.other, 4_096, 1)
        with socket.socket(fileno=handle) as made:
            assert ("127.0.0.1", port) == made.getpeername()
    assert ["moving.invalid"] == asked


def msgpack_of(host: str, port: int) -> bytes:
    """A request for a connection."""
    return msgspec.msgpack.encode({"host": host, "port": port, "seconds": None})


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW)",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socketpair()",
        "socket.create_server(('127.0.0.1', 0))",
        "socket.create_connection(('localhost', PORT), source_address=('127.0.0.1', 0))",
        "made.bind(('127.0.0.1', 0))",
        "made.listen()",
        "made.accept()",
        "made.dup()",
        "made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'lo')",
        "made.sendmsg([b'x'])",
        "made.sendto(b'x', ('127.0.0.1', PORT))",
        "socket.send_fds(made, [b'x'], [0])",
        "super(type(made), made).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)",
        "super(type(made), made).connect(('127.0.0.1', PORT))",
        "super(type(made), made).getsockopt(socket.IPPROTO_IP, 80, 8)",
        "type(made).__mro__[1](socket.AF_INET, socket.SOCK_STREAM)",
        "__import__('_socket').socket(socket.AF_INET, socket.SOCK_STREAM)",
        "__import__('fcntl').ioctl(made, 0x8912, bytes(256))",
        "__import__('fcntl').fcntl(made, 1)",
        "__import__('os').fork()",
        "__import__('os').kill(1, 0)",
        "__import__('time').sleep(1)",
        "open('/etc/passwd').read()",
    ],
)
def test_what_is_forbidden_raises(tmp_path: Path, port: int, code: str) -> None:
    """UDP, raw sockets, listening, options, other addresses of a socket that it has, passing it on; and all else."""
    allow(tmp_path, "localhost")
    text = f"import socket\nmade = socket.create_connection(('localhost', {port}))\n{code.replace('PORT', str(port))}\n"
    found = attempt(tmp_path, f"{text}return {{'m': 'done'}}", f"localhost:{port}")
    assert found.startswith(("PermissionError", "OSError: [Errno 1]", "OSError: [Errno 9]")), found


def test_no_system_call_leads_elsewhere(tmp_path: Path, port: int) -> None:
    """Past Python's modules too: no socket, connection, binding or message with an address or a descriptor."""
    allow(tmp_path, "localhost")
    code = f"""
import ctypes, os, socket, struct
made = socket.create_connection(("localhost", {port}))
libc = ctypes.CDLL(None, use_errno=True)
where = struct.pack("=HH4s8x", 2, socket.htons({port}), socket.inet_aton("127.0.0.1"))
calls = [(number, made.fileno(), where, 16) for number in (41, 42, 43, 49, 50, 53, 54, 55, 46, 288, 299, 307, 425)]
calls += [(44, made.fileno(), b"x", 1, 0, where, 16), (44, made.fileno(), b"x", 1, 0x20000000, 0, 0)]
calls += [(44, made.fileno(), b"x", 1, 0, ctypes.c_void_p(1 << 32), 16), (16, made.fileno(), 0x541B, where)]
calls += [(number, made.fileno(), 9) for number in (32, 33, 72, 292, 434, 438)]
found = []
for call in calls:
    ctypes.set_errno(0)
    found.append((libc.syscall(*call), ctypes.get_errno()))
return {{"m": str({{each for each in found}}) + str(libc.syscall(44, made.fileno(), b"x", 1, 0, None, 0))}}
"""
    assert "{(-1, 1)}1" == attempt(tmp_path, code, f"localhost:{port}")


def test_a_worker_is_not_held_up_by_what_comes_over_a_link(tmp_path: Path, port: int) -> None:
    """Noise, more requests than are answered, none of whose answers is read, and the end of the link."""
    allow(tmp_path, "localhost")
    noise = "import os\nfor at in range(200):\n    try:\n        os.write(4, %s)\n    except OSError:\n        break\n"
    for content in (
        "b'\\xff' * 3000",
        "b''",
        "b'\\x80'",
        repr(msgpack_of("localhost", port)),
        repr(msgpack_of("x", -1)),
    ):
        trial = connecting(tmp_path, f"{noise % content}return {{'m': 'done'}}", f"localhost:{port}")
        given, reasons = result(trial.take([("in", {"n": 1})]))
        assert (["done"], []) == ([each["m"] for each in given], reasons)
    closed = f"import os\nos.close(4)\n{ASKING % f'localhost:{port}'}"
    assert attempt(tmp_path, closed, f"localhost:{port}").startswith("URLError: ")


def test_code_may_ask_for_so_many_connections_in_a_cell(tmp_path: Path, port: int) -> None:
    """One that asks for ever gets no more, and ends with its time; the next event gets another cell."""
    allow(tmp_path, "localhost")
    code = f"import socket\nfor _ in range(60):\n    socket.create_connection(('localhost', {port})).close()\n"
    assert "done" == attempt(tmp_path, f"{code}return {{'m': 'done'}}", f"localhost:{port}")


def test_other_code_gets_no_socket() -> None:
    """Neither the calls on sockets are allowed there, nor is there a link."""
    assert not set(confinement._ON_SOCKETS.values()) & set(confinement._ALLOWED.values())
    assert confinement.filter_code(connects=False) != confinement.filter_code(connects=True)


def test_what_connects_is_never_shared() -> None:
    """It may be answered otherwise tomorrow."""
    (kind,) = [each for each in TYPES if each.name == "connecting_code"]
    assert (False, False, "reads outside") == (kind.shareable, kind.deterministic, str(kind.effect))
