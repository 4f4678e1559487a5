"""TLS by the service itself: the certificate is checked, and a new one is taken up while connections go on."""

import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from braid_client.client import Client
from braid_client.errors import Unreachable
from bridge.broker import BrokerKind, start_broker
from bridge.broker_setup import Entrance
from bridge.embedded.certificate import ServedCertificate, UnusableCertificate
from manager.rest.app import CannotServe, Server
from manager.settings import WrongSettings, read_client_settings, read_settings
from tests import needs
from tests.authority import Authority
from tests.deploy.test_compose import DOCKERFILE
from tests.manager.rest.town import town

pytestmark = pytest.mark.mosquitto
_PATIENCE = 20.0
_USERS = {"braid": "a password"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    needs.openssl()
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> tuple[Path, Path]:
    """The files that are served, which a test may replace."""
    made = authority.certify("first", "DNS:localhost")
    return _put(made, (tmp_path / "served.pem", tmp_path / "served.key"))


def _put(made: tuple[Path, Path], files: tuple[Path, Path]) -> tuple[Path, Path]:
    for source, target in zip(made, files, strict=True):
        # As certbot does: whole files in place of others.
        new = target.with_suffix(".new")
        shutil.copy(source, new)
        new.replace(target)
    return files


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _connected(port: int, authority: Authority) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=authority.certificate)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10.0), server_hostname="localhost")


def _serial(port: int, authority: Authority) -> object:
    with closing(_connected(port, authority)) as connection:
        return (connection.getpeercert() or {})["serialNumber"]


def _await_other(port: int, authority: Authority, than: object) -> None:
    deadline = time.monotonic() + _PATIENCE
    while _serial(port, authority) == than:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_answered(connection: ssl.SSLSocket) -> bool:
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said = b""
    while not said.endswith(b'{"alive":true}'):
        said += connection.recv(65_536)
    return said.startswith(b"HTTP/1.1 200")


def test_rest_takes_up_a_new_certificate(authority: Authority, files: tuple[Path, Path], tmp_path: Path) -> None:
    """A new connection sees it, an old one goes on; files that do not belong together change nothing."""
    port = _free()
    with (
        town(tmp_path / "town") as made,
        Server("", made.app, lambda: None, listen="127.0.0.1", port=port, tls=files),
        closing(_connected(port, authority)) as old,
    ):
        assert _is_answered(old)
        first = _serial(port, authority)
        other = authority.certify("other", "DNS:localhost")
        shutil.copy(other[1], files[1])
        with Client(f"https://localhost:{port}", made.keys["ann"], ca=authority.certificate) as client:
            assert "ann" == next(iter(client.tenants())).name
        assert first == _serial(port, authority)
        _put(other, files)
        _await_other(port, authority, first)
        assert _is_answered(old)


