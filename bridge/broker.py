"""The broker: any one by its address, or one that is run here as a child process.

`start_broker` runs mosquitto where it is installed and amqtt otherwise; see `bridge/broker_mosquitto.py` and
`bridge/broker_amqtt.py` for what each of them keeps. The child belongs to whoever started it: `stop` ends it, and on
Linux the kernel ends it when the parent dies, however that happens. Elsewhere a parent that is killed leaves it behind.
"""

import contextlib
import ipaddress
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bridge import broker_amqtt, broker_mosquitto
from bridge.address import Address
from bridge.files import make_folder
from bridge.lease import Lease
from bridge.mqtt import prepare

Kind = Literal["mosquitto", "amqtt"]

# Below the ports that systems hand to outgoing connections, so that nobody takes one while a broker restarts.
_OWN_PORTS = range(20_000, 32_768)
_ATTEMPTS = 5
_UNFIT = re.compile(r"[\x00-\x1f\x7f:]|^\s|\s$|^$")
_RULE = "not empty, no colons, no control characters, no spaces around it"
_OUTPUT = 2_000
# Runs in the child before the broker. Python's own hook for that may deadlock in a program with threads.
_LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent died")
os.execv(sys.argv[2], sys.argv[2:])
"""


class BrokerDown(RuntimeError):
    """A broker did not come up; says what it last wrote."""


class Broker:
    """A broker that runs as a child process; made by `start_broker`."""

    def __init__(  # noqa: PLR0913 - what to run, where, for whom, and how patiently are six things
        self,
        folder: Path,
        kind: Kind,
        users: Mapping[str, str],
        *,
        host: str,
        port: int,
        max_queued_messages: int,
        timeout: float,
    ) -> None:
        self.kind: Kind = kind
        self._folder = folder
        self._users = dict(users)
        self._host = host
        self._port = port
        self._max_queued_messages = max_queued_messages
        self._timeout = timeout
        self._lease: Lease | None = Lease(folder)
        try:
            (broker_mosquitto if kind == "mosquitto" else broker_amqtt).write_passwords(folder, users)
            self._child = self._start()
        except BaseException:
            self._lease.release()
            raise

    @property
    def pid(self) -> int:
        """The process id of the broker that was started last."""
        return self._child.process.pid

    def address(self, user: str) -> Address:
        """Where and how this user connects from this machine."""
        return Address(host=_reached(self._host), port=self._port, user=user, password=self._users[user])

    def alive(self) -> bool:
        """Whether the process runs."""
        return not self._child.ended.is_set()

    def stop(self, timeout: float = 10.0) -> None:
        """End the process: ask, and after the timeout kill. Once is enough."""
        self._child.stop(timeout)
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def restart(self) -> None:
        """Start again on the same port, with what the broker kept; end it first if it still runs."""
        self._child.stop(self._timeout)
        if self._lease is None:
            self._lease = Lease(self._folder)
        self._child = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> "_Child":
        """Start the process and wait until it lets a client in."""
        for _ in range(_ATTEMPTS):
            port = self._port or random.choice(_OWN_PORTS)  # noqa: S311 - no secret
            # Else a stranger on this port might answer in the child's place.
            if _is_free(self._host, port) and (child := self._child_on(port)) is not None:
                self._port = port
                return child
            if self._port:
                break
        where = f"port {self._port}" if self._port else f"every one of {_ATTEMPTS} ports tried"
        raise BrokerDown(f"{self.kind} did not come up: on {self._host}, {where} is in use or may not be used")

    def _child_on(self, port: int) -> "_Child | None":
        """A child that lets clients in, or nothing if another process took the port meanwhile."""
        if self.kind == "mosquitto":
            command = broker_mosquitto.command(self._folder, self._host, port, self._max_queued_messages)
        else:
            command = broker_amqtt.command(self._folder, self._host, port)
        user, password = next(iter(self._users.items()))
        address = Address(host=_reached(self._host), port=port, user=user, password=password)
        child = _Child(command, self._folder / "broker.log")
        try:
            if (trouble := child.trouble(address, self._timeout)) is None:
                return child
        except BaseException:
            child.stop(0)
            raise
        child.stop(0)
        output = child.output()
        if "address already in use" in output.lower():
            return None
        raise BrokerDown(f"{self.kind} did not come up: {trouble}; it last wrote: {output or 'nothing'}")


def start_broker(  # noqa: PLR0913 - all but two have a default that is right
    folder: Path,
    users: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    kind: Kind | None = None,
    max_queued_messages: int = 0,
    timeout: float = 20.0,
) -> Broker:
    """Run a broker that keeps its files in a folder; returns once a client could connect.

    The users are names with passwords. Nobody else can connect, and from other machines only with another host. A free
    port is taken where none is given. Mosquitto runs where it is installed, if no kind is asked for. The limit of
    messages queued for each client is mosquitto's; 0 stands for none.
    """
    if not users:
        raise ValueError("a broker needs a user, or nobody could connect")
    for user, password in users.items():
        # mosquitto_passwd would cut a password at its first colon, and trim spaces, without a word.
        if _UNFIT.search(user) or user.startswith("#"):
            raise ValueError(f"{user!r} cannot name a user: {_RULE}, and no # in front")
        if _UNFIT.search(password):
            raise ValueError(f"the password of {user!r} is unfit: {_RULE}")
    if kind is None:
        kind = "mosquitto" if broker_mosquitto.executable() else "amqtt"
    if kind == "amqtt" and find_spec("amqtt") is None:
        raise BrokerDown("no broker is installed: install mosquitto, or the Python package amqtt for a first try")
    folder = folder.resolve()
    make_folder(folder)
    return Broker(folder, kind, users, host=host, port=port, max_queued_messages=max_queued_messages, timeout=timeout)


class _Child:
    """One life of a broker's process."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.ended = threading.Event()
        self._log = log
        started: Future[subprocess.Popen[bytes]] = Future()
        # Linux takes the thread that started a child for its parent, so that thread lives as long as the child.
        threading.Thread(target=self._live, args=(command, started), name="broker", daemon=True).start()
        self.process = started.result()

    def trouble(self, address: Address, timeout: float) -> str | None:
        """Wait until a client could connect; if none can, say why."""
        deadline = time.monotonic() + timeout
        refusal: str | None = "it was not asked"
        while time.monotonic() < deadline:
            if self.ended.wait(0.02):
                return f"it ended with status {self.process.returncode}"
            refusal = _refusal(address, deadline)
            if refusal is None:
                return None
        return f"after {timeout:g} s nobody could connect ({refusal})"

    def stop(self, timeout: float) -> None:
        self.process.terminate()
        if not self.ended.wait(timeout):
            self.process.kill()
            self.ended.wait()

    def output(self) -> str:
        """What the process wrote last."""
        return self._log.read_bytes()[-_OUTPUT:].decode(errors="replace").strip()

    def _live(self, command: list[str], started: "Future[subprocess.Popen[bytes]]") -> None:
        try:
            with self._log.open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - our own command
                    [sys.executable, "-I", "-c", _LAUNCHER, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Errors in English, since one of them is looked for.
                    env={**os.environ, "LC_ALL": "C"},
                    umask=0o077,
                    # An interrupt from the keyboard is for the parent, which ends its broker when it is done.
                    process_group=0,
                )
        except BaseException as error:  # noqa: BLE001 - raised again where the child was asked for
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()
        self.ended.set()


def _refusal(address: Address, deadline: float) -> str | None:
    """Why a client cannot connect now, or nothing if it can."""
    answers: list[Any] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-ready-{uuid.uuid4().hex[:8]}")
    prepare(client, address)
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(reason)
    client.connect_timeout = 1.0
    try:
        client.connect(address.host, address.port)
        while not answers and time.monotonic() < deadline:
            if client.loop(timeout=0.1) != paho.MQTT_ERR_SUCCESS:
                break
    except OSError as error:
        return str(error)
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()
    if not answers:
        return "no answer"
    return str(answers[0]) if answers[0].is_failure else None


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise BrokerDown(f"{host!r} is no address of this machine: {error}") from error
    with socket.socket(family, kind, protocol) as probe:
        # As brokers do, since connections of an earlier broker may still be closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
        except OSError:
            return False
    return True


def _reached(host: str) -> str:
    """The host at which this machine reaches a broker that listens on all of its addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return ("127.0.0.1" if address.version == 4 else "::1") if address.is_unspecified else host  # noqa: PLR2004 - IPv4
