"""The broker: any one by its address, or one that is run here as a child process.

`start_broker` runs mosquitto where it is installed and the embedded broker otherwise; see `bridge/mosquitto_setup.py`
and `bridge/embedded_setup.py` for what each of them keeps. The child belongs to whoever started it: `stop` ends it,
and on Linux the kernel ends it when the parent dies, however that happens. Elsewhere a parent that is killed leaves it
behind.
"""

import ipaddress
import random
import re
import signal
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from bridge.brokers import embedded_setup, mosquitto_setup
from bridge.brokers.child_process import Child
from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed
from bridge.machine.files import make_folder, write_whole
from bridge.machine.lease import Lease
from bridge.transport.address import Address

BrokerKind = Literal["mosquitto", "embedded"]

# Below the ports that systems hand to outgoing connections, so that nobody takes one while a broker restarts.
_OWN_PORTS = range(20_000, 32_768)
_ATTEMPTS = 5
_UNFIT = re.compile(r"[\x00-\x1f\x7f:]|^\s|\s$|^$")


class BrokerDown(RuntimeError):
    """A broker did not come up; says what it last wrote."""


class NoAccessLists(RuntimeError):
    """A broker keeps no access lists; says why, and what to do."""


class Broker:
    """A broker that runs as a child process; made by `start_broker`."""

    def __init__(  # noqa: PLR0913 - what to run, where, for whom, and how patiently are seven things
        self,
        folder: Path,
        kind: BrokerKind,
        users: Mapping[str, str],
        *,
        entrance: Entrance | None,
        host: str,
        port: int,
        max_queued_messages: int,
        timeout: float,
    ) -> None:
        self.kind: BrokerKind = kind
        self.entrance = entrance
        """Where users come in who may do only what an access list says, if there is such a list."""
        self._folder = folder
        self._reloads = 0
        self._users = dict(users)
        self._host = host
        self._port = port
        self._max_queued_messages = max_queued_messages
        self._timeout = timeout
        self._lease: Lease | None = Lease(folder)
        try:
            hashes = "".join(f"{user}:{hashed(password)}\n" for user, password in users.items())
            write_whole(folder / PASSWORDS, hashes.encode(), mode=0o600)
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
        reloads = self._reloads
        self._child = self._start()
        if reloads != self._reloads:
            # Whoever asked meanwhile asked the process before.
            self.reload()

    def reload(self) -> None:
        """Have it read the users and the access list of the entrance again; returns at once, and any thread may ask.

        Connections stay, but those of users whose password is not the same any more. What a user may do holds from then
        on, also for those that are connected. A broker that does not run reads the files when it is started.
        """
        if self.entrance is None:
            raise NoAccessLists(
                f"this {self.kind} was started without an access list; give an entrance when it is started"
            )
        self._reloads += 1
        self._child.process.send_signal(signal.SIGHUP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> Child:
        """Start the process and wait until it lets a client in."""
        listeners = [(self._host, self._port)]
        if self.entrance is not None:
            listeners.append((self.entrance.host, self.entrance.port))
        given = [(host, port) for host, port in listeners if port]
        for _ in range(_ATTEMPTS):
            chosen = random.sample(_OWN_PORTS, len(listeners))
            tried = [(host, port or own) for (host, port), own in zip(listeners, chosen, strict=True)]
            # Else a stranger on this port might answer in the child's place.
            if all(is_free(host, port) for host, port in tried):
                ports = [port for _, port in tried]
                entrance = None if self.entrance is None else replace(self.entrance, port=ports[-1])
                if (child := self._child_on(ports[0], entrance)) is not None:
                    self._port, self.entrance = ports[0], entrance
                    return child
            if given == listeners:
                break
        host, port = next((each for each in given if not is_free(*each)), listeners[0])
        where = f"port {port}" if port else f"every one of {_ATTEMPTS} ports tried"
        raise BrokerDown(f"{self.kind} did not come up: on {host}, {where} is in use or may not be used")

    def _child_on(self, port: int, entrance: Entrance | None) -> Child | None:
        """A child that lets clients in, or nothing if another process took a port meanwhile."""
        made = mosquitto_setup if self.kind == "mosquitto" else embedded_setup
        command = made.command(self._folder, self._host, port, self._max_queued_messages, entrance)
        user, password = next(iter(self._users.items()))
        address = Address(host=_reached(self._host), port=port, user=user, password=password)
        child = Child(command, self._folder / "broker.log")
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
    entrance: Entrance | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    kind: BrokerKind | None = None,
    max_queued_messages: int = 0,
    timeout: float = 20.0,
) -> Broker:
    """Run a broker that keeps its files in a folder; returns once a client could connect.

    The users are names with passwords. Nobody else can connect, and from other machines only with another host. A free
    port is taken where none is given. Mosquitto runs where it is installed, if no kind is asked for. 0 stands for no
    limit of the messages that wait for each client.

    These users may do everything. Where an entrance is given, others may come in there, and do what its access list
    says; `reload` has it read again. Give both ports where mosquitto's sessions shall outlive this process.
    """
    if not users:
        raise ValueError("a broker needs a user, or nobody could connect")
    for user, password in users.items():
        if _UNFIT.search(user) or user.startswith("#"):
            raise ValueError(
                f"{user!r} cannot name a user: not empty, no colons, no control characters, no spaces around it, "
                "and no # in front"
            )
        if not password:
            raise ValueError(f"the password of {user!r} is empty")
    if kind is None:
        kind = "mosquitto" if mosquitto_setup.executable() else "embedded"
    if entrance is not None:
        entrance = _checked(entrance, kind)
    folder = folder.resolve()
    make_folder(folder)
    return Broker(
        folder,
        kind,
        users,
        entrance=entrance,
        host=host,
        port=port,
        max_queued_messages=max_queued_messages,
        timeout=timeout,
    )


def _checked(entrance: Entrance, kind: BrokerKind) -> Entrance:
    """The entrance with its folder made absolute, if its files are there."""
    folder = entrance.folder.resolve()
    for name in (PASSWORDS, ACCESS_LIST):
        if not (folder / name).is_file():
            raise BrokerDown(f"{kind} did not come up: {folder / name} is not there; write it before the broker starts")
    return replace(entrance, folder=folder)


def is_free(host: str, port: int) -> bool:
    """Whether a broker could listen there now."""
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
