"""Decision: what becomes of each carriage by what is seen of the machines.

A carriage is in one of a few states, and each state has its rules, in their order. At most one rule applies to a host
at a time, so each change has one reason, and the next one is decided on what came of it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum

from ring.carriage import Carriage, MachineSeen
from ring.fleet import CarriageTurn, Fleet
from ring.hand_over import begun, completed, withdrawn
from ring.peers import chosen, counted
from ring.take_over import begun_afresh, restored, taken_over
from ring.tokens import Ring

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


def decide(  # noqa: PLR0913  all that a decision considers, by name
    carriages: Mapping[str, Carriage],
    machines: Mapping[str, MachineSeen],
    *,
    ring: Ring,
    replicas: int,
    draining: Collection[str],
    now: float,
    lost_since: Mapping[str, float],
    alive_since: Mapping[str, float],
) -> tuple[CarriageTurn, ...]:
    """The next versions of the carriages that change, by host; at most one step each.

    `lost_since` and `alive_since` say since when each machine is gone or there. At most one host is handed over at a
    time, so that few are stopped at once.
    """
    fleet = Fleet(
        machines=machines,
        ring=ring.including(machines),
        replicas=replicas,
        draining=frozenset(draining),
        now=now,
        lost_since=lost_since,
        alive_since=alive_since,
    )
    return (*_new(carriages, fleet), *_changed(carriages, fleet))


def _new(carriages: Mapping[str, Carriage], fleet: Fleet) -> Iterator[CarriageTurn]:
    there = {name: seen for name, seen in sorted(fleet.machines.items()) if seen.alive}
    for name, seen in there.items():
        # One that waits to bring a host back is not new: who carried it has to be known.
        if name not in carriages and not seen.restores:
            carriage = Carriage(host=name, machine=name, root=seen.root)
            yield CarriageTurn(carriage=carriage, why=f"machine {name} is new and carries its own host")
    # A machine that was away for long may go on by orders that nobody else remembers.
    found = {host: name for name, seen in there.items() for host in seen.hosts}
    for host, name in sorted(found.items()):
        if host not in {*carriages, *there}:
            carriage = Carriage(host=host, machine=name, root=there[name].root)
            yield CarriageTurn(carriage=carriage, why=f"machine {name} carries host {host}, and nobody else does")


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
