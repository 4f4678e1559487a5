"""Braid's own algorithm on rented machines: the first deployment, and what becomes of it at each interval.

Which core works for which task is decided last: what each needs is made up from free cores, spare ones, and exchanges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from provisioning.algorithms import greedy
from provisioning.deployment import Deployment, DeploymentDraft, Outlook, Rates
from provisioning.expectations import (
    coming_power,
    deployment_after,
    highest_rates,
    need_of,
    power_of,
    seen_performance,
    without_given_up,
)
from provisioning.figures import Active, DataflowFigures, MachineClass, ProfitGoal, needs, refuse, wrong_rates
from provisioning.horizon.mixes import SWITCH_COST, changed_share, mixes
from provisioning.horizon.packing import CoreMenu, estimated_price, menus, packed, settled
from provisioning.horizon.rental_plan import RentalPlan, RentalProgram

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
    """Give a task many cores at once, the fastest first, as long as each is needed whole; free ones come first."""
    missing = wanted[task] - draft.capacity[task]
    tags = draft.dataflow.tasks[task].tags
    for number in sorted(draft.open, key=lambda number: -draft.speeds[number]):
        speed = draft.speeds[number]
        if speed > 0 and missing >= speed and tags <= draft.rentals[number].machine_class.tags:
            count = min(draft.open[number], int(missing / speed))
            draft.put(task, number, count)
            missing -= count * speed
    for other, over in _over(draft, wanted) if missing > 0 else ():
        if other == task:
            continue
        left = over
        for number, count in sorted(draft.places[other].items(), key=lambda item: -draft.speeds[item[0]]):
            speed = draft.speeds[number]
            if speed <= 0 or not tags <= draft.rentals[number].machine_class.tags:
                continue
            moved = min(count, int(missing / speed), int(left / speed), draft.counts[other] - 1)
            if moved > 0:
                draft.take(other, number, moved)
                draft.put(task, number, moved)
                missing, left = missing - moved * speed, left - moved * speed


def _supplied(draft: DeploymentDraft, task: int, wanted: list[float], missing: float) -> bool:
    """Give a task a free core, or one that another can spare: the slowest that suffices, else the fastest."""
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
    number, other = min(spare, key=lambda option: _fit(draft.speeds[option[0]], missing))
    draft.take(other, number)
    draft.put(task, number)
    return True


def _exchanged(draft: DeploymentDraft, task: int, wanted: list[float], missing: float) -> bool:
    """Exchange a slow core for a faster one of a task that keeps what it needs; the least faster that suffices."""
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
    _, fast, other = min(gains, key=lambda option: _fit(option[0], missing))
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


_PLANNED_STEPS = 12
"""The intervals that are planned; the last prediction holds for those beyond it."""
MOST_STARTS = 2000
_LEAST_PACKED, _MOST_PACKED, _MOST_WORK = 3, 32, 20_000
"""How many mixes are packed to choose from: as many as make so many tasks, within these bounds."""
_FEW = 200
"""For so many tasks the greedy deployment is made as well, since it takes no time that counts."""
_ROUNDS = 3
"""How often alternates and the rates that follow from them are settled with each other."""


def deployed(
    dataflow: DataflowFigures, rates: Rates, classes: tuple[MachineClass, ...], goal: ProfitGoal
) -> Deployment:
    """The deployment of the highest profit over the mixes that promise most, each packed."""
    refuse("this cannot be deployed", wrong_rates(rates))
    count = max(_LEAST_PACKED, min(_MOST_PACKED, _MOST_WORK // len(dataflow.tasks)))

    def profit(deployment: Deployment) -> float:
        return goal.theta(dataflow, dataflow.gamma(deployment.active), deployment.price() * goal.hours)

    def made(menu: CoreMenu, most: int) -> Iterator[Deployment]:
        for active in _promising(dataflow, rates, menu, goal)[:most]:
            yield packed(dataflow, active, rates, menu, goal.omega)

    offers = list(menus(dataflow, classes))
    tried = {menu: max(made(menu, 1), key=profit) for menu in offers} if len(offers) > 1 else {}
    best = max(offers, key=lambda menu: profit(tried[menu])) if tried else offers[0]
    few = [greedy.deployed(dataflow, rates, classes, goal, central=True)] if len(dataflow.tasks) <= _FEW else []
    return max((*few, *tried.values(), *made(best, count)), key=profit)


def _promising(dataflow: DataflowFigures, rates: Rates, menu: CoreMenu, goal: ProfitGoal) -> list[Active]:
    """Alternates for all tasks that are worth considering, those of the highest profit first as far as it is known."""
    options = [mix.active for mix in mixes(dataflow, rates)]
    for active in (options[0], options[-1]):
        for _ in range(_ROUNDS):
            active = settled(dataflow, active, rates, menu, goal)  # noqa: PLW2901  from one round to the next
            options.append(active)

    def profit(active: Active) -> float:
        price = estimated_price(dataflow, active, rates, menu, goal.omega)
        return goal.theta(dataflow, dataflow.gamma(active), price * goal.hours)

    return sorted(dict.fromkeys(options), key=profit, reverse=True)


def adapted(outlook: Outlook) -> Deployment:
    """What runs, with what is due now by the plan over all predicted intervals.

    With the machines of the plan the best mix is taken that reaches the level. If the planned one does not, since whole
    cores for whole tasks take more than was reckoned, small machines are added until it does.
    """
    highest = {name: max(rates[name] for rates in outlook.coming_rates) for name in outlook.coming_rates[0]}
    choice = mixes(outlook.dataflow, highest, outlook.deployment.active)
    program = RentalProgram(outlook, choice, _PLANNED_STEPS)
    plan = program.solved()
    # What the last part of a core would add is not worth a machine, as long as the mean is what it should be.
    ahead = outlook.mean_omega > outlook.goal.omega
    enough = min(plan.level, program.lowest) if ahead else plan.level
    by_value = sorted(choice, key=lambda mix: (-mix.gamma, mix.cores))
    for mix in by_value:
        draft = _machines(program, plan)
        if mix.gamma <= plan.mix.gamma:
            return _enlarged(draft, program, replace(plan, mix=mix), enough)
        power = sum(draft.speeds[number] * one.machine_class.cores for number, one in draft.rentals.items())
        # Less does not reach the level even by the kindest division.
        least = 0.95 * plan.level * sum(needs(outlook.dataflow, mix.active, outlook.coming_rates[0]))
        if power + _ROUNDING < least:
            continue
        if not _lacking(draft, outlook, mix.active, plan.level):
            return draft.made()
    return outlook.deployment


def _machines(program: RentalProgram, plan: RentalPlan) -> DeploymentDraft:
    """What runs on the machines that are kept, beside those that are started."""
    outlook = program.outlook
    speeds = {
        rental.number: coming_power(outlook, rental, 1)[0] / rental.machine_class.cores
        for rental in outlook.deployment.rentals
    }
    draft = DeploymentDraft(outlook.dataflow, outlook.deployment, speeds, outlook.now)
    for number in [*draft.rentals]:
        if number not in plan.kept:
            draft.release(number)
    for small, power in plan.starts:
        alike = [
            one
            for one in outlook.classes
            if one.tags == small.tags and one.price / one.power <= small.price / small.power + _ROUNDING
        ]
        _start_power(draft, program, plan, alike, power)
    return draft


def _start_power(
    draft: DeploymentDraft, program: RentalProgram, plan: RentalPlan, classes: Sequence[MachineClass], power: float
) -> None:
    """Start machines of about so much power, as large as it goes, of fast cores no more than are needed whole."""
    small = min(classes, key=lambda one: one.power)
    wanted = needs(draft.dataflow, plan.mix.active, program.outlook.coming_rates[0])
    missing = [
        need * plan.level - has
        for need, has, task in zip(wanted, draft.capacity, draft.dataflow.tasks, strict=True)
        if task.tags <= small.tags
    ]
    left = power
    # The last part of a machine is left to who finds that it is needed.
    while fitting := [
        one
        for one in classes
        if one.power <= left + small.power / 2
        and (one.speed <= small.speed or one.cores <= sum(int(max(0.0, need) / one.speed) for need in missing))
    ]:
        chosen = max(fitting, key=lambda one: one.power)
        works = max(0.0, 1.0 - chosen.start_seconds / program.outlook.interval)
        draft.rent(chosen, chosen.speed * program.performance * works)
        left -= chosen.power
        for _ in range(chosen.cores):
            at = max(range(len(missing)), key=missing.__getitem__)
            missing[at] -= chosen.speed


def _enlarged(draft: DeploymentDraft, program: RentalProgram, plan: RentalPlan, enough: float) -> Deployment:
    """The planned mix, with as many machines more as it takes: first those that could have gone, then new ones."""
    outlook, spare = program.outlook, list(plan.spare)
    powers = {rental.number: sum(coming_power(outlook, rental, 1)) for rental in outlook.deployment.rentals}
    for _ in range(MOST_STARTS):
        lacks = _lacking(draft, outlook, plan.mix.active, plan.level)
        if not lacks or draft.omega(outlook.coming_rates[0]) >= enough:
            break
        if not spare:
            _start_more(draft, program, plan, lacks)
            continue
        while spare and lacks > 0:
            number = spare.pop(0)
            plan = replace(plan, kept=plan.kept | {number})
            lacks -= powers[number]
        draft = _machines(program, plan)
    return draft.made()


def _lacking(draft: DeploymentDraft, outlook: Outlook, active: Active, level: float) -> float:
    """The power that lacks for a level with these alternates, once cores are divided; 0 if it is reached."""
    draft.active = list(active)
    rates = outlook.coming_rates[0]
    lacks = divide(draft, rates, level)
    if lacks <= _ROUNDING or (all(draft.counts) and draft.omega(rates) >= level - _ROUNDING):
        return 0.0
    return lacks


def _start_more(draft: DeploymentDraft, program: RentalProgram, plan: RentalPlan, lacks: float) -> None:
    """Start machines for the task that lacks most: large ones for what is needed whole, or the cheapest one."""
    outlook = program.outlook
    rates, active = outlook.coming_rates[0], tuple(draft.active)
    missing = [need - has for need, has in zip(needs(draft.dataflow, active, rates), draft.capacity, strict=True)]
    task = max(range(len(missing)), key=lambda at: (not draft.counts[at], missing[at]))
    fitting = [one for one in outlook.classes if draft.dataflow.tasks[task].tags <= one.tags]
    small = min(fitting, key=lambda one: (one.price, -one.power))
    cheap = [one for one in fitting if one.price / one.power <= small.price / small.power + _ROUNDING]
    _start_power(draft, program, plan, cheap, max(lacks, small.power))


def adapted_shared(outlook: Outlook) -> Deployment:
    """What runs where all tasks share all cores, with what is due now by the plan over all predicted intervals.

    With the machines of the plan, the best mix runs that reaches the level of the next interval, none better than was
    planned for it.
    """
    outlook = without_given_up(outlook)
    choice = mixes(outlook.dataflow, highest_rates(outlook), outlook.deployment.active)
    program = RentalProgram(outlook, choice, _PLANNED_STEPS)
    plan = program.solved()
    starts = [one for one, power in plan.starts for _ in range(round(power / one.power))]
    kept = [one for one in outlook.deployment.rentals if one.number in plan.kept]
    seen = seen_performance(outlook)
    power = power_of(outlook, kept)[0] + sum(
        one.power * seen.get(one.name, program.performance) * max(0.0, 1.0 - one.start_seconds / outlook.interval)
        for one in starts
    )
    # As long as the mean is what it should be, an interval may be as low as the tolerance has it.
    level = program.lowest if outlook.mean_omega > outlook.goal.omega else plan.level
    return deployment_after(outlook, _best_reaching(outlook, plan, power, min(level, plan.level)), kept, starts)


def _best_reaching(outlook: Outlook, plan: RentalPlan, power: float, level: float) -> Active:
    dataflow, running = outlook.dataflow, outlook.deployment.active
    reaching = [
        active
        for active in {running: None, **dict.fromkeys(plan.candidates)}
        if need_of(outlook, active, outlook.coming_rates[0]) * level <= power + _ROUNDING
    ]

    def merit(active: Active) -> tuple[float, float]:
        switch = SWITCH_COST * changed_share(dataflow, running, active)
        return dataflow.gamma(active) - switch, -need_of(outlook, active, outlook.coming_rates[0])

    cheapest = min(plan.candidates, key=lambda active: need_of(outlook, active, outlook.coming_rates[0]))
    return max(reaching, key=merit, default=cheapest)
