"""What the keeper of carriages asks for, and gets, when it has something decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from manager.carriages.committed import CommittedFleet, DecidedTurn
from ring.carriage import MachineSeen


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

    turns: tuple[DecidedTurn, ...]
    tokens: Mapping[str, int]
    """The places of all machines on the ring."""


class DecideCarriages(Protocol):
    """Decides who carries which host; `ring.decision`, or a test."""

    def __call__(self, fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        """DecideCarriages on what is committed and seen. A pure function."""
