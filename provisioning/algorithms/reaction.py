"""The reactive algorithms: alternates and machines are adapted in turns, by what was seen or by any other estimate."""

from collections.abc import Callable
from functools import partial

from provisioning.algorithms.alternate_switch import switch_alternates
from provisioning.algorithms.resource_change import change_resources
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft
from provisioning.outlook import Adaptation, Outlook, Rates, Speeds

ALTERNATES_EVERY = 1
RESOURCES_EVERY = 2
"""Intervals. Where both are due machines are adapted, as both in one interval would undo each other."""

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
    elif outlook.step % ALTERNATES_EVERY == 0:
        switch_alternates(draft, outlook, rates)
    return draft.made()


centralised: Adaptation = partial(adapted, central=True)
sharded: Adaptation = partial(adapted, central=False)
