"""Take-over: a host whose carrier is lost goes on at a machine that has its files."""

from dataclasses import replace

from ring.carriage import STORE, Carriage
from ring.fleet import CarriageTurn, Fleet


def taken_over(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host at the first machine clockwise that has everything; those that offer less or drain come last.

    All others that have everything stay counted, so the new carrier first brings them to the state that it has itself.
    """
    order = fleet.ring.clockwise(carriage.machine)
    able = [machine for machine in order if fleet.has_files(machine, carriage)]
    if not able:
        return None
    machine = min(able, key=lambda name: (name in fleet.draining, not fleet.suits(name, carriage), order.index(name)))
    return CarriageTurn(
        carriage=moved(carriage, machine, fleet),
        why=f"machine {carriage.machine} is lost, and {machine} has everything",
    )


def moved(carriage: Carriage, machine: str, fleet: Fleet) -> Carriage:
    """The carriage with another carrier, whose copies are its files from now on; other peers stay as they are."""
    root = fleet.machines[machine].root
    others = tuple(peer for peer in carriage.peers if peer != machine and (not root or carriage.root_of(peer) != root))
    return replace(
        carriage,
        machine=machine,
        root=root,
        term=carriage.term + 1,
        version=carriage.version + 1,
        heir="",
        peers=others,
        roots=tuple(carriage.root_of(peer) for peer in others),
        kept_by=carriage.kept_by & {*others, STORE},
    )


def restored(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host on the machine of its name, which an operator has bring its files back from the store.

    They have to be those of the last carrier, and the store has to have everything, unless the operator accepts a loss.
    """
    seen = fleet.machines.get(carriage.host)
    if seen is None or not seen.alive or not seen.restores:
        return None
    if not seen.accepts_loss and (STORE not in carriage.kept_by or seen.restores != carriage.root):
        return None
    return CarriageTurn(
        carriage=moved(carriage, carriage.host, fleet),
        why=f"machine {carriage.machine} is lost, and {carriage.host} is restored from the store",
    )


def begun_afresh(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host on the new root of its own machine, where hosts have no copies: nothing can bring the old root back.

    With copies, or with a store, nothing ever begins afresh by itself. Somebody may be away who has all of it.
    """
    seen = fleet.machines.get(carriage.machine)
    if fleet.replicas or carriage.kept_by or seen is None or not seen.alive or carriage.host not in seen.own_hosts:
        return None
    return CarriageTurn(
        carriage=replace(
            carriage, root=seen.root, term=carriage.term + 1, version=carriage.version + 1, heir="", peers=(), roots=()
        ),
        why=f"machine {carriage.machine} has another root than before, and nobody has a copy of the old one",
    )
