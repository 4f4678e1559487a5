"""Decision: what becomes of each carriage by what is seen of the machines.

A carriage is in one of a few states, and each state has its rules, in their order. At most one rule applies to a host
at a time, so each change has one reason, and the next one is decided on what came of it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum

from ring.carriage import Carriage
from ring.fleet import CarriageTurn, Fleet
from ring.hand_over import begun, completed, withdrawn
from ring.peers import chosen, counted
from ring.take_over import begun_afresh, restored, taken_over

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
    return (*_new(carriages, fleet), *_changed(carriages, fleet))


def _new(carriages: Mapping[str, Carriage], fleet: Fleet) -> Iterator[CarriageTurn]:
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
    points = [each.point for each in carriages.values()]
    for host, (name, why) in begun.items():
        if host not in carriages:
            points.append(fleet.ring.free_point(name, points))
            carriage = Carriage(host=host, machine=name, root=there[name].root, point=points[-1])
            yield CarriageTurn(carriage=carriage, why=why)


def _changed(carriages: Mapping[str, Carriage], fleet: Fleet) -> Iterator[CarriageTurn]:
    handing = any(each.heir and state_of(each, fleet) is not CarriageState.LOST for each in carriages.values())
    for _, carriage in sorted(carriages.items()):
        for rule in CARRIAGE_RULES[state_of(carriage, fleet)]:
            if rule is begun and handing:
                continue
            if turn := rule(carriage, fleet):
                handing = handing or bool(turn.carriage.heir)
                yield turn
                break
