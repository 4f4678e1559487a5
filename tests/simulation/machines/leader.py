"""A leader: it sees machines by the broker, decides, commits if it still leads, and publishes."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from manager.machines.admission import RECONNECTED_WITHIN
from ring.balance import next_ring
from ring.decision import decide
from ring.fleet import Carriage, Fleet, MachineSeen
from ring.tokens import Ring
from tests.simulation.machines.broker import Client

if TYPE_CHECKING:
    from tests.simulation.machines.world import World

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
