"""Peers: who gets the files of a host, and who is known to have them."""

from dataclasses import replace

from ring.carriage import STORE, Carriage
from ring.fleet import CarriageTurn, Fleet
from ring.hand_over import wanted


def counted(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage that counts on those peers that its carrier gates on, and no more on those that it can't reach.

    A broken one that the carrier gates on, but nobody counts on yet, also needs a new version: only then may the
    carrier go on without it.
    """
    report = fleet.report(carriage)
    gated = report.in_sync & {*carriage.peers, STORE}
    broken = report.broken & (carriage.kept_by | gated)
    kept_by = (carriage.kept_by | gated) - broken
    if kept_by == carriage.kept_by and not broken:
        return None
    whys = [f"{', '.join(sorted(kept_by - carriage.kept_by))} now has everything"] if kept_by - carriage.kept_by else []
    whys += [f"{carriage.machine} can't reach {', '.join(sorted(broken))}"] if broken else []
    return CarriageTurn(carriage=replace(carriage, kept_by=kept_by, version=carriage.version + 1), why="; ".join(whys))


def chosen(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage with other peers, if some are lost or have to be replaced, or one more is needed as an heir.

    A counted peer stays so until the carrier acts upon this very version: a machine that was lost just before it
    took over may still look alive, and then those are all who have everything.
    """
    heir = wanted(carriage, fleet)
    peers = _peers(carriage, fleet, "" if heir == carriage.machine else heir)
    if peers == carriage.peers or (carriage.kept_by - {*peers, STORE} and not fleet.followed(carriage)):
        return None
    gone = [name for name in carriage.peers if name not in peers]
    new = [name for name in peers if name not in carriage.peers]
    whys = [f"{', '.join(gone)} gets no copies any more"] if gone else []
    whys += [f"{', '.join(new)} gets copies"] if new else []
    present = {name: carriage.root_of(name) for name in carriage.peers}
    return CarriageTurn(
        carriage=replace(
            carriage,
            peers=peers,
            roots=tuple(present[name] if name in present else fleet.machines[name].root for name in peers),
            kept_by=carriage.kept_by & {*peers, STORE},
            version=carriage.version + 1,
        ),
        why="; ".join(whys),
    )


def _peers(carriage: Carriage, fleet: Fleet, heir: str) -> tuple[str, ...]:
    """The present peers as far as they are sound, then new ones.

    Those that copies should leave, and those that broke, stay until they are replaced.
    """
    leaving = fleet.leaving
    broken = fleet.report(carriage).broken
    there = [name for name in carriage.peers if _keeps_its_copy(name, carriage, fleet)]
    # One that has everything is worth more than one that does not yet.
    there.sort(key=lambda name: name not in carriage.kept_by)
    sound = [name for name in there if name not in broken | leaving][: fleet.replicas]
    if heir in there or (heir and heir not in carriage.peers and _has_its_own_disk(heir, carriage, fleet)):
        sound += [] if heir in sound else [heir]
    new = _new(carriage, fleet, sound, fleet.replicas - len(sound))
    safe = sum(name in carriage.kept_by for name in sound)
    needed = [name for name in there if name in leaving - broken and name in carriage.kept_by]
    staying = needed[: max(0, fleet.replicas - safe)]
    staying += [name for name in there if name in broken][: max(0, fleet.replicas - len(sound) - len(new))]
    # The order of those that stay never changes, so that nothing changes without a reason.
    stay = tuple(name for name in carriage.peers if name in {*sound, *staying})
    return (*stay, *(name for name in (*sound, *new) if name not in stay))


def _new(carriage: Carriage, fleet: Fleet, sound: list[str], count: int) -> tuple[str, ...]:
    """The next machines on the ring that are not peers yet, each on a disk of its own."""
    used = set(map(carriage.root_of, carriage.peers))
    zones: dict[str, str] = {}
    for name in fleet.ring.clockwise(carriage.machine):
        seen = fleet.machines.get(name)
        if seen is None or name in {*carriage.peers, *sound} or name in fleet.leaving:
            continue
        if fleet.takes_copies(name, carriage) and (not seen.root or seen.root not in used):
            used.add(seen.root)
            zones[name] = seen.zone
    taken = [fleet.machines[name].zone for name in (carriage.machine, *sound) if name in fleet.machines]
    return fleet.ring.next_machines(carriage.machine, zones, count, taken=taken)


def _has_its_own_disk(machine: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether no copy is where a machine's would be."""
    return not any(fleet.shares(machine, root) for root in (carriage.root, *carriage.roots))


def _keeps_its_copy(peer: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a peer may go on as one: it is there, or may be back any moment, with what it was sent.

    A leader that has just begun has not heard of all machines yet; that is no reason to drop one.
    """
    seen = fleet.machines.get(peer)
    if fleet.lost(peer, carriage.root_of(peer)):
        return False
    return seen is None or not seen.alive or fleet.takes_copies(peer, carriage)
