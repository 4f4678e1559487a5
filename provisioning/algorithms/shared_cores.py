"""Where all tasks share all cores of all machines: how they are reckoned, and two algorithms to compare with.

`reactive` goes by thresholds on the load that was seen, and knows neither prices nor predictions. `look_ahead` is
PLAStiCC with machines in place of cores: it plans from one cross-over to the next, as where a core works for one task.
"""

import math
from collections import Counter
from collections.abc import Sequence

from provisioning.deployment import Deployment, Outlook
from provisioning.expectations import (
    coming_power,
    deployment_after,
    highest_rates,
    need_of,
    orderable,
    power_of,
    seen_performance,
    without_given_up,
)
from provisioning.figures import Active, MachineClass
from provisioning.horizon.mixes import Mix, mixes

_CROWDED = 0.7
"""The part of all power from which on more is needed; `ring.scale` has the same thresholds."""
_SPARE = 0.4
"""The part of the power that is left which may be taken when one machine goes."""
_MOST_PLANNED = 400


def reactive(outlook: Outlook) -> Deployment:
    """What runs, with other alternates if too much or too little is worked off, and one machine more or less by load.

    A machine is started from 70 % of all power on, and one is stopped if no more than 40 % of the rest is taken.
    """
    outlook = without_given_up(outlook)
    rentals, rates = outlook.deployment.rentals, outlook.rates
    ready = [one for one in rentals if one.ready is not None]
    power = {one.number: outlook.speeds.get(one.number, one.machine_class.speed) for one in ready}
    power = {one.number: power[one.number] * one.machine_class.cores for one in ready}
    there = sum(power.values())
    active = _fitting(outlook, there)
    load = min(there, need_of(outlook, active, rates))
    offer = _offer(outlook)
    if load >= _CROWDED * there and len(ready) == len(rentals) and offer:
        return deployment_after(outlook, active, rentals, [offer])
    removable = (one for one in sorted(ready, key=lambda one: -one.since) if one.number not in outlook.permanent)
    spare = next((one for one in removable if load <= _SPARE * (there - power[one.number])), None)
    return deployment_after(outlook, active, [one for one in rentals if one is not spare], [])


def _fitting(outlook: Outlook, power: float) -> Active:
    """What runs if it is enough and nothing better fits; else the best that fits, or the cheapest."""
    goal, active = outlook.goal, outlook.deployment.active
    need = {mix: need_of(outlook, mix.active, outlook.rates) for mix in mixes(outlook.dataflow, outlook.rates, active)}
    overloaded = need_of(outlook, active, outlook.rates) * (goal.omega - goal.tolerance) > power
    share = goal.omega if overloaded else goal.omega + goal.tolerance
    fitting = [mix for mix in need if need[mix] * share <= power]
    if not fitting:
        return min(need, key=need.__getitem__).active if overloaded else active
    best = max(fitting, key=lambda mix: (mix.gamma, -need[mix]))
    return best.active if overloaded or best.gamma > outlook.dataflow.gamma(active) + 1e-9 else active


def _offer(outlook: Outlook, starts: Sequence[MachineClass] = ()) -> MachineClass | None:
    """The class with the lowest price for its power that may have one more machine, besides those to start."""
    counts = Counter(one.name for one in (*(rental.machine_class for rental in outlook.deployment.rentals), *starts))
    free = (one for one in orderable(outlook) if one.most is None or counts[one.name] < one.most)
    return min(free, key=lambda one: (round(one.price / one.power, 9), one.power), default=None)


