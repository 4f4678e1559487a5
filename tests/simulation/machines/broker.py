"""The broker and what is said: retained messages, sessions and wills, and connections to peers."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ring.fleet import Carriage, MachineSeen
from tests.simulation.machines.files import Files, Write

if TYPE_CHECKING:
    from tests.simulation.machines.world import World


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
