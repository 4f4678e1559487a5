"""Braid's own algorithm where all tasks share all cores: whole machines come and go by the plan, and no core is put.

With the machines of the plan, the best mix runs that reaches the level of the next interval, none better than was
planned for it.
"""

from provisioning.algorithms.shared_cores import (
    highest_rates,
    need_of,
    power_of,
    rented_anew,
    without_given_up,
)
from provisioning.deployment import Deployment, Outlook
from provisioning.figures import Active
from provisioning.horizon.mixes import SWITCH_COST, changed_share, mixes
from provisioning.horizon.rental_plan import RentalPlan, RentalProgram, seen_performance
from provisioning.horizon.rented import PLANNED_STEPS

_ROUNDING = 1e-9


def planned(outlook: Outlook) -> Deployment:
    """What runs, with what is due now by the plan over all predicted intervals."""
    outlook = without_given_up(outlook)
    choice = mixes(outlook.dataflow, highest_rates(outlook), outlook.deployment.active)
    program = RentalProgram(outlook, choice, PLANNED_STEPS)
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
    return rented_anew(outlook, _best(outlook, plan, power, min(level, plan.level)), kept, starts)


def _best(outlook: Outlook, plan: RentalPlan, power: float, level: float) -> Active:
    dataflow, running = outlook.dataflow, outlook.deployment.active
    reaching = [
        active
        for active in {running: None, **dict.fromkeys(plan.promising)}
        if need_of(outlook, active, outlook.coming_rates[0]) * level <= power + _ROUNDING
    ]

    def merit(active: Active) -> tuple[float, float]:
        switch = SWITCH_COST * changed_share(dataflow, running, active)
        return dataflow.gamma(active) - switch, -need_of(outlook, active, outlook.coming_rates[0])

    cheapest = min(plan.promising, key=lambda active: need_of(outlook, active, outlook.coming_rates[0]))
    return max(reaching, key=merit, default=cheapest)
