"""Admission: which of the processes that report as machines count as such.

Only machines with a place on the ring do. Where operators admit, a new one gets none before an operator says so. It is
known by its key then, so no other process passes for it: not even the same machine with an empty disk.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from manager.carriages.committed import CommittedFleet
from manager.observations.machine_messages import MachineStatus
from manager.observations.reports import HostSeen

Claims = Mapping[str, tuple[MachineStatus, ...]]
"""All that report under each name, the likeliest first."""


def _no_key() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who admits machines."""

    asks: bool = False
    """Whether operators do; otherwise everybody who reports as a machine is one."""
    own_key: Callable[[], str] = field(default=_no_key)
    """The key in the manager's own root. Who has that has everything."""

    def admitted(self, claims: Claims, fleet: CommittedFleet) -> dict[str, MachineStatus]:
        """The machines by name."""
        if not self.asks:
            return {name: found[0] for name, found in claims.items() if found}
        own = self.own_key()
        return {
            name: each
            for name, found in claims.items()
            for each in reversed(found)
            if _is_known(name, each, fleet) or (own and each.key == own)
        }

    def waiting(self, claims: Claims, fleet: CommittedFleet) -> dict[str, MachineStatus]:
        """The live ones by name that are not admitted."""
        if not self.asks:
            return {}
        admitted = self.admitted(claims, fleet)
        return {
            name: each
            for name, found in claims.items()
            for each in reversed(found)
            if each.seen.alive and (name not in admitted or admitted[name].key != each.key)
        }

    def keys(
        self, admitted: Mapping[str, MachineStatus], fleet: CommittedFleet, named: Iterable[str]
    ) -> dict[str, str]:
        """The keys of these machines to be committed: a machine is known by the first one that it has."""
        named = set(named)
        known = {name: key for name, key in fleet.keys.items() if name in named}
        if not self.asks:
            return known
        return {name: each.key for name, each in admitted.items() if each.key and name in named} | known

    def placeable(self, hosts: Iterable[HostSeen], carried: Iterable[str]) -> tuple[HostSeen, ...]:
        """The hosts that jobs may be placed on: where operators admit machines, those of admitted ones."""
        return tuple(each for each in hosts if not self.asks or each.host in set(carried))


def why_it_waits(name: str, fleet: CommittedFleet) -> str:
    """Why a machine of this name is not admitted, and what to do."""
    if name not in fleet.tokens:
        return f"it is new; admit it with: braid machines admit {name}"
    return (
        f"its key is not that of the machine {name} that was admitted; if that has lost its disk, admit this one in "
        f"its place with: braid machines admit {name}"
    )


def _is_known(name: str, status: MachineStatus, fleet: CommittedFleet) -> bool:
    return name in fleet.tokens and fleet.keys.get(name, status.key) == status.key
