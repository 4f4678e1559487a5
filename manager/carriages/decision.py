"""What the keeper of carriages asks for, and gets, when it has something decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from manager.carriages.committed import CommittedFleet
from ring.carriage import Carriage, MachineSeen
from ring.decision import decide
from ring.fleet import CarriageTurn
from ring.tokens import Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesSeen:
    """The machines as they are seen at one moment; made by `MachineWatch`."""

    now: float
    machines: Mapping[str, MachineSeen] = field(default_factory=dict)
    lost_since: Mapping[str, float] = field(default_factory=dict)
    """The moment since which each machine that is not alive counts as lost; it may be to come."""
    alive_since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDecision:
    """What is to be committed next."""

    turns: tuple[CarriageTurn, ...]
    tokens: Mapping[str, int]
    """The places of all machines on the ring."""


class DecideCarriages(Protocol):
    """Decides who carries which host; `decide_with`, or a test."""

    def __call__(self, fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        """Decide on what is committed and seen. A pure function."""


def decide_with(replicas: int) -> DecideCarriages:
    """The decision of `ring`, with as many copies of each host. Each new machine gets a place on the ring."""

    def decided(fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        ring = _with_newcomers(Ring(fleet.tokens), seen.machines)
        turns = decide(
            fleet.carriages,
            seen.machines,
            ring=ring,
            replicas=replicas,
            draining=fleet.draining,
            now=seen.now,
            lost_since=seen.lost_since,
            alive_since=seen.alive_since,
        )
        return FleetDecision(turns=tuple(_begun_again(turn, fleet.ended) for turn in turns), tokens=ring.tokens)

    return decided


def _begun_again(turn: CarriageTurn, ended: Mapping[str, Carriage]) -> CarriageTurn:
    """The turn, after the term in which its host was forgotten, if it was: machines ignore orders of older terms."""
    before = ended.get(turn.carriage.host)
    if before is None:
        return turn
    return replace(turn, carriage=replace(turn.carriage, term=before.term + 1, version=before.version + 1))


def _with_newcomers(ring: Ring, machines: Mapping[str, MachineSeen]) -> Ring:
    for name, machine in sorted(machines.items()):
        if machine.alive and name not in ring.tokens:
            ring = ring.joined(name)
    return ring
