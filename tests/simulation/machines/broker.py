"""The broker: retained messages, one session per client, wills; it may forget everything."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ring.fleet import Carriage, MachineSeen

if TYPE_CHECKING:
    from tests.simulation.machines.world import World

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
