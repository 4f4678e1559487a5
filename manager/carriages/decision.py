"""What the keeper of carriages asks for, and gets, when it has something decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from manager.carriages.committed import CommittedFleet
from ring.balance import next_ring
from ring.carriage import Carriage, MachineSeen
from ring.decision import decide
from ring.fleet import SETTLED_AFTER, CarriageTurn, Fleet
from ring.tokens import Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesSeen:
    """The machines as they are seen at one moment; made by `MachineWatch`."""

    now: float
    machines: Mapping[str, MachineSeen] = field(default_factory=dict)
    lost_since: Mapping[str, float] = field(default_factory=dict)
    """The moment since which each machine that is not alive counts as lost; it may be to come."""
    alive_since: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    """The cores that each host takes."""
    uneven_since: float | None = None
    """Since when loads are uneven, by the last decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDecision:
    """What is to be committed next."""

    turns: tuple[CarriageTurn, ...]
    tokens: Mapping[str, int]
    """The places of all machines on the ring."""
    balance: str = ""
    """Why tokens were moved, if they were."""
    uneven_since: float | None = None
    """For the next decision."""


class DecideCarriages(Protocol):
    """Decides who carries which host; `decide_with`, or a test."""

    def __call__(self, fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        """Decide on what is committed and seen. A pure function."""


def decide_with(replicas: int, settled_after: float = SETTLED_AFTER) -> DecideCarriages:
    """The decision of `ring`, with as many copies of each host."""

    def decided(fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        before = Fleet(
            machines=seen.machines,
            ring=Ring(fleet.tokens),
            replicas=replicas,
            draining=fleet.draining,
            now=seen.now,
            lost_since=seen.lost_since,
            alive_since=seen.alive_since,
            settled_after=settled_after,
            loads=seen.loads,
        )
        turned = next_ring(fleet.carriages, before, seen.uneven_since)
        turns = decide(fleet.carriages, replace(before, ring=turned.ring))
        return FleetDecision(
            turns=tuple(_begun_again(turn, fleet.ended) for turn in turns),
            tokens=turned.ring.tokens,
            balance=turned.why,
            uneven_since=turned.uneven_since,
        )

    return decided


def _begun_again(turn: CarriageTurn, ended: Mapping[str, Carriage]) -> CarriageTurn:
    """The turn, after the term in which its host was forgotten, if it was: machines ignore orders of older terms."""
    before = ended.get(turn.carriage.host)
    if before is None:
        return turn
    return replace(turn, carriage=replace(turn.carriage, term=before.term + 1, version=before.version + 1))
