"""Decision: what becomes of each carriage by what is seen of the machines.

A carriage is in one of a few states, and each state has its rules, in their order. At most one rule applies to a host
at a time, so each change has one reason, and the next one is decided on what came of it.

- Take-over: a host whose carrier is lost goes on at a machine that has its files.
- Hand-over: a host that should be elsewhere is stopped by its carrier, and goes on at its heir with everything.
- Peers: who gets the files of a host, and who is known to have them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from ring.fleet import STORE, Carriage, CarriageTurn, Fleet


def taken_over(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host at the first machine clockwise that has everything; those that offer less or drain come last.

    All others that have everything stay counted, so the new carrier first brings them to the state that it has itself.
    """
    order = fleet.ring.clockwise(carriage.machine)
    able = [machine for machine in order if fleet.has_files(machine, carriage)]
    if not able:
        return None
    machine = min(able, key=lambda name: (name in fleet.draining, not fleet.suits(name, carriage), order.index(name)))
    why = f"machine {carriage.machine} is lost, and {machine} has everything"
    return CarriageTurn(carriage=moved(carriage, machine, fleet), why=why)


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
    why = f"machine {carriage.machine} is lost, and {carriage.host} is restored from the store"
    return CarriageTurn(carriage=moved(carriage, carriage.host, fleet), why=why)


