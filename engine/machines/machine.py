"""The machine: a process with a Spark session that carries hosts: its own, and those that it took over.

The leading manager orders who carries which host. A host that this machine is to carry is started in a thread of its
own, from the files that are here. A host that is to be handed over stops first. A machine that finds that another one
has taken a host over, because it was held up, ends, and is started anew: its workers know states that nobody shares.
"""

import dataclasses
import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bridge.machine.files import link_whole
from bridge.transport.address import Address
from engine.host.copy_address import CopyAddress
from engine.host.host import SparkHost
from engine.machines.carried_host import Carried, CarriedHost
from engine.machines.carrier_orders import CarrierOrder, OrderStore, read_order
from engine.machines.carrier_watch import CarrierWatch
from engine.machines.host_files import keep_deployment, link_common
from engine.machines.machine_figures import MachineFigures, own_hosts
from engine.machines.warm_up import keep_warm
from engine.replicas.copies import Copies
from engine.replicas.copy_server import CopyServer
from engine.replicas.replicator import Replicator
from engine.spark.cores import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BEAT = 1.0
"""Seconds between two looks."""
_REPEAT = 5.0
"""Seconds after which a status is published even if nothing has changed."""
_ASK = 5.0
"""Seconds for which a start, or a new connection as a host, waits for the broker's answer."""
log = logging.getLogger("braid.host")


class CarriedElsewhere(RuntimeError):
    """A host of this machine that another machine carries by now."""


