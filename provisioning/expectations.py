"""What is to be expected by an outlook: what tasks need, what machines do, and which of them to order or wait for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from provisioning.deployment import Deployment, Outlook, Rates
from provisioning.figures import Active, MachineClass, Rental, needs


def need_of(outlook: Outlook, active: Active, rates: Rates) -> float:
    """The reference cores that all tasks take if all events are served."""
    return sum(needs(outlook.dataflow, active, rates))


def highest_rates(outlook: Outlook) -> Rates:
    """The highest rate that is predicted for each task."""
    return {name: max(rates[name] for rates in outlook.coming_rates) for name in outlook.coming_rates[0]}


def coming_power(outlook: Outlook, rental: Rental, steps: int) -> tuple[float, ...]:
    """The power of a machine at the coming intervals; the last prediction holds for those beyond."""
    rated = rental.machine_class.speed
    speeds = [coming.get(rental.number, rated) for coming in outlook.coming_speeds]
    powers = []
    for step in range(steps):
        late = rental.expected_at(outlook.now) - outlook.now - step * outlook.interval
        working = max(0.0, min(1.0, 1.0 - late / outlook.interval))
        powers.append(speeds[min(step, len(speeds) - 1)] * rental.machine_class.cores * working)
    return tuple(powers)


def power_of(outlook: Outlook, rentals: Iterable[Rental], steps: int = 1) -> list[float]:
    """The power of machines at the coming intervals."""
    rows = [coming_power(outlook, rental, steps) for rental in rentals]
    return [sum(row[step] for row in rows) for step in range(steps)]


def expected_performance(outlook: Outlook) -> float:
    """What part of its rated speed a new machine may be expected to do: what those that run do on average."""
    seen = [
        outlook.speeds[rental.number] / rental.machine_class.speed
        for rental in outlook.deployment.rentals
        if rental.number in outlook.speeds
    ]
    return max(0.5, min(1.0, sum(seen) / len(seen))) if seen else 1.0


def seen_performance(outlook: Outlook) -> Mapping[str, float]:
    """What part of their rated speed the machines of a class do, by its name."""
    seen: defaultdict[str, list[float]] = defaultdict(list)
    for rental in outlook.deployment.rentals:
        if rental.ready is not None and rental.number in outlook.speeds:
            seen[rental.machine_class.name].append(outlook.speeds[rental.number] / rental.machine_class.speed)
    return {name: sum(parts) / len(parts) for name, parts in seen.items()}


def cheapest_power(classes: Sequence[MachineClass]) -> tuple[MachineClass, ...]:
    """For each set of tags the class with the lowest price for its power; of equals the smallest."""
    best: dict[frozenset[str], MachineClass] = {}
    for one in sorted(
        classes, key=lambda machine_class: (round(machine_class.price / machine_class.power, 9), machine_class.power)
    ):
        best.setdefault(one.tags, one)
    return tuple(best.values())


def orderable(outlook: Outlook) -> tuple[MachineClass, ...]:
    """The classes to order from: those whose machines come, or all of their tags if none of these does.

    A class of which there are too few is one of them in any case.
    """
    counts = Counter(one.machine_class.name for one in outlook.deployment.rentals)
    late = {one.machine_class.name for one in outlook.deployment.rentals if one.is_late(outlook.now)}
    avoided = late | outlook.avoided_classes
    return tuple(
        one
        for one in outlook.classes
        if one.name not in avoided
        or counts[one.name] < one.least
        or all(other.name in avoided for other in outlook.classes if other.tags == one.tags)
    )


def without_given_up(outlook: Outlook) -> Outlook:
    """An outlook without the machines that are waited for no longer."""
    rentals = tuple(one for one in outlook.deployment.rentals if not one.is_given_up(outlook.now))
    return replace(outlook, deployment=replace(outlook.deployment, rentals=rentals))


def deployment_after(
    outlook: Outlook, active: Active, kept: Iterable[Rental], starts: Sequence[MachineClass]
) -> Deployment:
    """What runs once some machines are kept and others are ordered."""
    first = max([outlook.deployment.rented, *(one.number + 1 for one in outlook.deployment.rentals)])
    ordered = (
        Rental(number=first + at, machine_class=machine_class, since=outlook.now)
        for at, machine_class in enumerate(starts)
    )
    return Deployment(active=active, rentals=(*kept, *ordered), rented=first + len(starts))
