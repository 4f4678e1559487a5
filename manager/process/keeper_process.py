"""The process that keeps broker and host: `python -m manager.process.keeper_process`, its order a line on its input.

It belongs to no manager: one that dies leaves it running, and the next one finds it by its record in the root. While it
lives it holds the lease of its folder, so that one root has one keeper. Broker and host die with it. The order may hold
passwords, which arguments would show to everybody on the machine.
"""

import logging
import secrets
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue

import psutil
from pydantic import TypeAdapter

from bridge.broker import Broker, BrokerDown, is_free, start_broker
from bridge.broker_setup import Entrance
from bridge.files import Lease, LeaseTaken, write_whole
from bridge.machine import began
from bridge.transport.address import Address
from engine.host.keeper import HostKeeper, MachineOptions
from engine.log_lines import begin_log

BROKER_USER = "braid"
"""The user that Braid's own processes connect as."""
MQTT_PORT, MQTTS_PORT = 1883, 8883
"""The ports where clients of MQTT expect a broker, without and with TLS: tenants come in there where it is free."""
_HERE = "127.0.0.1"
"""Where the broker listens for Braid's own processes."""
KEEPER_TAKEN = 3
"""The exit code that says that another keeper has the lease."""
_TAKE_PATIENCE = 5.0
"""Seconds that a keeper waits for the lease of one that is about to end."""
_LOOK_EVERY = 0.5
_RETRY_AFTER = 5.0
"""Seconds after which a broker that did not come up is started again."""
_ATTEMPTS = 3
log = logging.getLogger("braid.keeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOrder:
    """The order of a manager to its keeper."""

    root: str
    release: str
    """The release of Braid. The manager of another one does not go on with this keeper."""
    host: str | None = None
    master: str | None = None
    tags: tuple[str, ...] = ()
    """The tags that the host offers."""
    broker: str | None = None
    """The URL of a broker that somebody else runs; none is run then."""
    entrance: bool = False
    """Whether the broker is to let tenants in, by the lists in the folder `access` of the root."""
    listen: str = _HERE
    """The address at which the broker listens for tenants."""
    tls: tuple[str, str] | None = None
    """The files of a certificate and its key, if tenants come over TLS."""

    @property
    def digest(self) -> str:
        """A digest, which is the same for equal orders."""
        return sha256(order_line(self)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRecord:
    """The record of a keeper whose broker is up; it stays when the keeper ends, and names the ports for the next."""

    pid: int
    began: str
    """The start of its process, which tells it from another one that gets its id."""
    digest: str
    broker: str
    """The URL for Braid's own processes, with its password."""
    entrance: int | None = None
    """The port for tenants."""


_ORDER = TypeAdapter(KeeperOrder)
_RECORD = TypeAdapter(KeeperRecord)


def folder(root: Path) -> Path:
    """The folder of a keeper's lease, record and log."""
    return root / "keeper"


def order_line(order: KeeperOrder) -> bytes:
    """An order as a line."""
    return _ORDER.dump_json(order) + b"\n"


def read_record(root: Path) -> KeeperRecord | None:
    """The record of the last keeper of a root, if there was one."""
    try:
        return _RECORD.validate_json((folder(root) / "record").read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("%s: passed over, because it cannot be read: %s", folder(root) / "record", error)
        return None


def main() -> None:
    """Keep what was ordered, until a signal."""
    begin_log()
    order = _ORDER.validate_json(sys.stdin.buffer.readline())
    sys.stdin.close()
    # Not an event: what a signal interrupts may hold its lock.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: signals.put(number))
    root = Path(order.root)
    with ExitStack() as kept:
        try:
            kept.enter_context(_leased(folder(root)))
        except LeaseTaken as error:
            log.error("%s", error)  # noqa: TRY400 - it says where and what to do
            sys.exit(KEEPER_TAKEN)
        try:
            _keep(order, root, signals, kept)
        except BrokerDown as error:
            log.error("%s", error)  # noqa: TRY400 - as above
            sys.exit(1)


def _keep(order: KeeperOrder, root: Path, signals: "SimpleQueue[int]", kept: ExitStack) -> None:
    before = read_record(root)
    broker = None if order.broker else kept.enter_context(_broker(order, root, before))
    address = broker.address(BROKER_USER) if broker is not None else Address.parse(order.broker or "")
    if order.host is not None:
        kept.enter_context(HostKeeper(order.host, root, address, MachineOptions(master=order.master, tags=order.tags)))
    record = KeeperRecord(
        pid=psutil.Process().pid,
        began=began(psutil.Process()),
        digest=order.digest,
        broker=address.url,
        entrance=broker.entrance.port if broker is not None and broker.entrance is not None else None,
    )
    if broker is not None:
        # For hosts that are started by hand on this machine.
        write_whole(root / "broker.url", f"{address.url}\n".encode(), mode=0o600)
    # Last, because a reader takes everything else to be there.
    write_whole(folder(root) / "record", _RECORD.dump_json(record), mode=0o600)
    log.info("keeps %s over %s", f"host {order.host}" if order.host else "no host", address)
    _watch(broker, signals)


def _watch(broker: Broker | None, signals: "SimpleQueue[int]") -> None:
    """Look after the broker until a signal comes."""
    retry_at = 0.0
    while True:
        try:
            number = signals.get(timeout=_LOOK_EVERY)
        except Empty:
            number = 0
        if number in {signal.SIGTERM, signal.SIGINT}:
            return
        if broker is None:
            continue
        if number == signal.SIGHUP and broker.entrance is not None:
            broker.reload()
        if not broker.alive() and time.monotonic() > retry_at:
            log.warning("the broker died and is started again")
            try:
                broker.restart()
            except BrokerDown as error:
                retry_at = time.monotonic() + _RETRY_AFTER
                log.error("%s", error)  # noqa: TRY400 - it says where and what to do


def _leased(path: Path) -> Lease:
    """The lease of a keeper; one that ends is waited for."""
    deadline = time.monotonic() + _TAKE_PATIENCE
    while True:
        try:
            return Lease(path)
        except LeaseTaken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _broker(order: KeeperOrder, root: Path, before: KeeperRecord | None) -> Broker:
    """A broker, with the password and at the ports that the one before had: sessions and hosts elsewhere know them.

    A port that somebody else has taken since is given up for another one, which the record keeps from then on.
    """
    known = Address.parse(before.broker) if before is not None else None
    had = known.port if known is not None else 0
    tenants_had = (before.entrance if before is not None else None) or 0
    password = (known.password if known else None) or secrets.token_urlsafe()
    # A broker may still be ending whose keeper was killed.
    deadline = time.monotonic() + _TAKE_PATIENCE
    while _any_taken((_HERE, had), (order.listen, tenants_had)) and time.monotonic() < deadline:
        time.sleep(0.1)
    broker = _started(order, root, password, had, tenants_had)
    _tell_moved("Braid itself", had, broker.address(BROKER_USER).port)
    _tell_moved("tenants", tenants_had, broker.entrance.port if broker.entrance is not None else 0)
    return broker


def _started(order: KeeperOrder, root: Path, password: str, had: int, tenants_had: int) -> Broker:
    """A broker at the first ports that are free; chosen again where another broker was quicker."""
    left = _ATTEMPTS
    tls = None if order.tls is None else (Path(order.tls[0]), Path(order.tls[1]))
    while True:
        port = first_free(_HERE, had)
        usual = MQTT_PORT if tls is None else MQTTS_PORT
        door = first_free(order.listen, *(number for number in (tenants_had, usual) if number != port))
        entrance = Entrance(folder=root / "access", host=order.listen, port=door, tls=tls) if order.entrance else None
        try:
            return start_broker(root / "broker", {BROKER_USER: password}, entrance=entrance, host=_HERE, port=port)
        except BrokerDown:
            left -= 1
            if not left or not _any_taken((_HERE, port), (order.listen, door)):
                raise


def _any_taken(*places: tuple[str, int]) -> bool:
    return any(port and not is_free(host, port) for host, port in places)


def first_free(host: str, *wanted: int) -> int:
    """The first of some ports that is free; 0, which stands for any other, where none is."""
    return next((port for port in wanted if port and is_free(host, port)), 0)


def _tell_moved(whom: str, had: int, port: int) -> None:
    if had and port and had != port:
        log.warning("port %d is in use by somebody else; the broker listens for %s on %d from now on", had, whom, port)


if __name__ == "__main__":
    main()
