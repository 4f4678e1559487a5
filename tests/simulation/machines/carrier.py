"""A host at its carrier: it receives, gates on its peers, acknowledges, processes, gates again and publishes."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ring.fleet import Carriage, HostReport
from tests.simulation.machines.files import Files, Record, Write, difference
from tests.simulation.machines.messages import Connection, Fenced, Have, Hello, Inventory, Mark

if TYPE_CHECKING:
    from tests.simulation.machines.machine import Machine

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
