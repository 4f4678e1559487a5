"""A machine: the process that carries hosts and keeps copies of others, on its disk."""

from typing import TYPE_CHECKING

from ring.fleet import Carriage, MachineSeen
from tests.simulation.machines.carrier import Carrier
from tests.simulation.machines.files import Disk, Write
from tests.simulation.machines.messages import Connection, Fenced, Have, Hello, Inventory, Mark

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


class Machine:
    """One process; its disk was there before."""

    carrying: type[Carrier] = Carrier

    def __init__(self, name: str, world: "World", disk: Disk) -> None:
        self.name = name
        self.world = world
        self.disk = disk
        self.carriers: dict[str, Carrier] = {}
        self.coming: list[Connection] = []
        self.greeted: dict[str, tuple[Connection, Hello]] = {}
        self.next_status = 0.0
        for order in list(disk.orders.values()):
            self._act(order)

    def tick(self) -> None:
        """Take orders, serve peers, work, and report."""
        world, orders = self.world, self.world.broker.received(self.name)
        for order, _ in orders:
            if isinstance(order, Carriage):
                self.ordered(order)
        self.coming = [connection for connection in self.coming if connection.open]
        for connection in self.coming:
            for message in connection.arrived(connection.there, world.numbers):
                self._serve(connection, message)
        for carrier in list(self.carriers.values()):
            carrier.tick()
        if world.now >= self.next_status and world.broker.connected(self.name):
            self.next_status = world.now + world.numbers.uniform(0.3, 2.0)
            world.broker.publish(("status", self.name), self.status())

    def status(self) -> MachineSeen:
        return MachineSeen(
            name=self.name,
            alive=True,
            zone=self.world.zones[self.name],
            root=self.disk.root,
            at=f"{self.name}:1",
            own=self.world.own[self.name],
            hosts={host: carrier.report() for host, carrier in self.carriers.items()},
        )

    def stop(self) -> None:
        """All connections break; nothing but the disk is left."""
        for carrier in self.carriers.values():
            carrier.stop()
        for connection in self.coming:
            connection.close()

    def ordered(self, order: Carriage) -> None:
        """Only what is newer than what was ordered before counts; it is on disk before it is acted upon."""
        known = self.disk.orders.get(order.host)
        if known is None or known.version < order.version:
            self.disk.orders[order.host] = order
            self._act(order)

    def fenced(self, host: str, term: int) -> None:
        """Somebody carries the host in a higher term."""
        self.disk.know(host, term)
        if carrier := self.carriers.pop(host, None):
            carrier.stop()

    def _act(self, order: Carriage) -> None:
        host = order.host
        if order.machine == self.name and order.root == self.disk.root and order.term >= self.disk.terms.get(host, 0):
            self.disk.know(host, order.term)
            carrier = self.carriers.get(host)
            if carrier and carrier.order.term == order.term:
                carrier.obey(order)
            else:
                self.carriers[host] = self.carrying(self, order)
        elif host in self.carriers:
            self.fenced(host, order.term)

    def refuses(self, hello: Hello) -> bool:
        """Whether a carrier is of an older term than is known, or means a disk that is not there any more."""
        return hello.root != self.disk.root or hello.term < self.disk.terms.get(hello.host, 0)

    def _serve(self, connection: Connection, message: object) -> None:
        if isinstance(message, Hello):
            if self.refuses(message):
                connection.back.append(Fenced(self.disk.terms.get(message.host, 0)))
                return
            carrier = self.carriers.get(message.host)
            if carrier and carrier.order.term < message.term:
                self.fenced(message.host, message.term)
            self.disk.know(message.host, message.term)
            self.greeted[message.host] = (connection, message)
            connection.back.append(Inventory(self.disk.of(message.host).copy()))
            return
        hello = next((hello for one, hello in self.greeted.values() if one is connection), None)
        if hello is None or self.refuses(hello):
            connection.back.append(Fenced(self.disk.terms.get(hello.host, 0) if hello else 0))
        elif isinstance(message, Write):
            self.disk.of(hello.host).apply(message)
        elif isinstance(message, Mark):
            connection.back.append(Have(message.written))
