"""Braid's own algorithm on rented machines: the first deployment, and what becomes of it at each interval."""

from collections.abc import Mapping
from dataclasses import replace

from provisioning.algorithms import greedy
from provisioning.algorithms.repack import repacked
from provisioning.algorithms.resource_change import shrink
from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft
from provisioning.figures import refuse, wrong_rates
from provisioning.horizon.core_division import divide
from provisioning.horizon.mixes import mixes
from provisioning.horizon.rental_plan import RentalPlan, RentalProgram, coming_power
from provisioning.machine_class import MachineClass
from provisioning.outlook import Outlook, Rates
from provisioning.profit import ProfitGoal
from provisioning.throughput import needs

PLANNED_STEPS = 12
"""The intervals that are planned; the last prediction holds for those beyond it."""
MOST_STARTS = 2000
_ROUNDING = 1e-9


def deployed(
    dataflow: DataflowFigures, rates: Rates, classes: tuple[MachineClass, ...], goal: ProfitGoal
) -> Deployment:
    """The deployment of the highest profit over all mixes, each packed greedily without what is not needed."""
    refuse("this cannot be deployed", wrong_rates(rates))
    candidates = [_packed(dataflow, mix.active, rates, classes, goal) for mix in mixes(dataflow, rates)]
    candidates.append(greedy.deployed(dataflow, rates, classes, goal, central=True))
    return max(
        candidates, key=lambda each: goal.theta(dataflow, dataflow.gamma(each.active), each.price() * goal.hours)
    )


def adapted(outlook: Outlook) -> Deployment:
    """What runs, with what is due now by the plan over all predicted intervals.

    With the machines of the plan the best mix is taken that reaches the level. If the planned one does not, since whole
    cores for whole tasks take more than was reckoned, small machines are added until it does.
    """
    choice = mixes(outlook.dataflow, _highest(outlook), outlook.deployment.active)
    program = RentalProgram(outlook, choice, PLANNED_STEPS)
    plan = program.solved()
    # What the last part of a core would add is not worth a machine, as long as the mean is what it should be.
    ahead = outlook.mean_omega > outlook.goal.omega
    enough = min(plan.level, program.lowest) if ahead else plan.level
    by_value = sorted(choice, key=lambda mix: (-mix.gamma, mix.cores))
    for mix in by_value:
        draft = _machines(outlook, program, plan)
        if mix.gamma <= plan.mix.gamma:
            return _enlarged(draft, outlook, program, replace(plan, mix=mix), enough)
        if sum(draft_power(draft)) + _ROUNDING < _least(outlook, mix.active, plan.level):
            continue
        if not _lacking(draft, outlook, mix.active, plan.level):
            return draft.made()
    return outlook.deployment


def draft_power(draft: DeploymentDraft) -> list[float]:
    """The power of each machine of a draft."""
    return [draft.speeds[number] * one.machine_class.cores for number, one in draft.rentals.items()]


def _packed(
    dataflow: DataflowFigures, active: Active, rates: Rates, classes: tuple[MachineClass, ...], goal: ProfitGoal
) -> Deployment:
    draft = DeploymentDraft(dataflow, Deployment(active=active))
    greedy.grow(draft, rates, classes, goal.omega)
    shrink(draft, rates, goal.omega)
    repacked(draft, rates, classes, goal.omega)
    return draft.made()


def _machines(outlook: Outlook, program: RentalProgram, plan: RentalPlan) -> DeploymentDraft:
    """What runs on the machines that are kept, beside those that are started."""
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
        left = power
        # The last part of a machine is left to who finds that it is needed.
        while fitting := [one for one in alike if one.power <= left + small.power / 2]:
            chosen = max(fitting, key=lambda one: one.power)
            _start(draft, outlook, program, chosen)
            left -= chosen.power
    return draft


def _start(draft: DeploymentDraft, outlook: Outlook, program: RentalProgram, machine_class: MachineClass) -> None:
    works = max(0.0, 1.0 - machine_class.start_seconds / outlook.interval)
    draft.rent(machine_class, machine_class.speed * program.performance * works)


def _enlarged(
    draft: DeploymentDraft, outlook: Outlook, program: RentalProgram, plan: RentalPlan, enough: float
) -> Deployment:
    """The planned mix, with as many machines more as it takes: first those that could have gone, then new ones."""
    spare = list(plan.spare)
    for _ in range(MOST_STARTS):
        lacks = _lacking(draft, outlook, plan.mix.active, plan.level)
        if not lacks or draft.omega(outlook.coming_rates[0]) >= enough:
            break
        if not spare:
            _start_more(draft, outlook, program, lacks)
            continue
        while spare and lacks > 0:
            number = spare.pop(0)
            plan = replace(plan, kept=plan.kept | {number})
            lacks -= next(
                sum(coming_power(outlook, one, 1)) for one in outlook.deployment.rentals if one.number == number
            )
        draft = _machines(outlook, program, plan)
    return draft.made()


def _lacking(draft: DeploymentDraft, outlook: Outlook, active: Active, level: float) -> float:
    """The power that lacks for a level with these alternates, once cores are divided; 0 if it is reached."""
    draft.active = list(active)
    rates = outlook.coming_rates[0]
    lacks = divide(draft, rates, level)
    if lacks <= _ROUNDING or (all(draft.counts) and draft.omega(rates) >= level - _ROUNDING):
        return 0.0
    return lacks


def _start_more(draft: DeploymentDraft, outlook: Outlook, program: RentalProgram, lacks: float) -> None:
    """Machines for the task that lacks most: large ones for what is needed whole, or the cheapest one."""
    rates, active = outlook.coming_rates[0], tuple(draft.active)
    missing = [need - has for need, has in zip(needs(draft.dataflow, active, rates), draft.capacity, strict=True)]
    task = max(range(len(missing)), key=lambda at: (not draft.counts[at], missing[at]))
    fitting = [one for one in outlook.classes if draft.dataflow.tasks[task].tags <= one.tags]
    small = min(fitting, key=lambda one: (one.price, -one.power))
    cheap = [one for one in fitting if one.price / one.power <= small.price / small.power + _ROUNDING]
    while True:
        chosen = max((one for one in cheap if one.power <= lacks), key=lambda one: one.power, default=small)
        _start(draft, outlook, program, chosen)
        lacks -= chosen.power
        if lacks < small.power:
            break


def _least(outlook: Outlook, active: Active, level: float) -> float:
    """The power without which a level cannot be reached even by the kindest division."""
    return 0.95 * level * sum(needs(outlook.dataflow, active, outlook.coming_rates[0]))


def _highest(outlook: Outlook) -> Mapping[str, float]:
    """The highest predicted rate of each source."""
    return {name: max(rates[name] for rates in outlook.coming_rates) for name in outlook.coming_rates[0]}
