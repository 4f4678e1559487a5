"""Departures: which hosts end with a machine that is forgotten, or why it cannot be forgotten yet. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from manager.carriages.committed import CommittedFleet
from manager.carriages.standings import HostStanding, standings
from ring.carriage import STORE, MachineSeen


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
    for each in standings(committed, machines, replicas=0):
        host, carrier = each.carriage.host, each.carriage.machine
        if jobs.get(host):
            if refusal := _refusal(name, each, machines, jobs[host]):
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
