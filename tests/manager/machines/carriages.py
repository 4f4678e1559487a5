"""Machines and carriages for tests, and a decision that a test scripts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bridge import topics
from engine.machines.reports import MachineKey
from manager.machines.admission import Admission
from manager.machines.carriages import CommittedCarriages, CommittedFleet, FleetDecision, MachinesSeen
from manager.machines.keeper import CarriageKeeper
from ring.fleet import Carriage, CarriageTurn
from tests.manager.managers import Manager
from tests.manager.observations.listened_host import Hearing


def turn(host: str, machine: str, **fields: Any) -> CarriageTurn:
    return CarriageTurn(carriage=Carriage(host=host, machine=machine, **fields), why="a test says so")


def committed_of(manager: Manager) -> CommittedCarriages:
    return CommittedCarriages(manager.committer, manager.store)


def commit(committed: CommittedCarriages, *turns: CarriageTurn, tokens: dict[str, int] | None = None) -> None:
    fleet = committed.fleet()
    committed.commit(fleet, turns, fleet.tokens if tokens is None else tokens)


@dataclass
class Kept:
    """A keeper over a broker in memory. It looks when a test says so, and decides what a test has put into `turns`."""

    manager: Manager
    hearing: Hearing = field(default_factory=Hearing)
    turns: list[CarriageTurn] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    published: list[tuple[str, bytes]] = field(default_factory=list)
    asked: list[MachinesSeen] = field(default_factory=list)
    admission: Admission = field(default_factory=Admission)
    before_commit: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.committed = committed_of(self.manager)
        self.keeper = CarriageKeeper(
            self.committed,
            self.hearing.listener,
            self._decide,
            leads=lambda: self.manager.committer.leads,
            admission=self.admission,
            clock=lambda: self.hearing.clock,
        )
        self.hearing.listener.start()
        self.hearing.until_complete()

    def _decide(self, fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        self.asked.append(seen)
        turns, self.turns = tuple(self.turns), []
        self.before_commit()
        return FleetDecision(turns=turns, tokens={**fleet.tokens, **self.tokens})

    def close(self) -> None:
        self.keeper.stop()
        self.hearing.listener.stop()

    def say_machine(self, name: str, key: MachineKey | None = None, **fields: Any) -> None:
        """Publish the status of a machine, signed if it has a key, and wait until it has arrived."""
        status = {"machine": name, "alive": True, "at": f"{name}:1", "secret": f"secret of {name}", **fields}
        self.hearing.say(topics.machine(name, "status"), status if key is None else key.signed(status))
        self.hearing.settle()

    def look(self, *turns: CarriageTurn) -> list[tuple[str, bytes]]:
        """Look once; the carrier messages that the broker retains then."""
        self.turns += turns
        self.keeper.look()
        self.hearing.settle()
        return self.retained()

    def retained(self) -> list[tuple[str, bytes]]:
        return sorted(self.hearing.broker.retained([topics.host("+", "carrier")]))


def standings(fleet: CommittedFleet) -> dict[str, tuple[str, int, int]]:
    """Machine, term and version of each host."""
    return {host: (each.machine, each.term, each.version) for host, each in fleet.carriages.items()}


def hosts_of(messages: Iterable[tuple[str, bytes]]) -> list[str]:
    return [topic.split("/")[3] for topic, _ in messages]
