"""The broker and the host that a manager has run beside it, its connections to the broker, and the files it sends."""

import hashlib
import os
import threading
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import detect_protocol
from engine.machines.orders import common_files, common_messages
from manager.background import ManagerWatch, RegularLooks
from manager.process.keeper import KeeperHandle
from manager.process.keeper_process import KeeperOrder
from manager.savings.counters import BrokerCpu
from manager.savings.meter import broker_cpu
from manager.settings import Settings
from merge import Host

NO_HOST = "none"
"""The setting that leaves the jobs to hosts that are started elsewhere."""


class BrokerAndHost:
    """The broker and the host of one manager; either may run elsewhere instead."""

    def __init__(self, settings: Settings, root: Path) -> None:
        self._reached = settings.listen_here
        self._root = root
        # Made once: to find out the release takes as long as a good part of a submission.
        self._order = KeeperOrder(
            root=str(root),
            release=version("braid"),
            host=None if settings.host == NO_HOST else settings.host,
            master=settings.master,
            tags=settings.tag,
            broker=settings.broker.get_secret_value() if settings.broker else None,
            entrance=settings.broker is None,
            listen=settings.listen,
            tls=None if settings.tls is None else (str(settings.tls[0]), str(settings.tls[1])),
        )
        self._keeper = (
            None if self._order.broker is not None and self._order.host is None else KeeperHandle(self._order)
        )
        self._entrance: Address | None = None

    @property
    def here(self) -> Host | None:
        """The host that is run here, if one is."""
        if self._order.host is None:
            return None
        return Host(name=self._order.host, cores=float(os.cpu_count() or 1), tags=frozenset(self._order.tags))

    @property
    def entrance(self) -> Address | None:
        """The address at which tenants reach the broker that is run here; known from its first start on."""
        return self._entrance

    @property
    def address(self) -> Address:
        """The address of the broker for Braid's own processes."""
        return self._keeper.address if self._keeper is not None else Address.parse(self._order.broker or "")

    def start(self) -> None:
        """Start what is to run here, or find it running."""
        if self._keeper is not None and (port := self._keeper.start().entrance) is not None:
            self._entrance = Address(host=self._reached, port=port, tls=self._order.tls is not None)

    def leave(self) -> None:
        """Let both run on without this manager."""
        if self._keeper is not None:
            self._keeper.leave()

    def end(self, *, keeps: bool) -> None:
        """Stop both, unless another manager is to go on with them."""
        if self._keeper is not None and not keeps:
            self._keeper.stop()

    def reload(self) -> None:
        """Have the broker read its users and access lists again."""
        if self._keeper is not None:
            self._keeper.reload()

    def connect(self, client_id: str, *, lasting: bool = False, **callbacks: Any) -> MqttClient:
        """A client of the broker that has begun to connect."""
        address = self.address
        client = MqttClient(address, client_id, protocol=detect_protocol(address), lasting=lasting, **callbacks)
        client.begin()
        return client

    def taken(self) -> BrokerCpu | None:
        """The CPU that the broker has taken, where it runs here."""
        keeper = self._keeper.pid if self._keeper is not None and self._order.broker is None else None
        return broker_cpu(keeper, f"{(self._root / 'broker').resolve()}/")


_LOOK_EVERY = 1.0


class CommonSender:
    """Sends the common files of machines from `start` to `stop`, while this manager leads."""

    def __init__(self, root: Path, connect: Callable[..., MqttClient]) -> None:
        self._root = root
        self._connect = connect
        self._client: MqttClient | None = None
        self._retained: dict[str, bytes] = {}
        """The digest of what the broker retains on each topic, as far as it came back."""
        self._wanted: dict[str, bytes] = {}
        """The digest of what the broker should retain on each topic."""
        self._seen: object = None
        self._guard = threading.Lock()
        self._looks = RegularLooks(ManagerWatch(self.look, "common files are not sent to machines"), every=_LOOK_EVERY)

    def start(self) -> None:
        """Begin to send."""
        callbacks: dict[str, Any] = {"on_message": self._hear, "on_connection": self._forget}
        self._client = self._connect(f"braid-common-{uuid.uuid4().hex[:12]}", topics=[topics.common("#")], **callbacks)
        self._looks.start()

    def stop(self) -> None:
        """Send nothing more; idempotent."""
        self._looks.stop()
        if self._client is not None:
            self._client.stop()

    def look(self) -> None:
        """Send what has changed; from any thread."""
        with self._guard:
            version = {name: _version(self._root / name) for name in common_files(self._root)}
            if self._client is None or version == self._seen:
                return
            self._seen = version
            messages = common_messages(self._root)
            self._wanted = {topic: _digest(payload) for topic, payload in messages.items()}
            for topic, payload in messages.items():
                if self._retained.get(topic) != self._wanted[topic]:
                    self._client.publish(topic, payload, retain=True)
            # What the list does not name any more is cleared after it.
            for topic in sorted(self._retained.keys() - messages.keys()):
                self._client.publish(topic, b"", retain=True)

    def _hear(self, message: Message) -> None:
        if message.payload:
            self._retained[message.topic] = _digest(message.payload)
        else:
            self._retained.pop(message.topic, None)
        if self._retained.get(message.topic) != self._wanted.get(message.topic):
            # A manager of before sent it; the next look sends what is right.
            self._seen = None
        if self._client is not None:
            self._client.acknowledge([message.token])

    def _forget(self) -> None:
        # Another broker may have nothing.
        self._retained.clear()
        self._seen = None


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _version(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
