"""Standings: how safe each carried host is by what is committed and seen, for operators."""

from collections.abc import Mapping
from dataclasses import dataclass

from manager.carriages.committed import CommittedFleet
from ring.carriage import STORE, Carriage, MachineSeen
from ring.fleet import Fleet
from ring.tokens import Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStanding:
    """How safe a host is."""

    carriage: Carriage
    standby: tuple[str, ...]
    """The machines that could go on with it at once."""
    behind_bytes: int | None
    """The bytes that its slowest peer does not have yet."""
    troubles: Mapping[str, str]
    """What is wrong with its copies, by peer."""
    under_replicated: bool
    """Whether fewer machines have everything than are wanted."""
    stays: str
    """Why it cannot leave its machine although it should."""


def standings(
    committed: CommittedFleet, machines: Mapping[str, MachineSeen], *, replicas: int
) -> tuple[HostStanding, ...]:
    """The standing of each host, ordered by name."""
    fleet = Fleet(
        machines=machines,
        ring=Ring(committed.tokens),
        replicas=replicas,
        draining=committed.draining,
        now=0.0,
        lost_since={},
        alive_since={},
    )
    return tuple(_standing(carriage, fleet) for _, carriage in sorted(committed.carriages.items()))


def _standing(carriage: Carriage, fleet: Fleet) -> HostStanding:
    others = [name for name in sorted(fleet.machines) if name != carriage.machine]
    carrier = fleet.machines.get(carriage.machine)
    report = carrier.hosts.get(carriage.host) if carrier is not None and carrier.alive else None
    standby = tuple(name for name in others if fleet.has_files(name, carriage))
    copies = sum(name in standby for name in carriage.kept_by)
    return HostStanding(
        carriage=carriage,
        standby=standby,
        behind_bytes=None if report is None else report.behind_bytes,
        troubles={} if report is None else report.troubles,
        under_replicated=copies < fleet.replicas,
        stays=_stays(carriage, fleet, others, standby),
    )


def _stays(carriage: Carriage, fleet: Fleet, others: list[str], standby: tuple[str, ...]) -> str:
    host, machine = carriage.host, carriage.machine
    if not fleet.alive(machine, carriage.root):
        if standby:
            return ""
        remedies = [f"start {machine} again with its root"]
        remedies += (
            [f"a machine that has a copy: {', '.join(sorted(machines))}"]
            if (machines := carriage.kept_by - {STORE})
            else []
        )
        remedies += [_restoring(carriage, fleet)] if STORE in carriage.kept_by or _offers(carriage, fleet) else []
        return (
            f"machine {machine} is away, and no machine that is there has everything of host {host}; "
            f"{', or '.join(remedies)}"
        )
    if machine not in fleet.draining:
        return ""
    takers = [name for name in others if name in standby or fleet.takes_copies(name, carriage)]
    if any(name not in fleet.draining for name in takers):
        return ""
    drained = f"; {', '.join(takers)} could, but drains too" if takers else ""
    return (
        f"no other machine takes copies of host {host} or shares its root{drained}; start another machine with: "
        f"braid host NAME, or keep this one with: braid machines undrain {machine}"
    )


def _offers(carriage: Carriage, fleet: Fleet) -> bool:
    seen = fleet.machines.get(carriage.host)
    return seen is not None and seen.alive and bool(seen.restores)


def _restoring(carriage: Carriage, fleet: Fleet) -> str:
    """What brings a host back from its store."""
    host = carriage.host
    if _offers(carriage, fleet):
        # It was not taken up.
        return (
            f"restore it although its store may lack what others have seen with: braid host {host} --restore "
            "--accept-loss"
        )
    return f"restore it on an empty folder with: braid host {host} --restore"
