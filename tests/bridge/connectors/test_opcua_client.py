"""The client of an OPC UA server, against a real one."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from asyncua.crypto.cert_gen import dump_private_key_as_pem, generate_private_key, generate_self_signed_app_certificate
from asyncua.ua.status_codes import StatusCodes
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from bridge import SystemClock
from bridge.connectors import connector_run, opcua_client
from bridge.connectors.connector_run import ClientAssignment, ConnectorRun, ConnectorTrouble
from bridge.connectors.opcua_client import OpcuaClient
from bridge.formats.decoders import decoder
from bridge.machine import BackOff
from bridge.raw_events import Unfit
from bridge.spools.deliveries import NOTHING_IN_DOUBT
from bridge.spools.log import items_in, unpacked
from bridge.spools.spool import Spool
from dags import Kind, Schema
from dags.connectors import OpcuaConnector
from dags.message_formats import JSON
from engine.outside import HostOutside, Vault
from tests.bridge.connectors.opcua_server import PlantServer
from workloads.service import free_port

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
VALUES = {"Temp": 20.5, "Count": 3}
SCHEMA = Schema.of(temperature=Kind.FLOAT, count=Kind.INTEGER, at=Kind.TIMESTAMP, status=Kind.STRING)
NODES = {"temperature": "ns=2;s=Temp", "count": "ns=2;s=Count"}
OWNER = "ann"


@pytest.fixture(scope="module")
def plant() -> Iterator[PlantServer]:
    """One for many tests, because it takes seconds to start."""
    made = PlantServer(VALUES)
    yield made
    made.stop()


@pytest.fixture
def server(plant: PlantServer) -> PlantServer:
    plant.write_all(VALUES, NOON)
    return plant


class Line:
    """A source of a server, with its spool, as a host has it."""

    def __init__(self, root: Path, url: str, **more: Any) -> None:
        (root / "reachable").write_text("127.0.0.1\n")
        self.root = root
        self.outside = HostOutside(root)
        form = {"kind": "opcua", "url": url, "nodes": NODES, "interval": 50, **more}
        if "secret" in form:
            form["secret"] = {**form["secret"], "owner": OWNER}
        self.connector = OpcuaConnector.model_validate(form, context={"outside": self.outside})
        self.spool = Spool(root / "spool", most_bytes=100_000_000)
        self.rejected: list[Unfit] = []
        self.run: ConnectorRun | None = None

    def client(self, positions: dict[str, int] | None = None) -> OpcuaClient:
        assignment = ClientAssignment(
            stream="source/1",
            schema=SCHEMA,
            decode=decoder(JSON, SCHEMA),
            positions=positions or {},
            in_doubt=NOTHING_IN_DOUBT,
            outside=self.outside,
        )
        return OpcuaClient(self.connector, assignment)

    def __enter__(self) -> Self:
        self.run = ConnectorRun(
            lambda positions, _doubt: self.client(dict(positions)),
            self.spool,
            on_unfit=self.rejected.append,
            clock=SystemClock(),
        )
        self._thread = threading.Thread(target=self.run.run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        assert self.run is not None
        self.run.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def events(self) -> list[dict[str, Any]]:
        items = [placed.item for file in list(self.spool._files) for placed in items_in(file)]
        rows = [row for item in items for row in unpacked(item.payload).to_pylist()]
        assert all(row.pop("_rest") is None for row in rows)
        return rows

    def waits(self, met: Callable[[], bool], seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < until, (self.events(), self.run and self.run.link)
            time.sleep(0.02)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon."""
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff.doubling(0.2, longest=0.5))


def event(temperature: float | None, count: int, at: datetime, status: str | None = None) -> dict[str, Any]:
    return {"temperature": temperature, "count": count, "at": at, "status": status}


def test_changes_of_nodes_are_events_with_the_state_of_all(tmp_path: Path, server: PlantServer) -> None:
    """The first has the present values; one that is not good is null, and named."""
    server.write_all({"Temp": 20.5, "Count": 3}, NOON)
    with Line(tmp_path, server.url) as line:
        line.waits(lambda: len(line.events()) == 1)
        server.write("Temp", 21.5, NOON + timedelta(seconds=1))
        line.waits(lambda: len(line.events()) == 2)
        server.write("Temp", 0.0, NOON + timedelta(seconds=2), StatusCodes.BadSensorFailure)
        line.waits(lambda: len(line.events()) == 3)
        server.write("Temp", 22.5, NOON + timedelta(seconds=3))
        line.waits(lambda: len(line.events()) == 4)
    assert [
        event(20.5, 3, NOON),
        event(21.5, 3, NOON + timedelta(seconds=1)),
        event(None, 3, NOON + timedelta(seconds=2), "temperature BadSensorFailure"),
        event(22.5, 3, NOON + timedelta(seconds=3)),
    ] == line.events()
    assert [] == line.rejected


