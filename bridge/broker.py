"""A broker that runs here as a child process, with a relay before it where tenants come to a mosquitto.

`start_broker` runs mosquitto if it is installed, and the embedded broker otherwise. `bridge/broker_setup.py` has the
command and the files of each, and says what each of them keeps.

Each child is watched until it accepts clients, and `start_broker` returns only then. A child belongs to the process
that started it: `stop` ends it, and on Linux the kernel ends it when that process dies, however it dies. On other
systems a parent that is killed leaves it behind.
"""

import ipaddress
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from bridge import broker_setup
from bridge.broker_setup import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed
from bridge.files import Lease, make_folder, write_whole
from bridge.transport.address import Address
from bridge.transport.probes import answer_to_client
from dags.internet_addresses import unmapped

_OUTPUT = 2_000
# Runs in the child before the broker. Python's own hook (`preexec_fn`) may deadlock in a program with threads.
_LAUNCHER = """
import ctypes, os, resource, signal, sys
# As many connections as the system allows, and not as few as a shell's default.
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent died")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Child:
    """One process of a broker, which runs in the folder of its log."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.ended = threading.Event()
        self._log = log
        started: Future[subprocess.Popen[bytes]] = Future()
        # To Linux the parent of a child is the thread that started it, so that thread lives as long as the child.
        threading.Thread(target=self._live, args=(command, started), name="broker", daemon=True).start()
        self.process = started.result()

    def trouble(self, address: Address, timeout: float) -> str | None:
        """Wait until a client can connect; returns the reason if none can in time.

        An address without a user only has to be listened at.
        """
        deadline = time.monotonic() + timeout
        refusal: str | None = "nothing was tried"
        while time.monotonic() < deadline:
            if self.ended.wait(0.02):
                return f"it ended with status {self.process.returncode}"
            refusal = _refusal(address, deadline)
            if refusal is None:
                return None
        return f"after {timeout:g} s no client could connect ({refusal})"

    def stop(self, timeout: float) -> None:
        """Terminate it, and kill it after the timeout."""
        self.process.terminate()
        if not self.ended.wait(timeout):
            self.process.kill()
            self.ended.wait()

    def output(self) -> str:
        """The last output of the process."""
        return self._log.read_bytes()[-_OUTPUT:].decode(errors="replace").strip()

    def _live(self, command: list[str], started: "Future[subprocess.Popen[bytes]]") -> None:
        try:
            with self._log.open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - the command is our own
                    [sys.executable, "-I", "-c", _LAUNCHER, str(os.getpid()), *command],
                    cwd=self._log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Errors in English, because one of them is searched for.
                    env={**os.environ, "LC_ALL": "C"},
                    umask=0o077,
                    # An interrupt from the keyboard is for the parent, which ends its broker itself.
                    process_group=0,
                )
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that started it
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()
        self.ended.set()


def _refusal(address: Address, deadline: float) -> str | None:
    """The reason why a client cannot connect now; None if it can."""
    if address.user is None:
        try:
            socket.create_connection((address.host, address.port), timeout=1.0).close()
        except OSError as error:
            return str(error)
        return None
    try:
        reason = answer_to_client(address, deadline - time.monotonic())
    except OSError as error:
        return str(error)
    if reason is None:
        return "no answer"
    return str(reason) if reason.is_failure else None


BrokerKind = Literal["mosquitto", "embedded"]

_OWN_PORTS = range(20_000, 32_768)
"""Below the ports of outgoing connections, so that no other process takes one while a broker restarts."""
_ATTEMPTS = 5
_UNFIT = re.compile(r"[\x00-\x1f\x7f:]|^\s|\s$|^$")


class BrokerDown(RuntimeError):
    """A broker that did not start; has its last output."""


class NoAccessLists(RuntimeError):
    """A broker without access lists; says why, and what to do."""


