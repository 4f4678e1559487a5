"""Brokers that are not Braid's, a server that answers as it is told, and a source's stream that takes from them."""

import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bridge import broker_setup
from bridge.connectors.connector_run import ConnectorRun
from bridge.embedded import hashed
from bridge.raw_events import Unfit
from bridge.spools.log import unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from dags import Kind
from dags.connectors import MqttConnector
from engine.host.connectors import connect
from engine.outside import REACHABLE, HostOutside, Vault
from engine.plan import ConnectorSupply

USER, PASSWORD = "plant", "a word"
BOUND = 30.0
_PORTS = range(20_000, 32_768)
"""Below those that systems hand out by themselves."""


class Mosquitto:
    """A mosquitto as others run it: with its own bounds, which are low, and on one port over its restarts."""

    def __init__(self, folder: Path, *lines: str, users: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        users = {USER: PASSWORD} if users is None else users
        (folder / "passwords").write_text("".join(f"{user}:{hashed(password)}\n" for user, password in users.items()))
        self.port = next(filter(_is_free, random.sample(_PORTS, 50)))
        common = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous false",
            f"password_file {folder / 'passwords'}",
            "persistence true",
            f"persistence_location {folder}/",
            # Started by root it would become another user, who may not read the files.
            "user root",
        ]
        (folder / "mosquitto.conf").write_text("\n".join([*common, *lines, ""]))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = broker_setup.mosquitto_program()
        assert program is not None
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - as installed
                [program, "-c", str(self._folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + BOUND
        while _is_free(self.port):
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            assert self._process.poll() is None, (self._folder / "log").read_text()
            time.sleep(0.02)

    def end(self, *, kill: bool = False) -> None:
        if self._process is not None:
            (self._process.kill if kill else self._process.terminate)()
            self._process.wait(BOUND)
            self._process = None

    def address(self, user: str = USER, password: str = PASSWORD) -> Address:
        return Address(host="127.0.0.1", port=self.port, user=user, password=password)


@contextmanager
def mosquitto(folder: Path, *lines: str, users: Mapping[str, str] | None = None) -> Iterator[Mosquitto]:
    """A mosquitto that runs."""
    broker = Mosquitto(folder, *lines, users=users)
    broker.start()
    try:
        yield broker
    finally:
        broker.end()


def connections(port: int) -> int:
    """The connections that a broker on this machine has at the moment."""
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == port
        for connection in psutil.net_connections("tcp")
        if connection.laddr
    )


def _is_free(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0):
            return False
    except OSError:
        return True


@contextmanager
def answering(*answers: bytes, then_closes: bool = True) -> Iterator[int]:
    """A server that sends the first answer to the first packet of each client, and so on; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client:
            for answer in answers:
                if not client.recv(10_000):
                    return
                client.sendall(answer)
            while not then_closes and client.recv(10_000):
                pass

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(partial(serve, client),), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        # Closing alone would not end what waits for a client.
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(BOUND)


def _quietly(act: Callable[[], None]) -> None:
    with suppress(OSError):
        act()


class Site:
    """The root of a host, with a secret for the brokers here, which an operator has listed."""

    def __init__(self, root: Path, *, reachable: str = "127.0.0.1\nlocalhost\n") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        (root / REACHABLE).write_text(reachable)
        self.outside = HostOutside(root)
        self.put("broker", f"{USER}:{PASSWORD}")

    def put(self, name: str, secret: str) -> None:
        Vault(self.root).put("ann", name, secret)


class Taking:
    """The stream of a source that takes from a broker; it survives its runs."""

    def __init__(  # noqa: PLR0913 - a site, a connection, and what a plan says of it
        self,
        site: Site,
        port: int,
        topic: str,
        *,
        stream: str = "source/1",
        most_bytes: int = 10**9,
        fields: Mapping[str, Kind] | None = None,
        **form: Any,
    ) -> None:
        url = form.pop("url", f"mqtt://127.0.0.1:{port}")
        given = {"kind": "mqtt", "url": url, "topic": topic, "secret": {"secret": "broker"}, **form}
        self.connector = MqttConnector.model_validate(given)
        self.stream = stream
        declared = {"n": Kind.INTEGER} if fields is None else fields
        self._supply = ConnectorSupply(
            connector=self.connector.model_dump_json(context={"owner": "ann"}, exclude={"format"}),
            fields={**declared, **self.connector.made_fields},
            format=self.connector.format,
        )
        self.site = site
        self.folder = site.root / "spools" / stream.replace("/", "-")
        self._most_bytes = most_bytes
        self.unfit: list[Unfit] = []
        self.spool: Spool | None = None
        self.run: ConnectorRun | None = None
        self._thread = threading.Thread()

    def connect(self, positions: Mapping[str, int], in_doubt: Any) -> Any:
        """A client, as a host makes it."""
        return connect(self.stream, self._supply, {}, self.site.outside, positions, in_doubt)

    def begin(self, *, waits: bool = True) -> None:
        """Run, and wait until it is connected."""
        self.spool = Spool(self.folder, most_bytes=self._most_bytes)
        self.run = run = ConnectorRun(self.connect, self.spool, on_unfit=self.unfit.append)
        self._thread = threading.Thread(target=run.run, name=f"takes for {self.stream}")
        self._thread.start()
        if waits:
            self.until(lambda: run.link.connected)

    def end(self, *, for_good: bool = False) -> None:
        """Stop running."""
        if self.run is None or self.spool is None:
            return
        self.run.stop(for_good=for_good)
        self._thread.join()
        if for_good:
            self.run.forget()
        self.spool.close()
        self.run = self.spool = None

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + BOUND
        while not holds():
            assert time.monotonic() < deadline, (self.run and self.run.link, self.unfit[:3], len(self.events()))
            time.sleep(0.01)

    def awaited(self, count: int) -> list[dict[str, Any]]:
        """The events, once there are so many."""
        self.until(lambda: self.spool is not None and self.spool.end >= count)
        return self.events()

    def events(self, start: int = 0) -> list[dict[str, Any]]:
        """The events in the spool from a position on, without fields that are null."""
        return [
            {name: value for name, value in event.items() if value is not None}
            for _, item in read(self.folder, start, 10**12)
            for event in unpacked(item.payload).to_pylist()
        ]

    def numbers(self) -> list[int]:
        """The field `n` of all events."""
        return [event["n"] for event in self.events()]

    @property
    def error(self) -> str:
        """Why it is not connected, or was not."""
        return self.run.link.error if self.run is not None else ""


@contextmanager
def taking(site: Site, port: int, topic: str, **more: Any) -> Iterator[Taking]:
    """A stream that takes from a broker, and is connected."""
    waits = more.pop("waits", True)
    taken = Taking(site, port, topic, **more)
    try:
        taken.begin(waits=waits)
        yield taken
    finally:
        taken.end()


@contextmanager
def publishing(address: Address) -> Iterator[MqttClient]:
    """A client that publishes with QoS 1."""
    client = MqttClient(address, f"publishes-{random.random()}")
    client.start(BOUND)
    try:
        yield client
    finally:
        client.stop()


def publish(address: Address, topic: str, payloads: Sequence[bytes], *, retain: bool = False) -> None:
    """Publish messages, and return once the broker has them."""
    left = threading.Semaphore(0)
    with publishing(address) as client:
        for payload in payloads:
            client.publish(topic, payload, retain=retain, answered=lambda _refusal: left.release())
        for _ in payloads:
            assert left.acquire(timeout=BOUND)


def numbered(start: int, end: int) -> list[bytes]:
    """Messages of one event each."""
    return [b'{"n": %d}' % number for number in range(start, end)]
