"""PLAStiCC: plans for the predicted intervals, from one cross-over to the next, and begins what must begin now.

A cross-over is the last interval up to which the deployment, as planned so far, meets the throughput by the
predictions. From there on one step up or down is planned, whichever costs least profit, and the search goes on. Plans
slide: they are made anew at each interval, so only what is due now is carried out, and machines that need time to start
are ordered before they are needed. Predictions are clamped, and the number of steps is capped.
"""

import math
from dataclasses import dataclass

from provisioning.algorithms.reaction import weight
from provisioning.algorithms.repack import gather
from provisioning.deployment import Deployment, DeploymentDraft, Outlook, Speeds
from provisioning.figures import MachineClass, ideal_rates, local_shares, mean_share, served

MOST_ACTIONS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """A step at a cross-over: another alternate of a task, or a core more or less."""

    step: int
    task: int
    alternate: int | None = None
    cores: int = 0
    home: int | None = None
    """Where a core is given back."""


def adapted(outlook: Outlook) -> Deployment:
    """What runs, with what the plan has due now."""
    actions = planned(outlook)
    draft = DeploymentDraft(outlook.dataflow, outlook.deployment, outlook.speeds, outlook.now)
    lead = math.ceil(max(one.start_seconds for one in outlook.classes) / outlook.interval)
    for action in actions:
        if action.step == 0 or (action.cores > 0 and action.step <= lead):
            _carry_out(draft, action, outlook)
    gather(draft)
    draft.end_idle(outlook.interval)
    return draft.made()


def planned(outlook: Outlook) -> list[PlannedAction]:
    """The actions of all predicted intervals, in their order."""
    draft = DeploymentDraft(outlook.dataflow, outlook.deployment, outlook.speeds, outlook.now)
    plan = _Plan(draft, outlook)
    last = len(outlook.coming_rates) - 1
    actions: list[PlannedAction] = []
    over = 0
    up: set[int] = set()
    while len(actions) < MOST_ACTIONS:
        good = next((step for step in range(last, over - 1, -1) if plan.within(over, step)), None)
        if good == last:
            break
        over = over if good is None else max(over, good)
        if plan.omega(over, last) < outlook.goal.omega:
            action = plan.step_up(over)
            up.add(over)
        else:
            # After a step up, a step down would only undo it.
            action = None if over in up else plan.step_down(over)
        if action is None:
            if over == last:
                break
            over += 1
            continue
        _carry_out(draft, action, outlook)
        plan.changed(action.task)
        actions.append(action)
    return actions


