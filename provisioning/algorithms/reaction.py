"""The reactive algorithms: alternates and machines are adapted in turns, by what was seen or by any other estimate.

Alternates are adapted to the machines that are there: cheaper ones when throughput is short, better ones else. Machines
are adapted to the alternates that are active: more when throughput is short, fewer when there is too much. The five
baselines of look-ahead are reactions to one estimate that stands for all coming intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TypeVar

from provisioning.algorithms.greedy import ENOUGH, grow
from provisioning.algorithms.repack import gather, repack_free
from provisioning.deployment import Adaptation, Deployment, DeploymentDraft, Outlook, Rates, Speeds
from provisioning.figures import HOUR, ideal_rates


def change_resources(draft: DeploymentDraft, outlook: Outlook, rates: Rates, *, central: bool) -> None:
    """The thesis' ResourceReDeploy."""
    if outlook.below(outlook.omega):
        before = set(draft.rentals)
        grow(draft, rates, outlook.classes, outlook.goal.omega)
        if central:
            repack_free(draft, outlook.classes, draft.rentals.keys() - before)
    elif outlook.above(outlook.omega):
        shrink(draft, rates, outlook.goal.omega)
        if central:
            gather(draft)
    draft.end_idle(outlook.interval)


def shrink(draft: DeploymentDraft, rates: Rates, target: float) -> None:
    """Free cores as long as the throughput allows, of the tasks that have most to spare first.

    A task that cannot spare one is not asked again, so this ends.
    """
    asked = set(range(len(draft.dataflow.tasks)))
    while asked:
        _, taken, _ = draft.flows(rates)
        spare = {
            task: draft.capacity[task] - taken[task] * draft.dataflow.alternate(task, tuple(draft.active)).cost
            for task in asked
        }
        task = max(spare, key=spare.__getitem__)
        if draft.counts[task] <= 1:
            asked.discard(task)
            continue
        number = min(draft.homes(task), key=lambda number: (weight(draft, task, number), number))
        draft.take(task, number)
        if draft.omega(rates) < target - ENOUGH:
            draft.put(task, number)
            asked.discard(task)


def weight(draft: DeploymentDraft, task: int, number: int) -> float:
    """What keeps a core of a task on a machine: the least one goes first.

    Little is left of its paid hour, few of its cores are in use, much of the task runs there, its power is dear. The
    thesis prints the share of free cores, which would spare the emptiest machines; its text means that of used ones.
    """
    machine_class = draft.rentals[number].machine_class
    used = sum(draft.cores[number].values()) / machine_class.cores
    here = draft.cores[number][task] / draft.counts[task]
    power = machine_class.cores * draft.speeds[number] / max(machine_class.price, 1e-9)
    return draft.rentals[number].paid_left(draft.now) / HOUR * used * (1.0 - here) * power


def switch_alternates(draft: DeploymentDraft, outlook: Outlook, rates: Rates) -> None:
    """The thesis' AlternateReDeploy: of each task's feasible alternates, the best ratio of value to cost that fits.

    What an alternate requires is what meets the throughput, so that it fits if that is there.
    """
    if not (outlook.below(outlook.omega) or outlook.above(outlook.omega)):
        return
    for task in draft.dataflow.dynamic:
        rate = ideal_rates(draft.dataflow, tuple(draft.active), rates)[task]
        alternates = draft.dataflow.tasks[task].alternates
        required = [one.cost * rate * outlook.goal.omega for one in alternates]
        now = required[draft.active[task]]
        if outlook.below(outlook.omega):
            feasible = [at for at, cores in enumerate(required) if cores <= now]
        else:
            feasible = [at for at, cores in enumerate(required) if cores >= now]
        feasible.sort(key=lambda at: (-alternates[at].value / max(alternates[at].cost, 1e-12), -alternates[at].value))
        fitting = (at for at in feasible if required[at] <= draft.capacity[task])
        draft.active[task] = next(fitting, draft.active[task])


RESOURCES_EVERY = 2
"""Intervals. In all others alternates are adapted, as both in one interval would undo each other."""

Estimate = Callable[[Outlook], tuple[Rates, Speeds]]
"""The rates and speeds to reckon with for the coming intervals."""


def seen(outlook: Outlook) -> tuple[Rates, Speeds]:
    """What was seen last, as if it stayed so."""
    return outlook.rates, outlook.speeds


def adapted(outlook: Outlook, *, central: bool = True, estimate: Estimate = seen) -> Deployment:
    """What runs, with other alternates or other machines."""
    rates, speeds = estimate(outlook)
    draft = DeploymentDraft(outlook.dataflow, outlook.deployment, speeds, outlook.now)
    if outlook.step % RESOURCES_EVERY == 0:
        change_resources(draft, outlook, rates, central=central)
    else:
        switch_alternates(draft, outlook, rates)
    return draft.made()


centralised: Adaptation = partial(adapted, central=True)
sharded: Adaptation = partial(adapted, central=False)


Name = TypeVar("Name", str, int)
Fold = Callable[[Sequence[float]], float]


def predicted(outlook: Outlook, *, of_rates: Fold, of_speeds: Fold) -> tuple[Rates, Speeds]:
    """One figure for each prediction."""
    return _folded(outlook.coming_rates, of_rates), _folded(outlook.coming_speeds, of_speeds)


CAF: Adaptation = partial(adapted, estimate=seen)
"""Current, after the fact: what was seen last."""
WAAF: Adaptation = partial(
    adapted, estimate=lambda outlook: (_folded(outlook.past_rates, fmean), _folded(outlook.past_speeds, fmean))
)
"""Windowed average, after the fact."""
WPA: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=fmean, of_speeds=fmean))
"""Windowed predictive average."""
WPO: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=min, of_speeds=max))
"""Windowed predictive, optimistic: the lowest rates and the highest speeds."""
WPP: Adaptation = partial(adapted, estimate=partial(predicted, of_rates=max, of_speeds=min))
"""Windowed predictive, pessimistic: the highest rates and the lowest speeds."""

BASELINES: Mapping[str, Adaptation] = {"CAF": CAF, "WAAF": WAAF, "WPA": WPA, "WPO": WPO, "WPP": WPP}


def _folded(figures: Sequence[Mapping[Name, float]], fold: Fold) -> dict[Name, float]:
    """One figure for each name that the newest have; machines come and go, so others may lack it."""
    return {name: fold([known[name] for known in figures if name in known]) for name in figures[-1]}
