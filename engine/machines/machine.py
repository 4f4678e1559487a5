"""The machine: a process with a Spark session that carries hosts: its own, and those that it took over.

The leading manager orders who carries which host. A host that this machine is to carry is started in a thread of its
own, from the files that are here. A host that is to be handed over stops first. A machine that finds that another one
has taken a host over, because it was held up, ends, and is started anew: its workers know states that nobody shares.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from bridge.transport.address import Address
from engine.host.application import SparkHost
from engine.host.keeper import MachineOptions
from engine.machines.carried_host import Carried, CarriedHost, MachineRoot, Restoration
from engine.machines.orders import CarrierOrder, CommonFiles, OrderStore
from engine.machines.reports import CarrierWatch, MachineFigures, MachineKey, measured_speed, own_hosts
from engine.machines.warm_up import keep_warm
from engine.replicas.copies import Copies, Replicator
from engine.replicas.copy_server import CopyRoom, CopyServer
from engine.replicas.store_copy import StoreAddress
from engine.spark.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BEAT = 1.0
"""Seconds between two looks."""
_ASK = 5.0
"""Seconds for which a start, or a new connection as a host, waits for the broker's answer."""
log = logging.getLogger("braid.host")


class CarriedElsewhere(RuntimeError):
    """A host of this machine that another machine carries by now."""