class Broker:
    """A broker that runs as a child process; made by `start_broker`."""

    def __init__(  # noqa: PLR0913 - all but two have a default that is right
        self,
        folder: Path,
        users: Mapping[str, str],
        *,
        entrance: Entrance | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        kind: BrokerKind | None = None,
        max_queued_messages: int = 0,
        timeout: float = 20.0,
    ) -> None:
        """Run a broker that keeps its files in a folder; returns once a client can connect.

        `users` are names with passwords. Nobody else can connect, and other machines only if `host` is not the default.
        A port of 0 stands for a free one. Without a `kind`, mosquitto runs if it is installed. `max_queued_messages`
        limits the messages that wait for each client; 0 is no limit.

        These users may do everything. An `entrance` is a second listener, for users whose rights are in its access
        list; `reload` reads them again. Give the port if mosquitto's sessions have to outlive this process.
        """
        _check(users)
        self.kind: BrokerKind = kind or ("mosquitto" if broker_setup.mosquitto_program() else "embedded")
        self.entrance = None if entrance is None else _checked(entrance, self.kind)
        """The listener for users whose rights are in an access list, if there is one."""
        self._folder = folder.resolve()
        self._reloads = 0
        self._users = dict(users)
        self._host = host
        self._port = port
        self._max_queued_messages = max_queued_messages
        self._timeout = timeout
        make_folder(self._folder)
        self._lease: Lease | None = Lease(self._folder)
        try:
            hashes = "".join(f"{user}:{hashed(password)}\n" for user, password in users.items())
            write_whole(self._folder / PASSWORDS, hashes.encode(), mode=0o600)
            self._children = self._start()
        except BaseException:
            self._lease.release()
            raise

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return self._children[0].process.pid

    def address(self, user: str) -> Address:
        """The address for a user on this machine."""
        return Address(host=_reached(self._host), port=self._port, user=user, password=self._users[user])

    def alive(self) -> bool:
        """True if its processes run."""
        return not any(child.ended.is_set() for child in self._children)

    def stop(self, timeout: float = 10.0) -> None:
        """Terminate its processes, and kill them after the timeout. Idempotent."""
        _end(self._children, timeout)
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def restart(self) -> None:
        """Start again on the same port, with what the broker kept; a running process is ended first."""
        _end(self._children, self._timeout)
        if self._lease is None:
            self._lease = Lease(self._folder)
        reloads = self._reloads
        self._children = self._start()
        if reloads != self._reloads:
            # A reload in the meantime went to the process before.
            self.reload()

    def reload(self) -> None:
        """Let it read the users and the access list of the entrance again; returns at once. Any thread may call it.

        Connections of users whose password has changed are closed; the others stay. New rights hold for connected users
        too. A broker that does not run reads the files when it starts.
        """
        if self.entrance is None:
            raise NoAccessLists(f"this {self.kind} was started without an access list; start it with an entrance")
        self._reloads += 1
        self._children[0].process.send_signal(signal.SIGHUP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _start(self) -> list[Child]:
        """Start the broker and its relay, if it needs one, and wait until they accept clients."""
        listeners = [(self._host, self._port)]
        if self.entrance is not None:
            listeners.append((self.entrance.host, self.entrance.port))
        given = [(host, port) for host, port in listeners if port]
        for _ in range(_ATTEMPTS):
            chosen = random.sample(_OWN_PORTS, len(listeners))
            tried = [(host, port or own) for (host, port), own in zip(listeners, chosen, strict=True)]
            # Else another process on this port might answer in the child's place.
            if all(is_free(host, port) for host, port in tried):
                ports = [port for _, port in tried]
                entrance = None if self.entrance is None else replace(self.entrance, port=ports[-1])
                if (children := self._children_on(ports[0], entrance)) is not None:
                    self._port, self.entrance = ports[0], entrance
                    return children
            if given == listeners:
                break
        host, port = next((listener for listener in given if not is_free(*listener)), listeners[0])
        where = f"port {port}" if port else f"each of {_ATTEMPTS} ports"
        raise BrokerDown(f"{self.kind} did not start: on {host}, {where} is in use or not permitted")

    def _children_on(self, port: int, entrance: Entrance | None) -> list[Child] | None:
        """Processes that accept clients; None if another process took a port meanwhile."""
        commands = {"mosquitto": broker_setup.mosquitto_command, "embedded": broker_setup.embedded_command}
        user, password = next(iter(self._users.items()))
        address = Address(host=_reached(self._host), port=port, user=user, password=password)
        command = commands[self.kind](self._folder, self._host, port, self._max_queued_messages, entrance)
        wanted = [(command, "broker.log", address)]
        if entrance is not None and self.kind == "mosquitto":
            door = Address(host=_reached(entrance.host), port=entrance.port)
            wanted.append((broker_setup.relay_command(entrance), "relay.log", door))
        children = list[Child]()
        try:
            for command, log, accepts in wanted:
                children.append(Child(command, self._folder / log))
                if (trouble := children[-1].trouble(accepts, self._timeout)) is not None:
                    break
            else:
                return children
        except BaseException:
            _end(children, 0)
            raise
        _end(children, 0)
        output = children[-1].output()
        if "address already in use" in output.lower():
            return None
        raise BrokerDown(f"{self.kind} did not start: {trouble}; its last output: {output or 'none'}")


def _end(children: list[Child], timeout: float) -> None:
    """Stop processes, the broker first: it does not take its end for that of its clients."""
    for child in children:
        child.stop(timeout)


start_broker = Broker
"""Run a broker; returns once a client can connect."""


def _check(users: Mapping[str, str]) -> None:
    if not users:
        raise ValueError("a broker without a user is useless; give at least one")
    for user, password in users.items():
        if _UNFIT.search(user) or user.startswith("#"):
            raise ValueError(
                f"{user!r} cannot name a user: give a name without colons, control characters, spaces around it, "
                "or a # in front"
            )
        if not password:
            raise ValueError(f"the password of {user!r} is empty")


def _checked(entrance: Entrance, kind: BrokerKind) -> Entrance:
    """The entrance with an absolute folder, if its files exist."""
    folder = entrance.folder.resolve()
    for name in (PASSWORDS, ACCESS_LIST):
        if not (folder / name).is_file():
            raise BrokerDown(f"{kind} did not start: {folder / name} is missing; write it before the broker starts")
    return replace(entrance, folder=folder)


def is_free(host: str, port: int) -> bool:
    """True if a broker could listen there now."""
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
    """The host to connect to on this machine, if the broker listens on all addresses."""
    try:
        address = unmapped(ipaddress.ip_address(host))
    except ValueError:
        return host
    return ("127.0.0.1" if address.version == 4 else "::1") if address.is_unspecified else host  # noqa: PLR2004 - IPv4