class _Plan:
    """The deployment as planned so far, seen over several intervals."""

    def __init__(self, draft: DeploymentDraft, outlook: Outlook) -> None:
        self._draft, self._outlook = draft, outlook
        self._served: dict[int, tuple[float, list[float], list[float]]] = {}
        tasks = range(len(draft.dataflow.tasks))
        self._capacity = [[self._of_task(task, speeds) for task in tasks] for speeds in outlook.coming_speeds]

    def changed(self, task: int) -> None:
        """Note that another alternate or other cores of a task are planned now."""
        self._served.clear()
        for step, speeds in enumerate(self._outlook.coming_speeds):
            self._capacity[step][task] = self._of_task(task, speeds)

    def omega(self, first: int, last: int) -> float:
        """The relative throughput over some intervals, by all that comes in them."""
        return sum(self._at(step)[0] for step in range(first, last + 1)) / (last + 1 - first)

    def within(self, first: int, last: int) -> bool:
        """Whether it is neither too low nor too high over some intervals."""
        omega = self.omega(first, last)
        return not self._outlook.below(omega) and not self._outlook.above(omega)

    def step_up(self, step: int) -> PlannedAction | None:
        """The step that gives the bottleneck a cheaper alternate or a core, whichever costs less profit."""
        shares = self._mean_shares(step)
        bottleneck = min(range(len(shares)), key=shares.__getitem__)
        if shares[bottleneck] >= 1.0:
            return None
        missing = self._needs(step)[bottleneck] * self._outlook.goal.omega - self._capacity[step][bottleneck]
        # A large gap is closed at once but for its last part.
        core = PlannedAction(step=step, task=bottleneck, cores=max(1, int(missing / 2)))
        cheaper = self._alternate(bottleneck, better=False)
        if cheaper is None or self._lost_value(bottleneck, cheaper) > self._price_of_core(bottleneck):
            return core
        return PlannedAction(step=step, task=bottleneck, alternate=cheaper)

    def step_down(self, step: int) -> PlannedAction | None:
        """A better alternate that fits, or one core less of a task that can spare it, or nothing."""
        for task in self._draft.dataflow.dynamic:
            better = self._alternate(task, better=True)
            if better is not None and self._enough_with(step, PlannedAction(step=step, task=task, alternate=better)):
                return PlannedAction(step=step, task=task, alternate=better)
        needs = self._needs(step)
        spare = sorted(range(len(needs)), key=lambda task: needs[task] - self._draft.capacity[task])
        for task in spare:
            if self._draft.counts[task] > 1:
                home = min(self._draft.homes(task), key=lambda number: weight(self._draft, task, number))
                action = PlannedAction(step=step, task=task, cores=-1, home=home)
                if self._enough_with(step, action):
                    return action
        return None

    def _at(self, step: int) -> tuple[float, list[float], list[float]]:
        if step not in self._served:
            dataflow, active, rates = self._draft.dataflow, tuple(self._draft.active), self._outlook.coming_rates[step]
            taken, done = served(dataflow, active, rates, self._capacity[step])
            omega = mean_share(dataflow, done, ideal_rates(dataflow, active, rates))
            self._served[step] = omega, taken, done
        return self._served[step]

    def _of_task(self, task: int, speeds: Speeds) -> float:
        draft = self._draft
        return sum(count * speeds.get(number, draft.speeds[number]) for number, count in draft.places[task].items())

    def _mean_shares(self, step: int) -> list[float]:
        """What each task does of what reaches it, from an interval on."""
        steps = [local_shares(*self._at(later)[1:]) for later in range(step, len(self._outlook.coming_rates))]
        return [sum(shares) / len(steps) for shares in zip(*steps, strict=True)]

    def _needs(self, step: int) -> list[float]:
        taken = self._at(step)[1]
        active = tuple(self._draft.active)
        return [rate * self._draft.dataflow.alternate(task, active).cost for task, rate in enumerate(taken)]

    def _enough_with(self, step: int, action: PlannedAction) -> bool:
        """Whether all later intervals together have the throughput after an action."""
        before = self._draft.active[action.task]
        if action.alternate is not None:
            self._draft.active[action.task] = action.alternate
        elif action.home is not None:
            self._draft.take(action.task, action.home)
        self.changed(action.task)
        enough = self.omega(step, len(self._outlook.coming_rates) - 1) >= self._outlook.goal.omega
        self._draft.active[action.task] = before
        if action.alternate is None and action.home is not None:
            self._draft.put(action.task, action.home)
        self.changed(action.task)
        return enough

    def _alternate(self, task: int, *, better: bool) -> int | None:
        """The next one: of those that cost less, the dearest; of those of more value, the least."""
        alternates = self._draft.dataflow.tasks[task].alternates
        now = alternates[self._draft.active[task]]
        if better:
            above = [at for at, one in enumerate(alternates) if one.value > now.value]
            return min(above, key=lambda at: alternates[at].value, default=None)
        below = [at for at, one in enumerate(alternates) if one.cost < now.cost]
        return max(below, key=lambda at: (alternates[at].cost, alternates[at].value), default=None)

    def _lost_value(self, task: int, alternate: int) -> float:
        """What the profit loses over an hour by another alternate."""
        dataflow = self._draft.dataflow
        changed = [*self._draft.active]
        changed[task] = alternate
        lost = dataflow.gamma(tuple(self._draft.active)) - dataflow.gamma(tuple(changed))
        return lost / self._outlook.goal.hours

    def _price_of_core(self, task: int) -> float:
        """What the profit loses over an hour by another core: nothing if one is free."""
        if next(self._draft.room(task), None) is not None:
            return 0.0
        tags = self._draft.dataflow.tasks[task].tags
        price = min(one.price for one in self._outlook.classes if tags <= one.tags)
        return self._outlook.goal.sigma(self._draft.dataflow) * price


def _carry_out(draft: DeploymentDraft, action: PlannedAction, outlook: Outlook) -> None:
    if action.alternate is not None:
        draft.active[action.task] = action.alternate
    elif action.home is not None:
        if draft.counts[action.task] > 1 and action.task in draft.cores.get(action.home, {}):
            draft.take(action.task, action.home)
    else:
        for missing in range(action.cores, 0, -1):
            number = next(draft.room(action.task), None)
            draft.put(
                action.task, draft.rent(_class_for(missing, draft, action, outlook)) if number is None else number
            )


def _class_for(missing: int, draft: DeploymentDraft, action: PlannedAction, outlook: Outlook) -> MachineClass:
    """The most cores that are all missing, at the lowest price for their power."""
    tags = draft.dataflow.tasks[action.task].tags
    fitting = [one for one in outlook.classes if tags <= one.tags]
    small = [one for one in fitting if one.cores <= missing] or [min(fitting, key=lambda one: one.price)]
    return min(small, key=lambda one: (round(one.price / one.power, 9), -one.power))