def begun_afresh(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host on the new root of its own machine, where hosts have no copies: nothing can bring the old root back.

    With copies, or with a store, nothing ever begins afresh by itself. Somebody may be away who has all of it.
    """
    seen = fleet.machines.get(carriage.machine)
    if fleet.replicas or carriage.kept_by or seen is None or not seen.alive or carriage.host not in seen.own_hosts:
        return None
    why = f"machine {carriage.machine} has another root than before, and nobody has a copy of the old one"
    return _turn(carriage, why, root=seen.root, term=carriage.term + 1, heir="", peers=(), roots=())


def _turn(carriage: Carriage, why: str, **changes: Any) -> CarriageTurn:
    """The next version of a carriage, with these changes."""
    return CarriageTurn(carriage=replace(carriage, version=carriage.version + 1, **changes), why=why)


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
    return _turn(carriage, f"{carriage.host} is handed to {heir}: {_reason(carriage, fleet)}", heir=heir)


def completed(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The host at its heir, after its carrier released it; the old carrier keeps a copy, which is complete."""
    heir = carriage.heir
    if not fleet.report(carriage).released or not _inherits(heir, carriage, fleet):
        return None
    after, before = moved(carriage, heir, fleet), carriage.machine
    if not fleet.shares(before, after.root):
        after = replace(
            after, peers=(before, *after.peers), roots=(carriage.root, *after.roots), kept_by=after.kept_by | {before}
        )
    why = f"machine {before} released {carriage.host}, and {heir} has everything; {_reason(carriage, fleet)}"
    return CarriageTurn(carriage=after, why=why)


def withdrawn(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage without its heir, if that can't take the host any more; one not heard of yet may still do."""
    heir = carriage.heir
    unseen = heir not in fleet.machines and not fleet.lost(heir, carriage.root_of(heir))
    if not heir or unseen or _inherits(heir, carriage, fleet):
        return None
    return _turn(carriage, f"machine {carriage.heir} can't take {carriage.host} any more", heir="")


def may_have(machine: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a host may be handed to a machine: it does not drain, and has or can get the files."""
    if fleet.shares(machine, carriage.root):
        return machine not in fleet.draining
    # One that has everything needs no more room.
    has_room = machine not in fleet.leaving or fleet.has_files(machine, carriage)
    return fleet.takes_copies(machine, carriage) and has_room and machine not in fleet.draining


def _inherits(machine: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a machine is there to be an heir, has everything, and its carrier reaches it."""
    has_files = machine not in fleet.draining and fleet.has_files(machine, carriage)
    return has_files and machine not in fleet.report(carriage).broken


def _reason(carriage: Carriage, fleet: Fleet) -> str:
    if carriage.machine in fleet.draining:
        return f"machine {carriage.machine} drains"
    return f"{fleet.home(carriage)} is its home"


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
    return _turn(carriage, "; ".join(whys), kept_by=kept_by)


def chosen(carriage: Carriage, fleet: Fleet) -> CarriageTurn | None:
    """The carriage with other peers, if some are lost or have to be replaced, or one more is needed as an heir.

    A counted peer stays so until the carrier acts upon this very version: a machine that was lost just before it
    took over may still look alive, and then those are all who have everything.
    """
    heir = wanted(carriage, fleet)
    peers = _peers(carriage, fleet, "" if heir == carriage.machine else heir)
    is_followed = fleet.report(carriage).version == carriage.version
    if peers == carriage.peers or (carriage.kept_by - {*peers, STORE} and not is_followed):
        return None
    gone = [name for name in carriage.peers if name not in peers]
    new = [name for name in peers if name not in carriage.peers]
    whys = [f"{', '.join(gone)} gets no copies any more"] if gone else []
    whys += [f"{', '.join(new)} gets copies"] if new else []
    roots = (carriage.root_of(name) if name in carriage.peers else fleet.machines[name].root for name in peers)
    kept_by = carriage.kept_by & {*peers, STORE}
    return _turn(carriage, "; ".join(whys), peers=peers, roots=tuple(roots), kept_by=kept_by)


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
    has_own_disk = not any(fleet.shares(heir, root) for root in (carriage.root, *carriage.roots))
    if heir in there or (heir and heir not in carriage.peers and has_own_disk):
        sound += [] if heir in sound else [heir]
    new = _new_peers(carriage, fleet, sound, fleet.replicas - len(sound))
    safe = sum(name in carriage.kept_by for name in sound)
    needed = [name for name in there if name in leaving - broken and name in carriage.kept_by]
    staying = needed[: max(0, fleet.replicas - safe)]
    staying += [name for name in there if name in broken][: max(0, fleet.replicas - len(sound) - len(new))]
    # The order of those that stay never changes, so that nothing changes without a reason.
    stay = tuple(name for name in carriage.peers if name in {*sound, *staying})
    return (*stay, *(name for name in (*sound, *new) if name not in stay))


def _new_peers(carriage: Carriage, fleet: Fleet, sound: list[str], count: int) -> tuple[str, ...]:
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


def _keeps_its_copy(peer: str, carriage: Carriage, fleet: Fleet) -> bool:
    """Whether a peer may go on as one: it is there, or may be back any moment, with what it was sent.

    A leader that has just begun has not heard of all machines yet; that is no reason to drop one.
    """
    seen = fleet.machines.get(peer)
    if fleet.lost(peer, carriage.root_of(peer)):
        return False
    return seen is None or not seen.alive or fleet.takes_copies(peer, carriage)


Rule = Callable[[Carriage, Fleet], CarriageTurn | None]


class CarriageState(Enum):
    """What becomes of a host next."""

    LOST = "its carrier is lost, or back without the files"
    UNSEEN = "its carrier may be back any moment"
    INHERITED = "it is being handed to its heir"
    CARRIED = "its carrier is there, and nothing is under way"


CARRIAGE_RULES: Mapping[CarriageState, tuple[Rule, ...]] = {
    CarriageState.LOST: (taken_over, restored, begun_afresh, withdrawn),
    CarriageState.UNSEEN: (),
    CarriageState.INHERITED: (withdrawn, completed),
    # What is counted is settled first, because a report is only good for the version that it is on.
    CarriageState.CARRIED: (counted, chosen, begun),
}


def state_of(carriage: Carriage, fleet: Fleet) -> CarriageState:
    """The state of a carriage by what is seen."""
    if fleet.lost(carriage.machine, carriage.root):
        return CarriageState.LOST
    if not fleet.alive(carriage.machine, carriage.root):
        return CarriageState.UNSEEN
    return CarriageState.INHERITED if carriage.heir else CarriageState.CARRIED


def decide(carriages: Mapping[str, Carriage], fleet: Fleet) -> tuple[CarriageTurn, ...]:
    """The next versions of the carriages that change, by host; at most one step each.

    At most one host is handed over at a time, so that few are stopped at once.
    """
    alive = [name for name, seen in fleet.machines.items() if seen.alive]
    fleet = replace(fleet, ring=fleet.ring.including(alive))
    return (*_new_carriages(carriages, fleet), *_changed(carriages, fleet))


def _new_carriages(carriages: Mapping[str, Carriage], fleet: Fleet) -> Iterator[CarriageTurn]:
    there = {name: seen for name, seen in sorted(fleet.machines.items()) if seen.alive}
    begun: dict[str, tuple[str, str]] = {}
    for name, seen in there.items():
        # One that waits to bring a host back is not new: who carried it has to be known.
        if seen.restores:
            continue
        # A host with the name of a machine is that machine's.
        own = [host for host in seen.own_hosts if host == name or host not in there]
        for host in own:
            begun.setdefault(host, (name, f"machine {name} is new and carries its own host"))
    # A machine that was away for long may go on by orders that nobody else remembers.
    for name, seen in there.items():
        for host in sorted(seen.hosts):
            begun.setdefault(host, (name, f"machine {name} carries host {host}, and nobody else does"))
    points = [carriage.point for carriage in carriages.values()]
    for host, (name, why) in begun.items():
        if host not in carriages:
            points.append(fleet.ring.free_point(name, points))
            carriage = Carriage(host=host, machine=name, root=there[name].root, point=points[-1])
            yield CarriageTurn(carriage=carriage, why=why)


def _changed(carriages: Mapping[str, Carriage], fleet: Fleet) -> Iterator[CarriageTurn]:
    handing = any(
        carriage.heir and state_of(carriage, fleet) is not CarriageState.LOST for carriage in carriages.values()
    )
    for _, carriage in sorted(carriages.items()):
        for rule in CARRIAGE_RULES[state_of(carriage, fleet)]:
            if rule is begun and handing:
                continue
            if turn := rule(carriage, fleet):
                handing = handing or bool(turn.carriage.heir)
                yield turn
                break
