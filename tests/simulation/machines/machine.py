"""The machine: it carries hosts, keeps copies of others, and sometimes leads."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from manager.machines.admission import RECONNECTED_WITHIN
from ring.balance import next_ring
from ring.decision import decide
from ring.fleet import Carriage, Fleet, HostReport, MachineSeen
from ring.tokens import Ring
from tests.simulation.machines.broker import (
    Client,
    Connection,
    Disk,
    Fenced,
    Files,
    Have,
    Hello,
    Inventory,
    Mark,
    Record,
    Write,
    difference,
)

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


BROKEN_AFTER = 5.0


@dataclass(slots=True)
class Session:
    """What is known of a peer by one connection."""

    connection: Connection
    begun: bool = False
    """Whether it gets what is written from now on."""
    have: int = -1
    """The last write that it has, of all before."""
    caught_up: int | None = None
    """The write after which it is gated on; what was let through without it was before."""


@dataclass(slots=True)
class Waiting:
    """What may happen once all peers that count have everything up to a write."""

    after: int
    acknowledge: tuple[int, ...] = ()
    publish: Record | None = None


class Carrier:
    """One host in one process, from its start to its stop."""

    def __init__(self, machine: "Machine", order: Carriage) -> None:
        self.machine = machine
        self.world = machine.world
        self.host = order.host
        self.files = machine.disk.of(order.host)
        self.written = 0
        self.sessions: dict[str, Session] = {}
        self.unreached: dict[str, float] = {}
        self.inbox: deque[int] | None = None
        self.taken: set[int] = set()
        self.waiting: list[Waiting] = []
        self.order = order
        self.promised: frozenset[str] = frozenset()
        self._recall()
        self.running = False
        self._follow()

    def obey(self, order: Carriage) -> None:
        """A newer version: what was promised under the one before is settled by it."""
        self.order = order
        self.promised = frozenset()
        self._keep_promises()
        self._follow()

    def gate(self) -> set[str]:
        """All peers that count, that may be counted by now, and that are about to be."""
        joining = {name for name, session in self.sessions.items() if session.caught_up is not None}
        return {*self.order.kept_by, *self.promised, *joining}

    def missing(self, there: Files) -> Iterable[Write]:
        """What makes a copy the same."""
        return difference(there, self.files)

    def report(self) -> HostReport:
        now = self.world.now
        broken = {name for name, since in self.unreached.items() if now - since >= BROKEN_AFTER}
        return HostReport(
            version=self.order.version,
            in_sync=self.promised,
            broken=frozenset(broken),
            released=self._released(),
        )

    def tick(self) -> None:
        """Whatever there is to do, in pieces of any size."""
        numbers = self.world.numbers
        self._connect()
        for name in list(self.sessions):
            self._listen(name)
        if self.running:
            if numbers.random() < 0.6:
                self._receive()
            if numbers.random() < 0.5:
                self._process()
            if numbers.random() < 0.7:
                self._let_through()
        self._promise()

    def stop(self) -> None:
        for session in self.sessions.values():
            session.connection.close()
        self.running = False

    def in_sync(self, session: Session) -> bool:
        return session.caught_up is not None and session.have >= session.caught_up

    def _recall(self) -> None:
        version, promised = self.machine.disk.promises.get(self.host, (0, frozenset()))
        if version == self.order.version:
            self.promised = promised

    def _keep_promises(self) -> None:
        self.machine.disk.promises[self.host] = (self.order.version, self.promised)

    def _follow(self) -> None:
        """Run, or stand still for an heir; what was not let through before is begun again from the files."""
        running = not self.order.heir
        if running and not self.running:
            self.inbox, self.taken = None, set()
            records = [self.files.records[number] for number in sorted(self.files.records)]
            self.waiting = [Waiting(self.written, publish=record) for record in records]
        self.running = running

    def _released(self) -> bool:
        session = self.sessions.get(self.order.heir)
        return bool(self.order.heir) and session is not None and session.have >= self.written

    def _connect(self) -> None:
        for name, session in list(self.sessions.items()):
            if not session.connection.open or name not in self.order.peers:
                session.connection.close()
                del self.sessions[name]
        for name in self.order.peers:
            if name not in self.sessions or not self.sessions[name].begun:
                self.unreached.setdefault(name, self.world.now)
            if name in self.sessions:
                continue
            if connection := self.world.connection(self.machine.name, name):
                hello = Hello(self.host, self.machine.name, self.order.term, self.order.root_of(name))
                connection.there.append(hello)
                self.sessions[name] = Session(connection)
        self.unreached = {name: since for name, since in self.unreached.items() if name in self.order.peers}

    def _listen(self, name: str) -> None:
        session = self.sessions[name]
        for message in session.connection.arrived(session.connection.back, self.world.numbers):
            if isinstance(message, Fenced):
                session.connection.close()
                if message.term > self.order.term:
                    self.machine.fenced(self.host, message.term)
                    return
            elif isinstance(message, Inventory):
                session.begun = True
                self.unreached.pop(name, None)
                session.connection.there += [*self.missing(message.files), Mark(self.written)]
            elif isinstance(message, Have):
                session.have = message.written
                if session.caught_up is None:
                    session.caught_up = self.written

    def _promise(self) -> None:
        ready = {name for name, session in self.sessions.items() if self.in_sync(session) and session.connection.open}
        if more := ready - self.promised:
            self.promised |= more
            self._keep_promises()

    def _write(self, write: Write) -> None:
        self.files.apply(write)
        self.written += 1
        for session in self.sessions.values():
            if session.begun:
                session.connection.there += [write, Mark(self.written)]

    def _receive(self) -> None:
        source = self.world.sources[self.host]
        if (self.inbox is None or self.inbox is not source.inbox) and self.world.reachable(self.machine.name, "broker"):
            self.inbox = source.connected()
        events: list[int] = []
        while self.inbox and len(events) < self.world.numbers.randint(1, 4):
            event = self.inbox.popleft()
            if event not in self.taken:
                events.append(event)
        if events:
            self.taken |= {*events}
            self._write(Write(self.files.next_spool(), spool=tuple(events)))
            self.waiting.append(Waiting(self.written, acknowledge=tuple(events)))

    def _process(self) -> None:
        if not (unread := self.files.unread()):
            return
        before = self.files.last()
        part = unread[: self.world.numbers.randint(1, len(unread))]
        events = tuple(event for number in part for event in self.files.spools[number])
        record = Record(before.number + 1, part[-1], events, before.state + events)
        self._write(Write(record.number, record=record))
        self.waiting.append(Waiting(self.written, publish=record))

    def _let_through(self) -> None:
        sessions = [self.sessions.get(name) for name in self.gate()]
        least = min((session.have if session else -1 for session in sessions), default=self.written)
        while self.waiting and self.waiting[0].after <= least and self.world.reachable(self.machine.name, "broker"):
            first = self.waiting.pop(0)
            if first.acknowledge:
                self.world.acknowledged(self.host, first.acknowledge)
            if record := first.publish:
                self.world.published(self.host, record)
                self._clean_up(record)

    def _clean_up(self, record: Record) -> None:
        for number in sorted(self.files.spools):
            if number <= record.last:
                self._write(Write(number))
        for number in sorted(self.files.records):
            if number < record.number:
                self._write(Write(number, of_records=True))


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


SILENT_AFTER = 12.0
"""After so many seconds without a word a machine is lost, though nobody said so: its will may have been forgotten."""


@dataclass(slots=True)
class Database:
    """What is committed, and who leads."""

    carriages: dict[str, Carriage] = field(default_factory=dict)
    ring: Ring = field(default_factory=Ring)
    leads: int = 0


class Leader:
    """One manager while it leads, or believes that it does.

    A machine is there if it says so itself while the leader is connected. What the broker retained may be long past.
    """

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"leader{number}"
        self.seen: dict[str, MachineSeen] = {}
        self.lost_since: dict[str, float] = {}
        self.alive_since: dict[str, float] = {}
        self.heard: dict[str, float] = {}
        self.outbox: list[Carriage] = []
        self.session: Client | None = None
        self.connected_since = world.now
        self.back_until = 0.0
        self.uneven_since: float | None = None
        self.next_decision = 0.0
        self.next_word = 0.0

    def tick(self) -> None:
        """Hear, decide and commit, and publish; it may end or be replaced between any two."""
        world = self.world
        connected = world.broker.connected(self.name)
        if connected and world.broker.clients[self.name] is not self.session:
            if self.session is not None:
                self.back_until = world.now + RECONNECTED_WITHIN
            self.session, self.connected_since, self.next_word = world.broker.clients[self.name], world.now, 0.0
            # Those that were there before may have gone without a word, and those that were not may be back.
            self.seen = {name: seen for name, seen in self.seen.items() if not seen.alive}
            self.lost_since = dict.fromkeys(self.seen, max(world.now, self.back_until))
        for message, retained in world.broker.received(self.name):
            if isinstance(message, MachineSeen) and not (retained and message.alive):
                self._hear(message)
        if connected:
            self._miss()
            if world.now >= self.next_decision:
                self.next_decision = world.now + 0.5
                self._decide()
            if world.now >= self.next_word:
                self.next_word = world.now + 5.0
                self.outbox += world.database.carriages.values() if world.database.leads == self.number else []
            if world.numbers.random() < 0.7:
                self._speak()

    def _hear(self, status: MachineSeen) -> None:
        name, before = status.name, self.seen.get(status.name)
        self.seen[name] = status
        self.heard[name] = self.world.now
        if not status.alive:
            self.lost_since.setdefault(name, max(self.world.now, self.back_until))
            self.alive_since.pop(name, None)
        else:
            self.lost_since.pop(name, None)
            if name not in self.alive_since or (before and before.root != status.root):
                self.alive_since[name] = self.world.now

    def _miss(self) -> None:
        carriages = self.world.database.carriages.values()
        named = set().union(*({each.machine, each.heir, *each.peers} for each in carriages)) - {""}
        for name in sorted({*self.heard, *named}):
            silent = self.world.now - max(self.heard.get(name, 0.0), self.connected_since)
            if silent >= SILENT_AFTER and name not in self.lost_since:
                self.lost_since[name] = self.world.now
                self.alive_since.pop(name, None)
                if seen := self.seen.get(name):
                    self.seen[name] = replace(seen, alive=False)

    def _decide(self) -> None:
        database = self.world.database
        fleet = Fleet(
            machines=self.seen,
            ring=database.ring,
            replicas=self.world.replicas,
            draining=frozenset(self.world.draining),
            now=self.world.now,
            lost_since=self.lost_since,
            alive_since=self.alive_since,
            settled_after=self.world.settled_after,
            loads=self.world.loads,
        )
        turned = next_ring(database.carriages, fleet, self.uneven_since)
        turns = decide(database.carriages, replace(fleet, ring=turned.ring))
        if database.leads != self.number:
            return
        self.uneven_since = turned.uneven_since
        if turned.why:
            self.world.balanced(turned.ring)
        database.ring = turned.ring
        for turn in turns:
            database.carriages[turn.carriage.host] = turn.carriage
            self.outbox.append(turn.carriage)
            self.world.committed(turn)

    def _speak(self) -> None:
        for carriage in self.outbox:
            self.world.broker.publish(("carrier", carriage.host), carriage)
        self.outbox = []
