"""A host as its machine carries it: in a thread of its own, with its files sent to its peers."""

import logging
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from engine.host.application import SparkHost
from engine.machines.carrier_orders import CarrierOrder
from engine.replicas.copies import Copies, CopiesEnded
from engine.replicas.replicator import Replicator
from ring.fleet import STORE, HostReport

log = logging.getLogger("braid.host")

_STOP_SECONDS = 30.0
"""Seconds for which the end of a host waits for its peers."""


class Carried(StrEnum):
    """The states of a host on its machine."""

    RUNNING = "running"
    STOPPING = "stopping"
    """Its jobs end, and what they left is being sent to its peers."""
    RELEASED = "released"
    """Another machine may begin."""


class CarriedHost:
    """One host; called from the machine's main thread."""

    def __init__(
        self,
        order: CarrierOrder,
        root: Path,
        replicate: Callable[..., Replicator],
        make: Callable[[Path, Copies], SparkHost],
        *,
        on_change: Callable[[], None],
    ) -> None:
        """`replicate` makes what sends copies, and `make` the host in a folder.

        `on_change` is called, from any thread, when the host has ended.
        """
        self.order = order
        self.state = Carried.RUNNING
        self.stuck = False
        """Whether a query did not stop, so that the process has to end."""
        self.root = root
        self._make = make
        self._host: SparkHost | None = None
        self._on_change = on_change
        self._replicator = replicate(order.host, root, on_kept=self._grew)
        self._begin()

    def take(self, order: CarrierOrder) -> None:
        """Take up a later order by which this machine still carries the host."""
        self.order = order
        self._send()
        if order.heir and self.state is Carried.RUNNING:
            self.state = Carried.STOPPING
            self.ask_to_stop()
        elif not order.heir and self.state is Carried.RELEASED:
            log.info("host %s stays, and runs again", order.host)
            self._begin()

    def look(self) -> None:
        """Run a host again that was to be handed over, and is not any more."""
        if self.state is Carried.RELEASED and not self.order.heir:
            self._begin()

    def report(self) -> HostReport:
        """What the leading manager has to know."""
        copies = self._replicator.report()
        # What counts goes on to count until the leader orders otherwise, even if it cannot be reached.
        counting = (copies.in_sync | self.order.kept_by) & {*(each.machine for each in self.order.peers), STORE}
        return HostReport(
            version=self.order.version,
            in_sync=counting,
            broken=copies.broken,
            released=self.state is Carried.RELEASED,
            behind_bytes=copies.behind_bytes,
            troubles=copies.troubles,
        )

    @property
    def is_superseded(self) -> bool:
        """Whether a peer follows a later carrier."""
        return self._replicator.report().superseded

    @property
    def has_jobs(self) -> bool:
        """Whether any job runs."""
        return self._host is not None and self._host.has_jobs

    def hang_up(self) -> None:
        """Receive no more, because the process has to end at once; from any thread."""
        if self._host is not None:
            self._host.hang_up()

    def ask_to_stop(self) -> None:
        """Begin to stop."""
        if self._host is not None:
            self._host.stop()

    def end(self) -> None:
        """Wait until the host has stopped; its copies are complete then, if its peers answer."""
        self._thread.join(_STOP_SECONDS)
        # What still waits for a peer gives up.
        self._replicator.close()
        self._thread.join()

    def _begin(self) -> None:
        # One that is being handed over does not run again, even if this process is a new one.
        self.state = Carried.STOPPING if self.order.heir else Carried.RUNNING
        self._host = None if self.order.heir else self._make(self.root, self._replicator)
        # Before it does anything: it may have to wait for its peers.
        self._send()
        self._thread = threading.Thread(target=self._run, name=f"carries {self.order.host}")
        self._thread.start()

    def _run(self) -> None:
        if self._host is not None:
            self.stuck = self._host.run()
        try:
            self._replicator.settle()
        except CopiesEnded as error:
            log.info("host %s ended before all was at its peers: %s", self.order.host, error)
        if self.state is Carried.STOPPING:
            self.state = Carried.RELEASED
        self._on_change()

    def _send(self) -> None:
        self._replicator.order(self.order.term, self.order.peers, self.order.kept_by)

    def _grew(self) -> None:
        # The machine looks by itself every second: this comes with every batch.
        if self._host is not None:
            self._host.copies_grew()
