"""Which core works for which task: what each needs is made up from free cores, spare ones, and exchanges."""

from provisioning.deployment_draft import DeploymentDraft
from provisioning.outlook import Rates
from provisioning.throughput import needs

_ROUNDING = 1e-9
MOST_MOVES = 20_000


def divide(draft: DeploymentDraft, rates: Rates, omega: float) -> float:
    """Give each task the cores that it needs for a throughput, as far as there are any; returns the power that lacks.

    What runs stays where it is if that suffices.
    """
    wanted = [need * omega for need in needs(draft.dataflow, tuple(draft.active), rates)]
    for task, count in enumerate(draft.counts):
        if not count and not _supplied(draft, task, wanted, _ROUNDING):
            wanted[task] = max(wanted[task], _ROUNDING)
    tasks = sorted(range(len(wanted)), key=lambda task: draft.capacity[task] - wanted[task])
    for task in tasks:
        _fill(draft, task, wanted)
        for _ in range(MOST_MOVES):
            missing = wanted[task] - draft.capacity[task]
            if missing <= _ROUNDING or not (
                _supplied(draft, task, wanted, missing) or _exchanged(draft, task, wanted, missing)
            ):
                break
    return sum(max(0.0, want - has) for want, has in zip(wanted, draft.capacity, strict=True))


def _fill(draft: DeploymentDraft, task: int, wanted: list[float]) -> None:
    """Many cores at once, the fastest first, as long as each is needed whole; free ones, then those to spare."""
    missing = wanted[task] - draft.capacity[task]
    tags = draft.dataflow.tasks[task].tags
    for number in sorted(draft.open, key=lambda each: -draft.speeds[each]):
        speed = draft.speeds[number]
        if speed > 0 and missing >= speed and tags <= draft.rentals[number].machine_class.tags:
            count = min(draft.open[number], int(missing / speed))
            draft.put(task, number, count)
            missing -= count * speed
    for other, over in _over(draft, wanted) if missing > 0 else ():
        if other == task:
            continue
        left = over
        for number, count in sorted(draft.places[other].items(), key=lambda each: -draft.speeds[each[0]]):
            speed = draft.speeds[number]
            if speed <= 0 or not tags <= draft.rentals[number].machine_class.tags:
                continue
            moved = min(count, int(missing / speed), int(left / speed), draft.counts[other] - 1)
            if moved > 0:
                draft.take(other, number, moved)
                draft.put(task, number, moved)
                missing, left = missing - moved * speed, left - moved * speed


def _supplied(draft: DeploymentDraft, task: int, wanted: list[float], missing: float) -> bool:
    """One more core: a free one, else one that another task can spare; the slowest that suffices, else the fastest."""
    tags = draft.dataflow.tasks[task].tags
    free = [number for number in draft.open if tags <= draft.rentals[number].machine_class.tags]
    if free:
        draft.put(task, min(free, key=lambda number: _fit(draft.speeds[number], missing)))
        return True
    spare = [
        (number, other)
        for other, over in _over(draft, wanted)
        if other != task and draft.counts[other] > 1
        for number in draft.places[other]
        if draft.speeds[number] <= over + _ROUNDING and tags <= draft.rentals[number].machine_class.tags
    ]
    if not spare:
        return False
    number, other = min(spare, key=lambda each: _fit(draft.speeds[each[0]], missing))
    draft.take(other, number)
    draft.put(task, number)
    return True


def _exchanged(draft: DeploymentDraft, task: int, wanted: list[float], missing: float) -> bool:
    """A slow core for a faster one of another task that keeps what it needs; the least faster that suffices."""
    homes = draft.homes(task)
    if not homes:
        return False
    slow = min(homes, key=lambda number: draft.speeds[number])
    tags = draft.dataflow.tasks[task].tags
    gains = [
        (gain, number, other)
        for other, over in _over(draft, wanted)
        if other != task and draft.dataflow.tasks[other].tags <= draft.rentals[slow].machine_class.tags
        for number in draft.places[other]
        if _ROUNDING < (gain := draft.speeds[number] - draft.speeds[slow]) <= over + _ROUNDING
        and tags <= draft.rentals[number].machine_class.tags
    ]
    if not gains:
        return False
    _, fast, other = min(gains, key=lambda each: _fit(each[0], missing))
    draft.take(task, slow)
    draft.take(other, fast)
    draft.put(task, fast)
    draft.put(other, slow)
    return True


def _over(draft: DeploymentDraft, wanted: list[float]) -> list[tuple[int, float]]:
    """The tasks that have more than they need, with how much."""
    overs = ((task, has - want) for task, (has, want) in enumerate(zip(draft.capacity, wanted, strict=True)))
    return [(task, over) for task, over in overs if over > _ROUNDING]


def _fit(speed: float, missing: float) -> tuple[bool, float]:
    """Orders cores: those that suffice by the least power, then the others by the most."""
    suffices = speed >= missing - _ROUNDING
    return (not suffices, speed if suffices else -speed)
