"""What fails, never so much that a promise cannot be kept; and machines that each leave out one rule."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ring.fleet import Carriage
from tests.simulation.machines.broker import Disk, Files, Hello, Write
from tests.simulation.machines.machine import Carrier, Machine
from tests.simulation.machines.world import World

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


CALM = 10.0
"""For so long nothing has happened to those on whom everything depends after a loss."""
SHIELDED = 30.0
"""For so long nothing happens to them after it."""


class Faults:
    """Faults of one run; how often each kind comes is the run's own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.often = world.numbers.choice([0.02, 0.05, 0.1])
        self.kinds = (
            *(self.crash, self.lose, self.pause, self.part, self.cut, self.broker, self.leader, self.drain),
            self.shift,
        )
        self.weights = [world.numbers.choice([0, 1, 3]) for _ in self.kinds]
        self.weights[1] += 2
        self.troubled: dict[str, float] = {}
        """When what happened to a machine was over."""
        self.shielded: dict[str, float] = {}
        self.returning: dict[str, float] = {}
        self.lost = 0
        self.together: list[int] = []
        """How many were lost at once."""

    def strike(self) -> None:
        """Perhaps something happens, and perhaps somebody returns."""
        world = self.world
        for name, at in list(self.returning.items()):
            if world.now >= at:
                del self.returning[name]
                world.start(name)
        if world.numbers.random() < self.often:
            world.numbers.choices(self.kinds, self.weights)[0]()

    def heal(self) -> None:
        """Everybody who can returns, and all links work."""
        world = self.world
        world.parted, world.paused, world.broker.down_until = {}, {}, 0.0
        for name in self.returning:
            world.start(name)
        self.returning = {}

    def forget(self) -> None:
        """An operator forgets the machines that never return, and drains none any more."""
        world = self.world
        world.draining.clear()
        for name in world.gone:
            world.database.ring = world.database.ring.left(name)

    def crash(self) -> None:
        """A process, or all of them, end and return with their disks."""
        names = self._up()
        for name in names if not self.world.numbers.randint(0, 9) else names[:1]:
            self._end(name)
            self.returning[name] = self.world.now + self.world.numbers.uniform(0.1, 15)
            self._trouble(name, self.returning[name])

    def lose(self) -> None:
        """A machine or several at once end and lose their disks; some never return."""
        numbers, before = self.world.numbers, self.lost
        for name in self._up()[: numbers.randint(min(1, self.world.replicas), self.world.replicas)]:
            if not self._may_lose(name):
                continue
            self.lost += 1
            self._end(name)
            self.world.disks[name] = Disk(f"root-{name}-{self.lost}")
            if numbers.randint(0, 1) or len(self.world.machines) - len(self.world.gone) <= self.world.replicas + 1:
                self.returning[name] = self.world.now + numbers.uniform(0.1, 15)
                self._trouble(name, self.returning[name])
            else:
                self.world.gone.add(name)
        self.together.append(self.lost - before)

    def pause(self) -> None:
        """A process stands still, and then believes that nothing has happened."""
        for name in self._up()[:1]:
            self.world.paused[name] = self.world.now + self.world.numbers.uniform(0.5, 20)
            self._trouble(name, self.world.paused[name])

    def part(self) -> None:
        """Two don't reach each other for a while."""
        numbers = self.world.numbers
        one, other = numbers.sample([*self._up(), "broker", *(each.name for each in self.world.leaders)], 2)
        until = self.world.now + numbers.uniform(0.5, 20)
        for name in (one, other):
            self._trouble(name, until)
        self.world.parted[frozenset({one, other})] = until

    def cut(self) -> None:
        """A connection breaks."""
        if self.world.connections:
            self.world.numbers.choice(self.world.connections).close()

    def broker(self) -> None:
        """It restarts, and may forget everything."""
        numbers = self.world.numbers
        self.world.broker.restart(numbers.uniform(0, 3), forgets=bool(numbers.randint(0, 1)))
        for source in self.world.sources.values():
            source.inbox = None

    def leader(self) -> None:
        """It ends, or stands still and is replaced meanwhile."""
        numbers, leaders = self.world.numbers, self.world.leaders
        if numbers.randint(0, 1):
            self.world.broker.closed(leaders.pop().name)
        else:
            self.world.paused[leaders[-1].name] = self.world.now + numbers.uniform(0.5, 10)
        self.world.lead()

    def drain(self) -> None:
        """An operator wants a machine empty, or not any more."""
        self.world.draining ^= {self.world.numbers.choice(sorted(self.world.machines))}

    def shift(self) -> None:
        """Hosts have more or less to do than before."""
        numbers = self.world.numbers
        for host in sorted(self.world.loads):
            if numbers.randint(0, 1):
                self.world.loads[host] = numbers.choice([0.0, 0.0, 0.1, 0.5, 1.0])

    def skew(self) -> None:
        """The hosts of one machine have most to do."""
        numbers, ring = self.world.numbers, self.world.database.ring
        busy = numbers.choice(sorted(self.world.machines))
        for host, each in sorted(self.world.database.carriages.items()):
            self.world.loads[host] = numbers.choice([0.5, 1.0] if ring.owner(each.point) == busy else [0.0, 0.1])

    def _up(self) -> list[str]:
        """Machines to which something may happen, in any order."""
        world = self.world
        names = [name for name in sorted(world.machines) if world.machines[name]]
        names = [name for name in names if self.shielded.get(name, 0.0) <= world.now]
        world.numbers.shuffle(names)
        return names

    def _trouble(self, name: str, until: float) -> None:
        self.troubled[name] = max(until, self.troubled.get(name, 0.0))

    def _end(self, name: str) -> None:
        self.world.stop(name)
        if self.world.numbers.randint(0, 1):
            self.world.broker.closed(name)

    def _may_lose(self, name: str) -> bool:
        """Whether somebody else whom nothing happened to has everything that the machine has; if so, nothing will."""
        world, safe = self.world, set()
        if name not in world.database.carriages:
            return False
        for carriage in world.database.carriages.values():
            holders = {holder for holder, _ in world.holders(carriage)}
            others = {each for each in holders - {name} if world.machines[each] and self._calm(each)}
            if name in holders or name in carriage.peers:
                if not others:
                    return False
                safe |= others
        self.shielded |= dict.fromkeys(safe, world.now + SHIELDED)
        return True

    def _calm(self, name: str) -> bool:
        return self.troubled.get(name, 0.0) <= self.world.now - CALM


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