class Machine:
    """One machine; `run` until stopped."""

    def __init__(  # noqa: PLR0913 - its name and folder, its broker, its session, and what it offers are six things
        self,
        name: str,
        root: Path,
        address: Address,
        session: "SparkSession",
        options: MachineOptions,
        *,
        behaviours: Mapping[str, str],
    ) -> None:
        self.name = name
        copies, common, store, image = options.copies, options.common, options.store, options.image
        self._own = own_hosts(name, options.hosts)
        self._root = MachineRoot(root, name, common=common, is_shared=copies is None and not store)
        self._session = session
        self._new_host = partial(
            SparkHost, address=address, session=session, behaviours=behaviours, tags=options.tags, image=image
        )
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._news: SimpleQueue[CarrierOrder] = SimpleQueue()
        """Orders that were not obeyed yet."""
        self._stopping = threading.Event()
        self.key = MachineKey(root)
        self._orders: dict[str, CarrierOrder] = {}
        self._store = OrderStore(root, name)
        self._carried: dict[str, CarriedHost] = {}
        self._count_cores = partial(cores_of, session)
        self._figures = MachineFigures(name, self._own, self._count_cores)
        secret = secrets.token_urlsafe()
        tls = copies.tls() if copies is not None else None
        stored_at = StoreAddress(url=store, identity=self._root.identity) if store else None
        self._replicate = partial(Replicator, machine=name, tls=tls, store=stored_at)
        self._room = CopyRoom(root)
        serve = partial(CopyServer, name, secret, place=self._place, tls=tls, check_room=self._room.check)
        self._copy_server = serve(listen=copies.listen) if copies is not None else None
        self._restoration = Restoration(self._root, name, store)
        is_sent = not self._root.is_shared and not common and not (root / "access").exists()
        self._watch = CarrierWatch(
            name,
            address,
            self.key,
            own=self._own,
            on_order=self._take,
            count_cores=self._count_cores,
            common=CommonFiles(root) if is_sent else None,
            zone=options.zone,
            tags=sorted(set(options.tags)),
            image=image,
            speed=measured_speed(),
            types=sorted(behaviours),
            root=self._root.identity,
            at=copies.reached_at(self._copy_server.at) if copies and self._copy_server else "",
            secret=secret if self._copy_server is not None else "",
        )

    def run(self) -> bool:
        """Work until stopped; whether a query did not stop, so that the process has to end."""
        self._begin()
        warm = partial(keep_warm, self._session, self._stopping, self._is_cold)
        Thread(target=warm, name="keeps warm", daemon=True).start()
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
            if (self._root.is_shared or stored) and not self._restoration.waits:
                log.warning("the broker does not answer; what ran last is started anyway")
                break
            # On an empty disk, it may be that others have the files of its hosts.
            log.warning("the broker does not answer; this machine waits for it")
        # What was ordered meanwhile counts before anything is started.
        latest = {host: CarrierOrder(host=host, machine=self.name, term=0, version=0) for host in self._own}
        if self._restoration.waits:
            latest.clear()
        for order in (*stored, *self._heard_so_far()):
            latest[order.host] = order.after(latest.get(order.host))
        for order in latest.values():
            self._obey(order)
        self._report()

    def _is_cold(self, *, begins: bool) -> bool:
        """Whether no job runs, and one may come from elsewhere at any time, or soon after the beginning."""
        has_company = len(self._orders) > len(self._own)
        return (begins or has_company) and not any(carried.has_jobs for carried in list(self._carried.values()))

    def _end(self) -> None:
        for carried in self._carried.values():
            carried.ask_to_stop()
        for carried in self._carried.values():
            carried.end()
        self._restoration.stop()
        if self._copy_server is not None:
            self._copy_server.close()
        self._watch.stop()

    def _is_stuck(self) -> bool:
        return any(carried.stuck for carried in self._carried.values())

    def _take(self, order: CarrierOrder) -> None:
        """Take up an order, from any thread."""
        self._news.put(order)
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
        if (carried is not None or order.concerns(self.name)) and order.version:
            self._store.keep(order)
        if order.machine != self.name and order.concerns(self.name) and self._restores(order):
            self._restoration.give_up(f"machine {order.machine} sends copies of it")
        if carried is None:
            # As long as the copy is not this machine's own to change.
            self._refuse_below(order)
        self._orders[order.host] = order
        if order.machine != self.name:
            self._give_up(order, carried)
        elif carried is None and self._restores(order):
            # By then, there may be a later one.
            self._restoration.begin(order, lambda: self._take(self._orders[order.host]))
        elif order.root not in {"", self._root.identity}:
            if carried is not None:
                raise CarriedElsewhere(f"another machine {self.name} carries host {order.host} with files of its own")
            log.error("the files of host %s are lost here; a machine with a copy goes on with it", order.host)
        else:
            self._go_on(order, carried)

    def _go_on(self, order: CarrierOrder, carried: CarriedHost | None) -> None:
        if carried is None:
            log.info("carries host %s from now on, in term %d", order.host, order.term)
            self._carried[order.host] = self._carry(order)
        elif carried.order.term not in {0, order.term}:
            raise CarriedElsewhere(f"host {order.host} had another carrier meanwhile")
        else:
            carried.take(order)

    def _restores(self, order: CarrierOrder) -> bool:
        return order.host == self.name and self._restoration.waits

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
            # Its own hosts may come home soon; of others it would keep ever more.
            if order.kept_by and order.host not in self._own and not order.concerns(self.name):
                Thread(target=self._copy_server.remove, args=(order.host,), name="removes a copy").start()

    def _carry(self, order: CarrierOrder) -> CarriedHost:
        def make(root: Path, copies: Copies) -> SparkHost:
            self._root.prepare(root, order.host)
            return self._new_host(
                order.host,
                root,
                figures=lambda: self._figures.figures(order.host, list(self._carried)),
                files=self._root.outside_name(order.host),
                copies=copies,
                permit=partial(self._may_connect, order.host),
            )

        return CarriedHost(
            order,
            self._root.folder_of(order.host),
            self._replicate,
            make,
            on_change=lambda: self._events.put(lambda: None),
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
        return self._root.folder_of(host)

    def _report(self) -> None:
        hosts = {}
        for name, carried in self._carried.items():
            if carried.is_superseded:
                raise CarriedElsewhere(f"a peer follows another carrier of host {name}")
            hosts[name] = carried.report()
            if hosts[name].in_sync - carried.order.kept_by:
                # Once it is reported, others may rely on it, even if this process dies.
                self._obey(carried.order.with_counted(hosts[name].in_sync))
        self._watch.report(hosts, full=self._room.shortage(), **self._restoration.offer())
