"""Machines for cores: the kinds of cores that there are, the cheapest machines for so many, and iterative repacking.

Repacking puts the same work on cheaper machines, as the throughput allows. First a core of each task that has more than
it needs goes to a machine of the smallest class that suffices; then what is left on machines with free cores is packed
anew. `assembled` makes a deployment from how many cores of each kind every task has.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from provisioning.deployment import Deployment, DeploymentDraft, Rates
from provisioning.figures import Active, DataflowFigures, MachineClass


def repacked(draft: DeploymentDraft, rates: Rates, classes: tuple[MachineClass, ...], target: float) -> None:
    """Pack a deployment that nobody has paid for yet."""
    for task in range(len(draft.dataflow.tasks)):
        _shrink_last(draft, task, rates, classes, target)
    repack_free(draft, classes, tuple(draft.rentals))


def gather(draft: DeploymentDraft) -> None:
    """Move what runs on the least used machines to free cores of others, so that machines become idle."""
    partly = (number for number in draft.open if draft.cores[number])
    for number in sorted(partly, key=lambda number: sum(draft.cores[number].values())):
        _move_away(draft, number)


def _move_away(draft: DeploymentDraft, number: int) -> None:
    """All that runs on a machine goes to others that are as fast and already work, or nothing does."""
    free = {
        other: count
        for other, count in draft.open.items()
        if other != number and draft.cores[other] and draft.speeds[other] >= draft.speeds[number]
    }
    moves: list[tuple[int, int]] = []
    for task, count in draft.cores[number].items():
        tags = draft.dataflow.tasks[task].tags
        for _ in range(count):
            home = next(
                (at for at, left in free.items() if left and tags <= draft.rentals[at].machine_class.tags), None
            )
            if home is None:
                return
            free[home] -= 1
            moves.append((task, home))
    for task, home in moves:
        draft.take(task, number)
        draft.put(task, home)


def _shrink_last(
    draft: DeploymentDraft, task: int, rates: Rates, classes: tuple[MachineClass, ...], target: float
) -> None:
    """Move one core of a task to a smaller machine, if the throughput stays enough."""
    work = draft.flows(rates)[2][task] * draft.dataflow.alternate(task, tuple(draft.active)).cost
    home = draft.homes(task)[-1]
    here = draft.rentals[home].machine_class
    tags = draft.dataflow.tasks[task].tags
    smaller = sorted(
        (one for one in classes if one.power < here.power and tags <= one.tags), key=lambda one: (one.price, one.power)
    )
    for machine_class in smaller:
        # Only a core of the same price or less is an improvement.
        if machine_class.price > here.price / here.cores * machine_class.cores + 1e-9:
            continue
        draft.take(task, home)
        number = next((free for free in draft.room(task) if draft.rentals[free].machine_class is machine_class), None)
        number = draft.rent(machine_class) if number is None else number
        draft.put(task, number)
        if draft.capacity[task] >= work or draft.omega(rates) >= target - 1e-9:
            return
        draft.take(task, number)
        if not draft.cores[number]:
            draft.release(number)
        draft.put(task, home)


def repack_free(draft: DeploymentDraft, classes: tuple[MachineClass, ...], numbers: Collection[int]) -> None:
    """Pack the cores in use on some machines with free ones anew, machines of equal speed and tags together."""
    for number in set(draft.idle()) & set(numbers):
        draft.release(number)
    loose_ones = [draft.rentals[number].machine_class for number in draft.open if number in numbers]
    kinds = dict.fromkeys((one.speed, one.tags) for one in loose_ones)
    for speed, tags in kinds:
        loose = [
            number
            for number in draft.open
            if number in numbers
            and (draft.rentals[number].machine_class.speed, draft.rentals[number].machine_class.tags) == (speed, tags)
        ]
        work = [task for number in loose for task, count in draft.cores[number].items() for _ in range(count)]
        fitting = [one for one in classes if one.speed == speed and tags <= one.tags]
        chosen = cheapest(fitting, len(work))
        if sum(one.price for one in chosen) >= sum(draft.rentals[number].machine_class.price for number in loose):
            continue
        for number in loose:
            draft.release(number)
        for machine_class in chosen:
            number = draft.rent(machine_class)
            for _ in range(min(machine_class.cores, len(work))):
                draft.put(work.pop(0), number)


def cheapest(classes: list[MachineClass], cores: int) -> list[MachineClass]:
    """The machines of the lowest price that have so many cores together; of equal prices, the fewest machines."""
    best: list[tuple[float, int, MachineClass | None]] = [(0.0, 0, None)]
    for wanted in range(1, cores + 1):
        options = (
            (best[max(0, wanted - one.cores)][0] + one.price, best[max(0, wanted - one.cores)][1] + 1, at)
            for at, one in enumerate(classes)
        )
        price, count, at = min(options, key=lambda option: (round(option[0], 9), option[1]))
        best.append((price, count, classes[at]))
    chosen: list[MachineClass] = []
    while cores > 0 and (machine_class := best[cores][2]) is not None:
        chosen.append(machine_class)
        cores -= machine_class.cores
    return chosen


_ROUNDING = 1e-9

Counts = tuple[int, ...]
"""Cores of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreKind:
    """Cores that differ in nothing: of equal speed, on machines with equal tags."""

    speed: float
    tags: frozenset[str]
    classes: tuple[MachineClass, ...]

    @property
    def least_price(self) -> float:
        """What a core costs at least."""
        return min(one.price / one.cores for one in self.classes)

    @property
    def linear(self) -> bool:
        """Whether any number of cores costs as much a core as the cheapest ones."""
        singles = [one.price for one in self.classes if one.cores == 1]
        return bool(singles) and min(singles) <= self.least_price + _ROUNDING


def kinds_of(classes: Sequence[MachineClass]) -> tuple[CoreKind, ...]:
    """The kinds of cores that classes have."""
    keys = dict.fromkeys((one.speed, one.tags) for one in classes)
    return tuple(
        CoreKind(
            speed=speed, tags=tags, classes=tuple(one for one in classes if (one.speed, one.tags) == (speed, tags))
        )
        for speed, tags in keys
    )


def assembled(
    dataflow: DataflowFigures,
    active: Active,
    counts: Sequence[Counts],
    kinds: Sequence[CoreKind],
    order: Iterable[int] | None = None,
) -> Deployment:
    """The cheapest machines for so many cores of each task; neighbours in the order share machines."""
    draft = DeploymentDraft(dataflow, Deployment(active=active))
    tasks = range(len(counts)) if order is None else tuple(order)
    for at, kind in enumerate(kinds):
        work = [task for task in tasks for _ in range(counts[task][at])]
        begin = 0
        for machine_class in cheapest(list(kind.classes), len(work)):
            number = draft.rent(machine_class)
            for task in work[begin : begin + machine_class.cores]:
                draft.put(task, number)
            begin += machine_class.cores
    return draft.made()
