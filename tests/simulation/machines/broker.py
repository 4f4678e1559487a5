"""The broker and what is said and kept: retained messages, sessions, wills, connections, and disks."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ring.fleet import Carriage, MachineSeen

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


@dataclass(frozen=True, slots=True)
class Record:
    """What one batch did."""

    number: int
    last: int
    """The spool file up to which it has read."""
    events: tuple[int, ...]
    """Its output."""
    state: tuple[int, ...]
    """All events so far."""


@dataclass(frozen=True, slots=True)
class Write:
    """A spool file or a record is written, or removed if it has no content."""

    number: int
    spool: tuple[int, ...] | None = None
    record: Record | None = None
    of_records: bool = False


@dataclass(slots=True)
class Files:
    """The root of a host, or a copy of it."""

    spools: dict[int, tuple[int, ...]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)

    def copy(self) -> "Files":
        return Files(dict(self.spools), dict(self.records))

    def last(self) -> Record:
        """The newest record, which says how far the spool was read."""
        return self.records[max(self.records)] if self.records else Record(0, 0, (), ())

    def unread(self) -> list[int]:
        return [number for number in sorted(self.spools) if number > self.last().last]

    def next_spool(self) -> int:
        return max([self.last().last, *self.spools]) + 1

    def has(self, events: set[int]) -> bool:
        """Whether all these events were processed or still will be."""
        return events <= {*self.last().state, *(event for number in self.unread() for event in self.spools[number])}

    def apply(self, write: Write) -> None:
        if write.spool is not None:
            self.spools[write.number] = write.spool
        elif write.record is not None:
            self.records[write.number] = write.record
        elif write.of_records:
            self.records.pop(write.number, None)
        else:
            self.spools.pop(write.number, None)


def difference(there: Files, here: Files) -> Iterator[Write]:
    """What makes a copy the same, so that at every moment it is what some root might have been.

    First goes what another carrier wrote and this one never had, newest first: a record must not outlive the spool that
    it was made of. Then comes what is missing, in the order of what depends on what, and last goes what is not needed
    any more.
    """
    read, first = here.last().last, min(here.records, default=0)
    for number in sorted(there.records, reverse=True):
        if number >= first and there.records[number] != here.records.get(number):
            yield Write(number, of_records=True)
    for number in sorted(there.spools, reverse=True):
        if number > read and there.spools[number] != here.spools.get(number):
            yield Write(number)
    yield from (Write(each, spool=here.spools[each]) for each in sorted(here.spools))
    yield from (Write(each, record=here.records[each]) for each in sorted(here.records))
    yield from (Write(each) for each in sorted(there.spools) if each not in here.spools and each <= read)
    yield from (Write(each, of_records=True) for each in sorted(there.records) if each < first)


@dataclass(slots=True)
class Disk:
    """What survives a restart of a machine. A machine that lost it has another one, with a root of another id."""

    root: str
    files: dict[str, Files] = field(default_factory=dict)
    """By host."""
    orders: dict[str, Carriage] = field(default_factory=dict)
    """What was last ordered about each host."""
    promises: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """The version under which the machine gates on more peers than were ordered, and these: written before reported."""
    terms: dict[str, int] = field(default_factory=dict)
    """The highest known term of each host: written before anything is done in it."""

    def of(self, host: str) -> Files:
        return self.files.setdefault(host, Files())

    def know(self, host: str, term: int) -> None:
        self.terms[host] = max(term, self.terms.get(host, 0))


@dataclass(frozen=True, slots=True)
class Hello:
    """A carrier begins to send a host's files to a peer, which should have this root."""

    host: str
    carrier: str
    term: int
    root: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a peer has of a host."""

    files: Files


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in what is sent."""

    written: int


@dataclass(frozen=True, slots=True)
class Have:
    """A peer has everything up to a mark."""

    written: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """A peer takes nothing: it knows this higher term, or is not whom the carrier takes it for."""

    term: int


Message = Hello | Inventory | Mark | Have | Fenced | Write


@dataclass(slots=True, eq=False)
class Connection:
    """Messages in both directions, in order, until it is cut; what has not arrived by then never will."""

    ends: frozenset[str]
    open: bool = True
    there: deque[Message] = field(default_factory=deque)
    back: deque[Message] = field(default_factory=deque)

    def close(self) -> None:
        self.open = False
        self.there.clear()
        self.back.clear()

    def arrived(self, messages: deque[Message], numbers: random.Random) -> Iterator[Message]:
        """Some of the messages of one direction."""
        for _ in range(numbers.randint(0, len(messages))):
            if messages:
                yield messages.popleft()


Topic = tuple[str, str]
KEEP_ALIVE = 2.0


class Delivery(NamedTuple):
    """A message to one client."""

    message: MachineSeen | Carriage
    retained: bool
    """Whether it was published before the client connected, by somebody who may be gone without a word."""


@dataclass(slots=True)
class Client:
    """A client's session: what it has not got yet."""

    queue: deque[Delivery] = field(default_factory=deque)
    unreached_since: float | None = None


class Broker:
    """Leaders read statuses, machines read carriages."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.retained: dict[Topic, MachineSeen | Carriage] = {}
        self.clients: dict[str, Client] = {}
        self.down_until = 0.0
        self.started = 0

    def restart(self, seconds: float, *, forgets: bool) -> None:
        """All connections end; wills of clients that never come back are not published."""
        self.down_until = self.world.now + seconds
        self.clients = {}
        self.started += 1
        if forgets:
            self.retained = {}

    def connected(self, client: str) -> bool:
        """Whether a client is connected; if not and if it can be, it is from now on, and gets what is retained."""
        if self.world.now < self.down_until or not self.world.reachable(client, "broker"):
            return False
        if client not in self.clients:
            kind = "carrier" if client in self.world.machines else "status"
            wanted = [
                Delivery(self.retained[topic], retained=True) for topic in sorted(self.retained) if topic[0] == kind
            ]
            self.clients[client] = Client(deque(wanted))
        return True

    def received(self, client: str) -> Iterator[Delivery]:
        """Some of what has not been delivered yet."""
        if not self.connected(client):
            return
        queue = self.clients[client].queue
        for _ in range(self.world.numbers.randint(0, len(queue))):
            yield queue.popleft()

    def publish(self, topic: Topic, message: MachineSeen | Carriage) -> None:
        self.retained[topic] = message
        for name, client in self.clients.items():
            if (name in self.world.machines) == (topic[0] == "carrier"):
                client.queue.append(Delivery(message, retained=False))

    def closed(self, client: str) -> None:
        """A client's connection ended without a word."""
        if self.clients.pop(client, None) is None:
            return
        last = self.retained.get(("status", client))
        if isinstance(last, MachineSeen):
            self.publish(("status", client), replace(last, alive=False))

    def tick(self) -> None:
        """Clients that say nothing for a while are gone."""
        for name, client in list(self.clients.items()):
            if name in self.world.awake and self.world.reachable(name, "broker"):
                client.unreached_since = None
            elif client.unreached_since is None:
                client.unreached_since = self.world.now
            elif self.world.now - client.unreached_since >= KEEP_ALIVE:
                self.closed(name)
