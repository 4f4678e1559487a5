"""The broker and the host that a manager has run beside it, and its connections to the broker."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.protocol_version import detect_protocol
from manager.process.keeper import KeeperHandle
from manager.process.keeper_process import KeeperOrder
from manager.process.settings import Settings
from manager.savings.counter_growth import BrokerCpu
from manager.savings.meter import broker_cpu
from merge import Host

NO_HOST = "none"
"""The setting that leaves the jobs to hosts that are started elsewhere."""


class BrokerAndHost:
    """The broker and the host of one manager; either may run elsewhere instead."""

    def __init__(self, settings: Settings, root: Path) -> None:
        self._listen = settings.listen
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
        )
        self._keeper: KeeperHandle | None = None
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
        if self._order.broker is not None and self._order.host is None:
            return
        self._keeper = KeeperHandle(self._order)
        self._keeper.start()
        if (port := self._keeper.entrance) is not None:
            self._entrance = Address(host=_reached(self._listen), port=port)

    def leave(self) -> None:
        """Let both run on without this manager."""
        if self._keeper is not None:
            self._keeper.leave()

    def end(self, *, keeps: bool) -> None:
        """Stop both, unless another manager is to go on with them."""
        if self._keeper is not None and not keeps:
            self._keeper.stop()
        self._keeper = None

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


def _reached(host: str) -> str:
    """The host at which this machine reaches what listens on all of its addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - nothing listens