class Machine:
    """One machine; `run` until stopped."""

    def __init__(  # noqa: PLR0913 - its name and folder, its broker, its session, what it offers and where are ten things
        self,
        name: str,
        root: Path,
        address: Address,
        session: "SparkSession",
        *,
        behaviours: Mapping[str, str],
        tags: Iterable[str] = (),
        zone: str = "",
        hosts: int = 1,
        copies: CopyAddress | None = None,
        common: Path | None = None,
    ) -> None:
        """`hosts` is how many hosts of its own it has: that of its name, NAME.2, NAME.3, and so on.

        `copies` is where it keeps copies for others; None if it keeps none, and shares its root.

        `common` is a folder that all machines reach, with published code and secrets; the root if none is given.
        """
        self.name = name
        self._own = own_hosts(name, hosts)
        self._root = root
        self._common = common or root
        self._session = session
        self._new_host = partial(SparkHost, address=address, session=session, behaviours=behaviours, tags=tags)
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._news: SimpleQueue[CarrierOrder] = SimpleQueue()
        """Orders that were not obeyed yet."""
        self._stopping = threading.Event()
        root.mkdir(parents=True, exist_ok=True)
        link_whole(root / "identity", uuid.uuid4().hex.encode())
        self._identity = (root / "identity").read_text()
        self._orders: dict[str, CarrierOrder] = {}
        self._store = OrderStore(root, name)
        self._carried: dict[str, CarriedHost] = {}
        self._count_cores = partial(cores_of, session)
        self._figures = MachineFigures(name, self._own, self._count_cores)
        secret = secrets.token_urlsafe()
        tls = copies.tls() if copies is not None else None
        self._replicate = partial(Replicator, machine=name, tls=tls)
        self._copy_server = (
            CopyServer(name, secret, listen=(copies.host, copies.port), place=self._place, tls=tls) if copies else None
        )
        self._watch = CarrierWatch(name, address, own=self._own, on_order=self._take)
        self._about: dict[str, Any] = {
            "machine": name,
            "alive": True,
            "own": self._own,
            "boot": uuid.uuid4().hex,
            "zone": zone,
            "tags": sorted(set(tags)),
            "types": sorted(behaviours),
            "root": self._identity,
            "at": self._copy_server.at if self._copy_server is not None else "",
            "secret": secret if self._copy_server is not None else "",
        }
        self._published_at = -_REPEAT
        self._cores = 0

    def run(self) -> bool:
        """Work until stopped; whether a query did not stop, so that the process has to end."""
        self._begin()
        warm = partial(keep_warm, self._session, self._stopping, self._is_cold)
        threading.Thread(target=warm, name="keeps warm", daemon=True).start()
        try:
            while not self._stopping.is_set() and not self._is_stuck():
                try:
                    self._events.get(timeout=_BEAT)()
                except Empty:
                    for carried in self._carried.values():
                        carried.look()
                self._report()
        finally:
            self._end()
        return self._is_stuck()

    def stop(self) -> None:
        """Let `run` return; from any thread."""
        self._stopping.set()
        self._events.put(lambda: None)

    def hang_up(self) -> None:
        """Receive no more, and acknowledge what was received, because the process has to end; from any thread."""
        for carried in list(self._carried.values()):
            carried.hang_up()

    def _begin(self) -> None:
        stored = self._store.all()
        self._watch.begin()
        while not self._watch.ask(_ASK) and not self._stopping.is_set():
            if self._copy_server is None or stored:
                log.warning("the broker does not answer; what ran last is started anyway")
                break
            # On an empty disk, it may be that others have the files of its hosts.
            log.warning("the broker does not answer; this machine waits for it")
        # What was ordered meanwhile counts before anything is started.
        latest = {host: CarrierOrder(host=host, machine=self.name, term=0, version=0) for host in self._own}
        for order in (*stored, *self._heard_so_far()):
            latest[order.host] = order.after(latest.get(order.host))
        for order in latest.values():
            self._obey(order)
        self._report()

    def _is_cold(self, *, begins: bool) -> bool:
        """Whether no job runs, and one may come from elsewhere at any time, or soon after the beginning."""
        hosts = list(self._carried.values())
        has_company = len(self._orders) > len(self._own)
        return (begins or has_company) and not any(carried.has_jobs for carried in hosts)

    def _end(self) -> None:
        for carried in self._carried.values():
            carried.ask_to_stop()
        for carried in self._carried.values():
            carried.end()
        if self._copy_server is not None:
            self._copy_server.close()
        self._watch.say_end()
        self._watch.stop()

    def _is_stuck(self) -> bool:
        return any(carried.stuck for carried in self._carried.values())

    def _take(self, payload: bytes) -> None:
        """Take up an order, from any thread."""
        if not payload:
            return
        try:
            self._news.put(read_order(payload))
        except ValueError as error:
            log.warning("an order is passed over, because it cannot be read: %s", error)
        else:
            self._events.put(self._obey_news)

    def _heard_so_far(self) -> Iterator[CarrierOrder]:
        with suppress(Empty):
            while True:
                yield self._news.get_nowait()

    def _obey_news(self) -> None:
        for order in self._heard_so_far():
            self._obey(order)

    def _obey(self, order: CarrierOrder) -> None:
        known = self._orders.get(order.host)
        if known is not None and order.age < known.age:
            return
        order = order.after(known)
        carried = self._carried.get(order.host)
        concerned = {order.machine, order.heir, *(each.machine for each in order.peers)}
        if (carried is not None or self.name in concerned) and order.version:
            self._store.keep(order)
        if carried is None:
            # As long as the copy is not this machine's own to change.
            self._refuse_below(order)
        self._orders[order.host] = order
        if order.machine != self.name:
            self._give_up(order, carried)
        elif order.root not in {"", self._identity}:
            log.error("the files of host %s are lost here; a machine with a copy goes on with it", order.host)
        elif carried is None:
            log.info("carries host %s from now on, in term %d", order.host, order.term)
            self._carried[order.host] = self._carry(order)
        elif carried.order.term not in {0, order.term}:
            raise CarriedElsewhere(f"host {order.host} had another carrier meanwhile")
        else:
            carried.take(order)

    def _give_up(self, order: CarrierOrder, carried: CarriedHost | None) -> None:
        if carried is not None:
            if carried.state is not Carried.RELEASED:
                raise CarriedElsewhere(f"machine {order.machine} carries host {order.host} since term {order.term}")
            log.info("machine %s carries host %s from now on", order.machine, order.host)
            carried.end()
            del self._carried[order.host]
            self._refuse_below(order)

    def _refuse_below(self, order: CarrierOrder) -> None:
        if self._copy_server is not None and order.version:
            self._copy_server.refuse_below(order.host, order.term)

    def _carry(self, order: CarrierOrder) -> CarriedHost:
        def make(root: Path, copies: Copies) -> SparkHost:
            link_common(root, self._common)
            if self._copy_server is not None:
                keep_deployment(root, order.host)
            return self._new_host(
                order.host,
                root,
                figures=lambda: self._figures.of(order.host, list(self._carried)),
                # Files that are copied belong to one host, wherever it is carried.
                files=self._identity if self._copy_server is None else f"host {order.host}",
                copies=copies,
                permit=partial(self._may_connect, order.host),
            )

        return CarriedHost(
            order, self._root_of(order.host), self._replicate, make, on_change=lambda: self._events.put(lambda: None)
        )

    def _may_connect(self, host: str) -> bool:
        """Whether this machine still carries a host, as of now; from any thread."""
        self._watch.ask(_ASK)
        # An order that has come may still wait for the main thread.
        answered = threading.Event()
        self._events.put(answered.set)
        answered.wait(_ASK)
        order = self._orders.get(host)
        return order is None or order.machine == self.name

    def _place(self, host: str) -> Path | None:
        """The folder for the copy of a host's files; None while this machine carries it; from any thread."""
        order = self._orders.get(host)
        if host in self._carried or (order is not None and order.machine == self.name):
            return None
        return self._root_of(host)

    def _root_of(self, host: str) -> Path:
        if host == self.name or self._copy_server is None:
            return self._root
        return self._root / "copies" / quote(host, safe="")

    def _report(self) -> None:
        hosts = {}
        for name, carried in self._carried.items():
            if carried.is_superseded:
                raise CarriedElsewhere(f"a peer follows another carrier of host {name}")
            found = carried.report()
            if found.in_sync - carried.order.kept_by:
                # Once it is reported, others may rely on it, even if this process dies.
                self._obey(carried.order.with_counted(found.in_sync))
            report = dataclasses.asdict(found)
            hosts[name] = {key: sorted(each) if isinstance(each, frozenset) else each for key, each in report.items()}
        if time.monotonic() - self._published_at >= _REPEAT:
            self._watch.repeat()
            self._published_at, self._cores = time.monotonic(), self._count_cores()
        self._watch.publish({**self._about, "cores": self._cores, "hosts": hosts})
