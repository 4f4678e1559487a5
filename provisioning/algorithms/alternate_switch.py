"""Adapting alternates to the machines that are there: cheaper ones when throughput is short, better ones else."""

from provisioning.deployment_draft import DeploymentDraft
from provisioning.outlook import Outlook, Rates
from provisioning.throughput import ideal_rates


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
            feasible = [at for at, each in enumerate(required) if each <= now]
        else:
            feasible = [at for at, each in enumerate(required) if each >= now]
        feasible.sort(key=lambda at: (-alternates[at].value / max(alternates[at].cost, 1e-12), -alternates[at].value))
        fitting = (at for at in feasible if required[at] <= draft.capacity[task])
        draft.active[task] = next(fitting, draft.active[task])