def test_the_image_asks_whether_it_is_ready_as_it_serves(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Over TLS with a certificate, and without TLS else."""
    port = _free()
    check = json.loads(DOCKERFILE.partition("HEALTHCHECK")[2].partition("CMD ")[2].splitlines()[0])
    command = [sys.executable, *(part.replace(":8642/", f":{port}/") for part in check[1:])]

    def asked(environment: dict[str, str]) -> int:
        done = subprocess.run(  # noqa: S603 - what the image runs
            command, env=environment, capture_output=True, timeout=_PATIENCE, check=False
        )
        return done.returncode

    with town(tmp_path / "town") as made, Server("", made.app, lambda: None, listen="127.0.0.1", port=port, tls=files):
        assert [0, 1] == [asked({"BRAID_CERTIFICATE": str(files[0])}), asked({})]
    with town(tmp_path / "plain") as made, Server("", made.app, lambda: None, listen="127.0.0.1", port=port):
        assert [0, 1] == [asked({}), asked({"BRAID_CERTIFICATE": str(files[0])})]


def test_a_client_trusts_an_authority_or_the_certificate_itself(
    authority: Authority, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system or `ca` names one, and the host is checked too; on its own machine the certificate is enough."""
    port = _free()
    trusts: list[tuple[str, dict[str, Any]]] = [
        ("localhost", {"ca": authority.certificate}),
        ("127.0.0.1", {"ca": files[0], "by_name": False}),
    ]
    distrusts: list[tuple[str, dict[str, Any]]] = [("localhost", {}), ("127.0.0.1", {"ca": files[0]})]
    with town(tmp_path / "town") as made, Server("", made.app, lambda: None, listen="127.0.0.1", port=port, tls=files):
        for host, more in trusts:
            with Client(f"https://{host}:{port}", made.keys["ann"], **more) as client:
                assert "ann" == next(iter(client.tenants())).name
        for host, more in distrusts:
            with (
                Client(f"https://{host}:{port}", made.keys["ann"], **more) as client,
                pytest.raises(Unreachable, match=r"is not trusted: .* name the authority's file in BRAID_CA"),
            ):
                next(iter(client.tenants()))
        # To OpenSSL, the authorities of the system are those in this file.
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        with Client(f"https://localhost:{port}", made.keys["ann"]) as client:
            assert "ann" == next(iter(client.tenants())).name
    with pytest.raises(Unreachable, match="cannot be used as trusted certificates"):
        Client("https://localhost", ca=tmp_path / "none.pem")
    for name, value in (("CERTIFICATE", files[0]), ("CERTIFICATE_KEY", files[1]), ("PORT", port)):
        monkeypatch.setenv(f"BRAID_{name}", str(value))
    here = read_client_settings()
    assert (f"https://127.0.0.1:{port}", (files[0], False)) == (here.service, here.trusted)
    monkeypatch.setenv("BRAID_URL", "https://braid.example")
    assert read_client_settings().trusted is None
    monkeypatch.setenv("BRAID_CA", str(authority.certificate))
    assert (authority.certificate, True) == read_client_settings().trusted


def test_connections_begin_while_certificates_change(authority: Authority, files: tuple[Path, Path]) -> None:
    """None fails, whichever moment it comes at, and each sees a certificate whole."""
    served = ServedCertificate(*files)
    others = [authority.certify(name, "DNS:localhost") for name in ("second", "third")]
    seen: set[object] = set()
    over = threading.Event()

    def connect() -> None:
        trusting = ssl.create_default_context(cafile=authority.certificate)
        while not over.is_set():
            seen.add(_handshake(trusting, served.context))

    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(connect)
        try:
            for turn in range(100):
                _put(others[turn % 2], files)
                assert served.look()
        finally:
            over.set()
        connecting.result(timeout=_PATIENCE)
    assert 1 < len(seen) <= 3


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> object:
    """The number of the certificate that a client sees which begins with a server in this process."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname="localhost")
    theirs = server.wrap_bio(there, back, server_side=True)
    left = [ours, theirs]
    while left:
        side = left.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            left.append(side)
    return (ours.getpeercert() or {})["serialNumber"]


def test_files_that_cannot_be_served_are_named(authority: Authority, tmp_path: Path) -> None:
    """With the reason, and what to do."""
    certificate, key = authority.certify("whole", "DNS:localhost")
    _, others_key = authority.certify("others", "DNS:localhost")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for pair, said in (
        ((certificate, tmp_path / "none.key"), "none.key: cannot be read: No such file"),
        ((certificate, others_key), "others.key: is not the key of the certificate in .*whole.pem; name the files"),
        ((empty, key), "hold no certificate and key without a password"),
    ):
        with pytest.raises(UnusableCertificate, match=said):
            ServedCertificate(*pair)
    with town(tmp_path / "town") as made, pytest.raises(CannotServe, match="cannot be read"):
        Server("", made.app, lambda: None, listen="127.0.0.1", port=_free(), tls=(certificate, tmp_path / "none.key"))
    with pytest.raises(WrongSettings, match="go together"):
        read_settings({"certificate": certificate})


@contextmanager
def _entrance(kind: BrokerKind, folder: Path, files: tuple[Path, Path]) -> Iterator[int]:
    access = folder / "access"
    access.mkdir()
    for name in ("passwords", "acl"):
        (access / name).write_text("")
    with start_broker(folder / "broker", _USERS, entrance=Entrance(folder=access, tls=files), kind=kind) as broker:
        assert broker.entrance is not None
        yield broker.entrance.port


@pytest.mark.parametrize("kind", ["embedded", "mosquitto"])
def test_the_brokers_entrance_takes_up_a_new_certificate(
    authority: Authority, files: tuple[Path, Path], tmp_path: Path, kind: BrokerKind
) -> None:
    """Of both kinds of broker; who is connected stays so, and is answered."""
    if kind == "mosquitto":
        needs.mosquitto()
    with _entrance(kind, tmp_path, files) as port, closing(_connected(port, authority)) as old:
        first = _serial(port, authority)
        _put(authority.certify("other", "DNS:localhost"), files)
        _await_other(port, authority, first)
        # A login of MQTT 3.1.1 as a user that nobody knows is refused by the broker itself.
        name = b"\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01x\x00\x01x\x00\x01x"
        old.sendall(b"\x10" + bytes([len(name)]) + name)
        assert b"\x20\x02\x00" == old.recv(4)[:3]
