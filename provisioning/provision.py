"""Provision: what a service with shared cores does about its alternates and machines now, by a chosen algorithm.

Each change has its reason, with what it costs. What is decided is the algorithm's alone; this says what it means.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from provisioning.algorithms.shared_cores import look_ahead, reactive
from provisioning.deployment import Adaptation, Outlook, unchanged
from provisioning.expectations import highest_rates, need_of, power_of
from provisioning.figures import Active, MachineClass, Rental
from provisioning.horizon import adapted_shared

ADAPTATIONS: Mapping[str, Adaptation] = {
    "horizon": adapted_shared,
    "look-ahead": look_ahead,
    "reactive": reactive,
    "static": unchanged,
}
"""By the names by which they are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStart:
    """A machine to order; made by `provision`."""

    machine_class: MachineClass
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStop:
    """A machine to end; made by `provision`."""

    rental: Rental
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What is decided now; made by `provision`."""

    active: Active
    starts: tuple[MachineStart, ...]
    stops: tuple[MachineStop, ...]
    omega: float
    """The relative throughput to expect in the next interval."""
    price: float
    """What all machines that are rented then cost by the hour."""


def provision(outlook: Outlook, algorithm: str) -> Provision:
    """What to do now, by an algorithm that `ADAPTATIONS` names."""
    made = ADAPTATIONS[algorithm](outlook)
    before = {rental.number: rental for rental in outlook.deployment.rentals}
    after = {rental.number: rental for rental in made.rentals}
    kept = [rental for number, rental in after.items() if number in before]
    need = need_of(outlook, made.active, outlook.coming_rates[0])
    power = power_of(outlook, made.rentals)[0]
    most = need_of(outlook, made.active, highest_rates(outlook))
    minutes = len(outlook.coming_rates) * outlook.interval / 60
    there = _usable(outlook, before.values())
    needed = f"tasks need up to {most:.2f} reference cores in the next {minutes:.3g} min"
    return Provision(
        active=made.active,
        starts=tuple(
            MachineStart(
                machine_class=rental.machine_class,
                why=f"{needed}, and there are {there:.2f}; {_priced(rental.machine_class)}",
            )
            for number, rental in after.items()
            if number not in before
        ),
        stops=tuple(_stops(outlook, [before[number] for number in before if number not in after], kept, needed)),
        omega=min(1.0, power / need) if need > 0 else 1.0,
        price=made.price(),
    )


def _usable(outlook: Outlook, rentals: Iterable[Rental]) -> float:
    """The power of machines as it was seen, or is rated."""
    return sum(outlook.speeds.get(one.number, one.machine_class.speed) * one.machine_class.cores for one in rentals)


def _priced(one: MachineClass) -> str:
    return f"a machine of the class {one.name} has {one.power:.2f}, for {one.price:g} an hour"


def _stops(outlook: Outlook, stopped: list[Rental], kept: list[Rental], needed: str) -> Iterator[MachineStop]:
    left = _usable(outlook, kept)
    for rental in stopped:
        if rental.is_given_up(outlook.now):
            waited = outlook.now - rental.since
            why = f"it has not come for {waited:.0f} s, and should have after {rental.machine_class.start_seconds:g} s"
        else:
            ends = f"its paid hour ends in {rental.paid_left(outlook.now):.0f} s"
            price = f"another would cost {rental.machine_class.price:g}"
            why = f"{needed}, and {left:.2f} are left without it; {ends}, and {price}"
        yield MachineStop(rental=rental, why=why)
