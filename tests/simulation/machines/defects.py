"""Machines that each leave out one rule; some seed must show it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ring.fleet import Carriage
from tests.simulation.machines.carrier import Carrier
from tests.simulation.machines.files import Disk, Files, Write
from tests.simulation.machines.machine import Machine
from tests.simulation.machines.messages import Hello

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


class _Ungated(Carrier):
    def gate(self) -> set[str]:
        return set()


class Ungated(Machine):
    """Acknowledges and publishes what is on its own disk."""

    carrying = _Ungated


class _Hasty(Carrier):
    def _promise(self) -> None:
        self.promised |= {name for name, session in self.sessions.items() if session.connection.open}


class Hasty(Machine):
    """Says that a peer has everything as soon as it reaches it."""

    carrying = _Hasty


class _Tentative(Carrier):
    def gate(self) -> set[str]:
        return {*self.order.kept_by}


class Tentative(Machine):
    """Gates on a peer only once it has heard that this one is counted."""

    carrying = _Tentative


class _Forgetful(Carrier):
    def _recall(self) -> None:
        self.promised = frozenset()


class Forgetful(Machine):
    """Does not know after a restart which peers it had said to have everything."""

    carrying = _Forgetful


class Lenient(Machine):
    """Takes files from a carrier of an older term."""

    def refuses(self, hello: Hello) -> bool:
        return hello.root != self.disk.root


class Eager(Machine):
    """Carries its own host on an empty disk before anybody said so."""

    def __init__(self, name: str, world: "World", disk: Disk) -> None:
        super().__init__(name, world, disk)
        if name not in disk.orders:
            self._act(Carriage(host=name, machine=name, root=disk.root, version=0))


class Trusting(Machine):
    """Takes orders that mean the disk that it had before."""

    def _act(self, order: Carriage) -> None:
        super()._act(replace(order, root=self.disk.root) if order.machine == self.name else order)


class _Adding(Carrier):
    def missing(self, there: Files) -> list[Write]:
        return [write for write in super().missing(there) if write.spool is not None or write.record is not None]


class Adding(Machine):
    """Leaves at a peer what another carrier wrote and it never had itself."""

    carrying = _Adding


class _Resumed(Carrier):
    def _follow(self) -> None:
        self.running = True
        if self.written == 0:
            super()._follow()
            self.running = True


class Restless(Machine):
    """Goes on while it hands a host over."""

    carrying = _Resumed
