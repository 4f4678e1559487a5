"""The world: machines, links, sources, what anybody outside has seen, and what must be true of it at any moment."""

import random
from collections import deque
from collections.abc import Iterator

from engine.machines.reports import own_hosts
from ring.fleet import Carriage, CarriageTurn
from ring.tokens import Ring
from tests.simulation.machines.broker import Broker, Connection, Disk, Files, Record
from tests.simulation.machines.machine import Database, Leader, Machine


class Trouble(Exception):
    """Something that must never be."""


class Source:
    """It keeps every event until that is acknowledged, and sends those again to each client that connects."""

    def __init__(self) -> None:
        self.inbox: deque[int] | None = None
        self.unacknowledged: dict[int, None] = {}

    def connected(self) -> deque[int]:
        """A client connects in the name of the host; the one that was connected before gets nothing new."""
        self.inbox = deque(self.unacknowledged)
        return self.inbox

    def send(self, event: int) -> None:
        self.unacknowledged[event] = None
        if self.inbox is not None:
            self.inbox.append(event)


class World:
    """All that there is at a moment."""

    def __init__(self, seed: int, make: type[Machine]) -> None:
        numbers = self.numbers = random.Random(seed)
        names = "abcde"[: numbers.choice([2, 3, 3, 4, 4, 5])]
        self.make = make
        self.now = 0.0
        most = numbers.choice([1, 1, 3])
        self.own = {name: own_hosts(name, numbers.randint(most - most // 2, most)) for name in names}
        self.loads = {host: 0.0 for own in self.own.values() for host in own}
        """The cores that each host takes."""
        self.settled_after = numbers.choice([3.0, 10.0, 60.0])
        self.replicas = numbers.choice([1, 1, 2, 2, 0]) if len(names) > 2 else 1
        self.zones = {name: numbers.choice(["", "x", "y"]) for name in names}
        self.draining: set[str] = set()
        self.parted: dict[frozenset[str], float] = {}
        self.paused: dict[str, float] = {}
        self.disks = {name: Disk(f"root-{name}-0") for name in names}
        self.machines: dict[str, Machine | None] = dict.fromkeys(names)
        self.gone: set[str] = set()
        """Machines that never return."""
        self.broker = Broker(self)
        self.database = Database()
        self.leaders: list[Leader] = []
        self.sources = {host: Source() for host in self.loads}
        self.connections: list[Connection] = []
        self.sent = 0
        self.acks: dict[str, set[int]] = {host: set() for host in self.loads}
        self.outputs: dict[str, dict[int, tuple[int, ...]]] = {host: {} for host in self.loads}
        self.balances: list[tuple[float, Ring]] = []
        self.turns: list[tuple[float, CarriageTurn]] = []
        for name in names:
            self.start(name)
        self.lead()

    @property
    def awake(self) -> set[str]:
        """Everybody who is there and does something."""
        there = {name for name, machine in self.machines.items() if machine} | {each.name for each in self.leaders}
        return there - set(self.paused)

    def start(self, name: str) -> None:
        self.machines[name] = self.make(name, self, self.disks[name])

    def stop(self, name: str) -> None:
        if machine := self.machines[name]:
            machine.stop()
            self.machines[name] = None
            self.paused.pop(name, None)

    def lead(self) -> None:
        """A new leader; the one before may not know yet."""
        self.database.leads += 1
        self.leaders.append(Leader(self, self.database.leads))

    def reachable(self, one: str, other: str) -> bool:
        up = all(self.machines.get(name, name) for name in (one, other))
        return up and frozenset({one, other}) not in self.parted

    def connection(self, one: str, other: str) -> Connection | None:
        there = self.machines[other]
        if there is None or not self.reachable(one, other):
            return None
        made = Connection(frozenset({one, other}))
        self.connections.append(made)
        there.coming.append(made)
        return made

    def pass_on(self, seconds: float) -> None:
        """A moment passes, in which everybody awake may do something, in any order."""
        self.now += seconds
        self.parted = {pair: until for pair, until in self.parted.items() if until > self.now}
        self.paused = {name: until for name, until in self.paused.items() if until > self.now}
        for connection in self.connections:
            if connection.ends in self.parted:
                connection.close()
        self.connections = [connection for connection in self.connections if connection.open]
        self.broker.tick()
        acting: list[Machine | Leader] = [machine for machine in self.machines.values() if machine]
        acting += self.leaders
        self.numbers.shuffle(acting)
        for each in acting:
            if each.name not in self.paused and self.numbers.random() < 0.8:
                each.tick()
        for leader in list(self.leaders):
            if leader.number != self.database.leads and not leader.outbox and leader.name not in self.paused:
                self.leaders.remove(leader)
                self.broker.closed(leader.name)

    def send(self) -> None:
        self.sent += 1
        self.sources[self.numbers.choice(sorted(self.sources))].send(self.sent)

    def acknowledged(self, host: str, events: tuple[int, ...]) -> None:
        self.acks[host] |= {*events}
        for event in events:
            self.sources[host].unacknowledged.pop(event, None)
        self.check(host)

    def published(self, host: str, record: Record) -> None:
        before = self.outputs[host].setdefault(record.number, record.events)
        if before != record.events:
            raise Trouble(f"output {record.number} of {host} was {before}, and now is {record.events}")
        self.check(host)

    def committed(self, turn: CarriageTurn) -> None:
        self.turns.append((self.now, turn))
        self.check(turn.carriage.host)

    def highest(self, ring: Ring) -> float:
        """The highest load of a machine, if each host is at home."""
        loads = dict.fromkeys(ring.tokens, 0.0)
        for each in self.database.carriages.values():
            loads[ring.owner(each.point)] += self.loads[each.host]
        return max(loads.values())

    def balanced(self, ring: Ring) -> None:
        """Tokens are moved only where that makes the highest load lower, so it comes to an end."""
        before = self.highest(self.database.ring)
        if self.highest(ring) >= before:
            raise Trouble(f"the highest load does not fall from {before} by {ring}")
        self.balances.append((self.now, ring))

    def holders(self, carriage: Carriage) -> Iterator[tuple[str, Files]]:
        """The machines that are counted upon, as far as they have their disks, with what they have."""
        for name in (carriage.machine, *sorted(carriage.kept_by)):
            disk = self.disks[name]
            if disk.root == (carriage.root if name == carriage.machine else carriage.root_of(name)):
                yield name, disk.of(carriage.host)

    def check(self, host: str) -> None:
        """A machine that is counted upon has everything that anybody outside has seen."""
        if (carriage := self.database.carriages.get(host)) is None:
            return
        for name, files in self.holders(carriage):
            if not files.has(self.acks[host]):
                raise Trouble(f"{name} is counted upon, and lost acknowledged events of {host}")
            if max(self.outputs[host], default=0) > files.last().number:
                raise Trouble(f"{name} is counted upon, and has not got all outputs of {host}")