def test_no_change_between_two_intervals_is_left_out(tmp_path: Path, server: PlantServer) -> None:
    """The server keeps them; in the form `changes` an event has only what changed."""
    with Line(tmp_path, server.url, interval=500, events="changes", nodes={"count": "ns=2;s=Count"}) as line:
        line.waits(lambda: len(line.events()) == 1)
        for number in range(300):
            server.write("Count", number, NOON + timedelta(seconds=number))
        line.waits(lambda: len(line.events()) == 301)
    assert list(range(300)) == [event["count"] for event in line.events()][1:]


def test_a_server_that_restarts_is_connected_to_again(tmp_path: Path) -> None:
    """What changed meanwhile is its last value; what was taken is not taken twice."""
    server = PlantServer(VALUES)
    server.write_all({"Temp": 20.5, "Count": 3}, NOON)
    with Line(tmp_path, server.url) as line:
        assert line.run is not None
        line.waits(lambda: len(line.events()) == 1)
        server.stop()
        line.waits(lambda: line.run is not None and not line.run.link.connected)
        assert "opc.tcp://127.0.0.1" in line.run.link.error
        again = PlantServer(VALUES, port=server.port)
        again.write_all({"Temp": 20.5, "Count": 3}, NOON)
        line.waits(lambda: line.run is not None and line.run.link.connected)
        again.write("Count", 9, NOON + timedelta(seconds=9))
        line.waits(lambda: line.events()[-1]["count"] == 9)
        again.stop()
    numbers = [event["count"] for event in line.events()]
    # A server that has just started may tell its first values before it is given those of noon.
    assert ([3, 9], True) == ([numbers[0], numbers[-1]], len(numbers) <= 4)


def test_a_host_that_starts_again_takes_no_value_twice(tmp_path: Path, server: PlantServer) -> None:
    """The position is the time of the newest change."""
    server.write_all({"Temp": 20.5, "Count": 3}, NOON)
    line = Line(tmp_path, server.url)
    for _ in range(3):
        with line:
            line.waits(lambda: line.run is not None and line.run.link.connected)
            time.sleep(0.5)
    assert [event(20.5, 3, NOON)] == line.events()
    server.write("Count", 4, NOON + timedelta(seconds=1))
    with line:
        line.waits(lambda: len(line.events()) == 2)
    assert event(20.5, 4, NOON + timedelta(seconds=1)) == line.events()[-1]


def trouble(line: Line) -> str:
    with pytest.raises(ConnectorTrouble) as caught:
        line.client().close(for_good=False)
    return str(caught.value)


def test_nodes_that_are_not_there_are_named_at_once(tmp_path: Path, server: PlantServer) -> None:
    """All of them, up to three, with the fields that they are for."""
    nodes = {"temperature": "ns=2;s=Temp", **{f"f{number}": f"ns=2;s=x{number}" for number in range(5)}}
    assert (
        f"{server.url} cannot read the node 'ns=2;s=x0' of the field 'f0' (BadNodeIdUnknown), the node 'ns=2;s=x1' of "
        "the field 'f1' (BadNodeIdUnknown), the node 'ns=2;s=x2' of the field 'f2' (BadNodeIdUnknown), and 2 more; "
        "correct the source's nodes"
    ) == trouble(Line(tmp_path, server.url, nodes=nodes))


def test_a_text_that_is_no_id_is_named(tmp_path: Path) -> None:
    """Before anything is connected to."""
    assert "the node 'g=x' of the field 'a' is no id of a node; correct it" == trouble(
        Line(tmp_path, "opc.tcp://127.0.0.1:1", nodes={"a": "g=x"})
    )


def test_a_server_that_cannot_be_reached_is_trouble(tmp_path: Path) -> None:
    """Nobody listens there, it says nothing, or it may not be reached."""
    url = f"opc.tcp://127.0.0.1:{free_port()}"
    line = Line(tmp_path, url)
    assert f"cannot connect to {url}: " in trouble(line)
    (tmp_path / "reachable").write_text("")
    assert "its host is not on the internet; tasks may connect" in trouble(line)


