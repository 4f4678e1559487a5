"""Adapting machines to the alternates that are active: more when throughput is short, fewer when there is too much."""

from provisioning.algorithms.greedy import ENOUGH, grow
from provisioning.algorithms.repack import gather, repack_free
from provisioning.deployment_draft import DeploymentDraft
from provisioning.machine_class import HOUR
from provisioning.outlook import Outlook, Rates


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
        number = min(draft.homes(task), key=lambda each: (weight(draft, task, each), each))
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
