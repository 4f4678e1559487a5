"""Hand-over: a host that should be elsewhere is stopped by its carrier, and goes on at its heir with everything."""

from dataclasses import replace

from ring.carriage import Carriage
from ring.fleet import CarriageTurn, Fleet
from ring.take_over import moved


def wanted(carriage: Carriage, fleet: Fleet) -> str:
    """The machine that should carry a host; its carrier, if there is no reason against it.

    Hosts go home: to the machine that owns their point on the ring, once it is back for a while. Otherwise they stay,
    or leave a machine that drains for the next one clockwise that may have them.
    """
    here, home = carriage.machine, fleet.home(carriage)
    if home != here and fleet.settled(home) and may_have(home, carriage, fleet) and fleet.suits(home, carriage):
        return home
    if here not in fleet.draining:
        return here
    order = fleet.ring.clockwise(here)
    able = [name for name in order if may_have(name, carriage, fleet)]
    rank = {name: (not fleet.suits(name, carriage), not fleet.has_files(name, carriage)) for name in able}
    return min(able, key=lambda name: (*rank[name], order.index(name)), default=here)


def begun(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage with an heir, if its host should be elsewhere, and that machine has everything."""
    heir = wanted(carriage, fleet)
    if heir == carriage.machine or not _inherits(heir, carriage, fleet):
        return None
    return CarriageTurn(
        carriage=_next(carriage, heir), why=f"{carriage.host} is handed to {heir}: {_reason(carriage, fleet)}"
    )


def completed(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host at its heir, after its carrier released it; the old carrier keeps a copy, which is complete."""
    heir = carriage.heir
    if not fleet.report(carriage).released or not _inherits(heir, carriage, fleet):
        return None
    after, before = moved(carriage, heir, fleet), carriage.machine
    if not fleet.shares(before, after.root):
        after = replace(
            after,
            peers=(before, *after.peers),
            roots=(carriage.root, *after.roots),
            kept_by=after.kept_by | {before},
        )
    why = f"machine {before} released {carriage.host}, and {heir} has everything; {_reason(carriage, fleet)}"
    return CarriageTurn(carriage=after, why=why)


def withdrawn(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage without its heir, if that can't take the host any more; one not heard of yet may still do."""
    heir = carriage.heir
    unseen = heir not in fleet.machines and not fleet.lost(heir, carriage.root_of(heir))
    if not heir or unseen or _inherits(heir, carriage, fleet):
        return None
    return CarriageTurn(
        carriage=_next(carriage, ""), why=f"machine {carriage.heir} can't take {carriage.host} any more"
    )


def _next(carriage: Carriage, heir: str) -> Carriage:
    return replace(carriage, heir=heir, version=carriage.version + 1)


def may_have(machine: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a host may be handed to a machine: it does not drain, and has or can get the files."""
    if fleet.shares(machine, carriage.root):
        return machine not in fleet.draining
    # One that has everything needs no more room.
    has_room = machine not in fleet.leaving or fleet.has_files(machine, carriage)
    return fleet.takes_copies(machine, carriage) and has_room and machine not in fleet.draining


def _inherits(machine: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a machine is there to be an heir, has everything, and its carrier reaches it."""
    if machine in fleet.draining or not fleet.has_files(machine, carriage):
        return False
    return machine not in fleet.report(carriage).broken


def _reason(carriage: Carriage, fleet: Fleet) -> str:
    if carriage.machine in fleet.draining:
        return f"machine {carriage.machine} drains"
    return f"{fleet.home(carriage)} is its home"