def test_a_server_that_says_nothing_or_nonsense_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a bounded time."""
    monkeypatch.setattr(opcua_client, "_ANSWER", 0.5)
    line, ended = Line(tmp_path, "opc.tcp://127.0.0.1"), threading.Event()

    def serve(listening: socket.socket, answer: bytes) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(answer)
            ended.wait(20)

    for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"ACKF\xff\xff\xff\xff" + bytes(100)):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=serve, args=(listening, answer), daemon=True)
            thread.start()
            begun = time.monotonic()
            url = f"opc.tcp://127.0.0.1:{listening.getsockname()[1]}"
            line.connector = line.connector.model_copy(update={"url": url})
            assert url in trouble(line)
            assert time.monotonic() - begun < 15
            ended.set()
            thread.join(5)
            ended.clear()


def test_a_wrong_password_is_trouble_that_does_not_have_it(tmp_path: Path) -> None:
    """The right one may have colons; without one, a secret is asked for."""
    server = PlantServer(VALUES, login=True)
    line = Line(tmp_path, server.url)
    assert server.url in trouble(line)
    vault = Vault(tmp_path)
    vault.put(OWNER, "plc", "ann:wrong-one")
    form = {
        "kind": "opcua",
        "url": server.url,
        "nodes": NODES,
        "interval": 50,
        "secret": {"secret": "plc", "owner": OWNER},
    }
    for secret, reason in (
        ("ann:wrong-one", "refuses the user or its password"),
        ('{"user": "ann", "password": "wrong-one"}', "refuses the user or its password"),
        ('{"user": "ann", "token": "wrong-one"}', "the secret 'plc' is neither user:password nor a JSON object"),
    ):
        vault.put(OWNER, "plc", secret)
        line.connector = OpcuaConnector.model_validate(form, context={"outside": line.outside})
        said = trouble(line)
        assert reason in said
        assert "wrong-one" not in said
    for secret in ("ann:s3:cret", '{"user": "ann", "password": "s3:cret"}'):
        vault.put(OWNER, "plc", secret)
        line.connector = OpcuaConnector.model_validate(form, context={"outside": line.outside})
        line.client().close(for_good=True)
    server.stop()


def certificate(name: str) -> tuple[str, str]:
    key = generate_private_key()
    made = generate_self_signed_app_certificate(
        key,
        name,
        {"commonName": name},
        [x509.UniformResourceIdentifier(f"urn:{name}"), x509.DNSName("localhost")],
        extended=[ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH],
    )
    return made.public_bytes(Encoding.PEM).decode(), dump_private_key_as_pem(key).decode()


def test_a_connection_can_be_encrypted(tmp_path: Path) -> None:
    """With the certificates of a secret; a server with another certificate than that is refused."""
    servers, own = certificate("plant"), certificate("braid")
    server = PlantServer(VALUES, certificate=servers)
    vault = Vault(tmp_path)
    keys = {"certificate": own[0], "private_key": own[1]}
    more = {"secret": {"secret": "plc"}, "security": "Basic256Sha256,SignAndEncrypt"}
    vault.put(OWNER, "plc", "ann:pw")
    line = Line(tmp_path, server.url, **more)
    assert "the secret 'plc' has no certificate; put a JSON object" in trouble(line)
    line.spool.close()
    vault.put(OWNER, "plc", json.dumps({**keys, "server_certificate": own[0]}))
    line = Line(tmp_path, server.url, **more)
    assert server.url in trouble(line)
    line.spool.close()
    for pinned in ({}, {"server_certificate": servers[0]}):
        vault.put(OWNER, "plc", json.dumps({**keys, **pinned}))
        line = Line(tmp_path, server.url, **more)
        with line:
            line.waits(lambda: len(line.events()) >= 1)  # noqa: B023 - at once
        line.spool.close()
    server.stop()


def test_what_waits_for_too_long_is_dropped_and_reported(
    tmp_path: Path, server: PlantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest; so a full spool takes no room without a bound."""
    monkeypatch.setattr(opcua_client, "_MOST_WAITING", 20)
    line = Line(tmp_path, server.url, events="changes", nodes={"count": "ns=2;s=Count"}, interval=10)
    client = line.client()
    for number in range(100):
        server.write("Count", number, NOON + timedelta(seconds=number))
        time.sleep(0.02)
    time.sleep(0.5)
    arrived = client.take(1.0)
    client.close(for_good=False)
    assert arrived is not None
    (unfit,) = arrived.unfit
    assert 101 == unfit.count + len(arrived.events)
    assert 99 == arrived.events.to_pylist()[-1]["count"]


def test_values_of_any_type_are_taken(tmp_path: Path) -> None:
    """Those that do not fit their field's kind are rejected."""
    values = {"Temp": "warm", "Count": 3}
    server = PlantServer(values)
    nodes = {**NODES, "flags": "ns=2;s=Count"}
    with Line(tmp_path, server.url, nodes=nodes) as line:
        line.waits(lambda: bool(line.rejected))
    server.stop()
    assert "the field 'temperature' should be of kind float" == line.rejected[0].reason


def test_a_form_that_cannot_work_is_refused() -> None:
    """Before it is registered."""
    form = {"kind": "opcua", "url": "opc.tcp://plc:4840", "nodes": {"at": "ns=2;s=x"}}
    assert "the field 'at' of each event" in OpcuaConnector.model_validate(form).why_unusable()
    secure = {**form, "nodes": NODES, "security": "Basic256Sha256,Sign"}
    assert "needs a certificate" in OpcuaConnector.model_validate(secure).why_unusable()
    wrongs: tuple[dict[str, Any], ...] = (
        {"url": "opc.tcp://u:p@plc"},
        {"url": "http://plc"},
        {"nodes": {}},
        {"nodes": {"a": "x"}},
        {"interval": 1},
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match="validation error"):
            OpcuaConnector.model_validate({**form, **wrong})