class _SlidingPlan:
    """The machines and mixes as planned so far, over all predicted intervals."""

    def __init__(self, outlook: Outlook) -> None:
        self.outlook = outlook
        self.choice = sorted(
            mixes(outlook.dataflow, highest_rates(outlook), outlook.deployment.active), key=lambda mix: -mix.cores
        )
        self.last = len(outlook.coming_rates) - 1
        now = next(mix for mix in self.choice if mix.active == outlook.deployment.active)
        self.mixes = [now] * (self.last + 1)
        self.power = power_of(outlook, outlook.deployment.rentals, self.last + 1)
        self.starts: list[MachineClass] = []
        self.stopped: set[int] = set()

    def shares(self, first: int, power: Sequence[float], mix: Mix | None = None) -> list[float]:
        """What there is for what is needed at each interval from one on; more than 1 if there is more."""
        needed = (
            need_of(self.outlook, (mix or self.mixes[step]).active, self.outlook.coming_rates[step])
            for step in range(first, self.last + 1)
        )
        return [has / need if need > 0 else 1.0 for has, need in zip(power[first:], needed, strict=True)]

    def good_until(self, over: int) -> int | None:
        """The last interval up to which neither too little nor too much is worked off on average."""
        shares, good = self.shares(over, self.power), None
        goal = self.outlook.goal
        for step in range(over, self.last + 1):
            part = shares[: step + 1 - over]
            # What can be worked off is no more than all, but there may be more power than for that.
            mean, least = sum(min(1.0, share) for share in part) / len(part), min(part)
            if not self.outlook.below(mean) and min(mean if goal.omega + goal.tolerance <= 1 else least, least) < (
                goal.omega + goal.tolerance
            ):
                good = step
        return good

    def enough(self, over: int, power: Sequence[float], mix: Mix | None = None) -> bool:
        """Whether the throughput is reached from an interval on."""
        shares = self.shares(over, power, mix)
        return sum(min(1.0, share) for share in shares) / len(shares) >= self.outlook.goal.omega

    def step_up(self, over: int) -> bool:
        """Take a cheaper mix or a machine more, whichever costs less profit; whether there was one."""
        outlook, mix = self.outlook, self.mixes[over]
        cheaper = next((one for one in self.choice if one.cores < mix.cores - 1e-9), None)
        offer = _offer(outlook, self.starts)
        lost = (mix.gamma - cheaper.gamma) / outlook.goal.hours if cheaper else math.inf
        if offer is None or lost <= outlook.goal.sigma(outlook.dataflow) * offer.price:
            if cheaper is None:
                return False
            self.mixes[over:] = [cheaper] * (self.last + 1 - over)
            return True
        lead = math.ceil(offer.start_seconds / outlook.interval)
        power = offer.power * seen_performance(outlook).get(offer.name, 1.0)
        for step in range(max(over, lead), self.last + 1):
            self.power[step] += power
        # What is needed later is planned again at the next interval.
        if over <= lead:
            self.starts.append(offer)
        return max(over, lead) <= self.last

    def step_down(self, over: int) -> bool:
        """Take a better mix that fits, or let a machine go whose hour ends; whether there was one."""
        mix = self.mixes[over]
        better = (one for one in reversed(self.choice) if one.gamma > mix.gamma + 1e-9)
        for one in better:
            if self.enough(over, self.power, one):
                self.mixes[over:] = [one] * (self.last + 1 - over)
                return True
        outlook = self.outlook
        for rental in outlook.deployment.rentals:
            ends = rental.paid_left(outlook.now) <= (over + 1) * outlook.interval
            if not ends or rental.number in self.stopped | outlook.permanent or rental.ready is None:
                continue
            without = [*self.power]
            for step, power in enumerate(coming_power(outlook, rental, self.last + 1)):
                without[step] -= power * (step >= over)
            if self.enough(over, without):
                self.power = without
                if over == 0:
                    self.stopped.add(rental.number)
                return True
        return False


def look_ahead(outlook: Outlook) -> Deployment:
    """What runs, with what is due now by a plan from one cross-over to the next."""
    outlook = without_given_up(outlook)
    plan = _SlidingPlan(outlook)
    over, up = 0, set[int]()
    for _ in range(_MOST_PLANNED):
        good = plan.good_until(over)
        if good == plan.last:
            break
        over = over if good is None else max(over, good)
        if not plan.enough(over, plan.power):
            up.add(over)
            changed = plan.step_up(over)
        else:
            # After a step up, a step down would only undo it.
            changed = over not in up and plan.step_down(over)
        if not changed:
            if over == plan.last:
                break
            over += 1
    kept = [one for one in outlook.deployment.rentals if one.number not in plan.stopped]
    return deployment_after(outlook, plan.mixes[0].active, kept, plan.starts)
