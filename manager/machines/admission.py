"""Admission and departure of machines: which count, since when each is lost or alive, and when one can be forgotten.

Of the processes that report as machines only those with a place on the ring count as such. Where operators admit, a new
one gets none before an operator says so. It is known by its key then, so no other process passes for it: not even the
same machine with an empty disk.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from manager.machines.carriages import CommittedFleet, HostStanding, MachinesSeen, standings
from manager.observations.reports import HostSeen, MachineStatus
from manager.observations.sight import MACHINE_SILENT_AFTER
from ring.fleet import STORE, MachineSeen

Claims = Mapping[str, tuple[MachineStatus, ...]]
"""All that report under each name, the likeliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who admits machines."""

    asks: bool = False
    """Whether operators do; otherwise everybody who reports as a machine is one."""
    own_key: Callable[[], str] = lambda: ""
    """The key in the manager's own root. Who has that has everything."""

    def admitted(self, claims: Claims, fleet: CommittedFleet) -> dict[str, MachineStatus]:
        """The admitted machines by name."""
        if not self.asks:
            return {name: statuses[0] for name, statuses in claims.items() if statuses}
        own = self.own_key()
        return {
            name: status
            for name, statuses in claims.items()
            for status in reversed(statuses)
            if (name in fleet.tokens and fleet.keys.get(name, status.key) == status.key) or (own and status.key == own)
        }

    def waiting(self, claims: Claims, fleet: CommittedFleet) -> dict[str, MachineStatus]:
        """The live machines by name that are not admitted."""
        if not self.asks:
            return {}
        admitted = self.admitted(claims, fleet)
        return {
            name: status
            for name, statuses in claims.items()
            for status in reversed(statuses)
            if status.seen.alive and (name not in admitted or admitted[name].key != status.key)
        }

    def keys(
        self, admitted: Mapping[str, MachineStatus], fleet: CommittedFleet, named: Iterable[str]
    ) -> dict[str, str]:
        """The keys of these machines to be committed: a machine is known by the first one that it has."""
        named = set(named)
        known = {name: key for name, key in fleet.keys.items() if name in named}
        if not self.asks:
            return known
        return {name: status.key for name, status in admitted.items() if status.key and name in named} | known

    def placeable(self, hosts: Iterable[HostSeen], carried: Iterable[str]) -> tuple[HostSeen, ...]:
        """The hosts that jobs may be placed on: where operators admit machines, those of admitted ones."""
        return tuple(host for host in hosts if not self.asks or host.host in set(carried))


def why_it_waits(name: str, fleet: CommittedFleet) -> str:
    """Why a machine of this name is not admitted, and what to do."""
    if name not in fleet.tokens:
        return f"it is new; admit it with: braid machines admit {name}"
    return (
        f"its key is not that of the machine {name} that was admitted; if that has lost its disk, admit this one in "
        f"its place with: braid machines admit {name}"
    )


RECONNECTED_WITHIN = 6.0
"""Seconds after a reconnection in which no machine counts as lost. The broker was away, so others come back as well."""


class MachineWatch:
    """Remembers since when machines are lost or alive, from sight to sight; used by one thread."""

    def __init__(self) -> None:
        self._connection: int | None = None
        self._silent_until = self._back_until = 0.0
        self._lost_since: dict[str, float] = {}
        self._alive_since: dict[str, float] = {}

    def take(
        self, admitted: Mapping[str, MachineStatus], connection: int, named: Iterable[str], now: float
    ) -> MachinesSeen:
        """Take the machines of a complete sight. Those that are named but were never heard are lost after a while."""
        if connection != self._connection:
            self._silent_until = now + MACHINE_SILENT_AFTER
            self._back_until = now if self._connection is None else now + RECONNECTED_WITHIN
            self._connection = connection
            self._lost_since.clear()
        machines = {name: status.seen for name, status in admitted.items()}
        unheard = {name: MachineSeen(name=name, alive=False) for name in named if name not in machines}
        alive = {name for name, machine in machines.items() if machine.alive}
        self._alive_since = {name: self._alive_since.get(name, now) for name in sorted(alive)}
        lost = dict.fromkeys(machines.keys() - alive, max(now, self._back_until))
        lost |= dict.fromkeys(unheard, self._silent_until)
        self._lost_since = {name: self._lost_since.get(name, since) for name, since in sorted(lost.items())}
        return MachinesSeen(
            now=now, machines=machines | unheard, lost_since=dict(self._lost_since), alive_since=dict(self._alive_since)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What becomes of hosts when a machine is forgotten."""

    ending: frozenset[str] = frozenset()
    """The hosts that end with it, since they run no job and nobody carries them."""
    refusal: str = ""
    """Why it cannot be forgotten, and what to do; empty if it can."""


def departure(
    name: str, committed: CommittedFleet, machines: Mapping[str, MachineSeen], jobs: Mapping[str, Collection[str]]
) -> Departure:
    """The departure of a machine by what is committed and seen, and by the jobs of each host."""
    if _alive(name, machines):
        return Departure(
            refusal=f"machine {name} is alive; empty it with: braid machines drain {name} --wait, stop it, "
            "and forget it then"
        )
    ending, own = set[str](), machines.get(name, MachineSeen(name=name, alive=False)).own_hosts
    for standing in standings(committed, machines, replicas=0):
        host, carrier = standing.carriage.host, standing.carriage.machine
        if jobs.get(host):
            if refusal := _refusal(name, standing, machines, jobs[host]):
                return Departure(refusal=refusal)
        elif carrier == name or (host in own and not _alive(carrier, machines)):
            ending.add(host)
    return Departure(ending=frozenset(ending))


def _refusal(name: str, standing: HostStanding, machines: Mapping[str, MachineSeen], jobs: Collection[str]) -> str:
    """Why a machine is needed for a host that runs jobs; empty if it is not."""
    host, carrier = standing.carriage.host, standing.carriage.machine
    others = sorted(standing.carriage.kept_by - {name, STORE})
    give_up = f"remove the dataflows of {'job' if len(jobs) == 1 else 'jobs'} {', '.join(sorted(jobs))}"
    if carrier == name:
        if standing.standby:
            return f"machine {name} still carries host {host}, which goes on elsewhere in a moment; ask again then"
        start = f"start a machine that has a copy: {', '.join(others)}" if others else f"start {name} again"
        if STORE in standing.carriage.kept_by:
            start += f", or restore the host on an empty folder with: braid host {host} --restore"
        return (
            f"machine {name} still carries host {host}, and no machine that is there has its files; {start}, "
            f"or {give_up}"
        )
    kept_by = standing.carriage.kept_by
    if _alive(carrier, machines) or standing.standby or others or STORE in kept_by or name not in kept_by:
        return ""
    return (
        f"machine {name} has the only copy of host {host}, whose machine {carrier} is away too; start one of them, "
        f"or {give_up}"
    )


def _alive(name: str, machines: Mapping[str, MachineSeen]) -> bool:
    return name in machines and machines[name].alive
