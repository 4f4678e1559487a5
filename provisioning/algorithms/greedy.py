"""Greedy deployment: the best ratios of value to cost, then a core for the bottleneck until throughput suffices.

Machines are of the largest class, and filled one after the other. The centralised variant considers the work below an
alternate, and repacks; the sharded one does neither.
"""

from collections.abc import Iterable

from provisioning.algorithms.alternate_costs import selected
from provisioning.algorithms.repack import repacked
from provisioning.dataflow_figures import DataflowFigures
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft, largest
from provisioning.machine_class import MachineClass
from provisioning.outlook import Rates
from provisioning.profit import ProfitGoal
from provisioning.throughput import local_shares, needs

ENOUGH = 1e-9
"""Rounding."""
MOST_STEPS = 100_000


def deployed(
    dataflow: DataflowFigures,
    rates: Rates,
    classes: tuple[MachineClass, ...],
    goal: ProfitGoal,
    *,
    central: bool,
) -> Deployment:
    """A deployment on rated machines, for steady rates."""
    draft = DeploymentDraft(dataflow, Deployment(active=selected(dataflow, central=central)))
    grow(draft, rates, classes, goal.omega)
    if central:
        repacked(draft, rates, classes, goal.omega)
    return draft.made()


def grow(draft: DeploymentDraft, rates: Rates, classes: tuple[MachineClass, ...], target: float) -> None:
    """Give cores to bottlenecks until the relative throughput is reached."""
    dataflow = draft.dataflow
    for task in depth_first(dataflow):
        if not draft.counts[task]:
            add_core(draft, task, classes)
    # One core after the other would end there as well.
    for task, need in enumerate(needs(dataflow, tuple(draft.active), rates)):
        missing = need * target - draft.capacity[task]
        fitting = largest(classes, dataflow.tasks[task].tags)
        for _ in range(int(missing / fitting.speed)):
            add_core(draft, task, classes)
    for _ in range(MOST_STEPS):
        omega, taken, done = draft.flows(rates)
        if omega >= target - ENOUGH:
            return
        shares = local_shares(taken, done)
        bottleneck = min(range(len(shares)), key=shares.__getitem__)
        if shares[bottleneck] >= 1.0:
            return  # The network is what is short, which no core mends.
        add_core(draft, bottleneck, classes)


def add_core(draft: DeploymentDraft, task: int, classes: Iterable[MachineClass]) -> None:
    """One more core for a task: a free one, or one of a new machine of the largest class."""
    number = next(draft.room(task), None)
    if number is None:
        number = draft.rent(largest(classes, draft.dataflow.tasks[task].tags))
    draft.put(task, number)


def depth_first(dataflow: DataflowFigures) -> list[int]:
    """The tasks from the sources on, neighbours together where that goes, so that they share machines."""
    order: dict[int, None] = {}
    stack = [at for at, parents in reversed(tuple(enumerate(dataflow.parents))) if not parents]
    while stack:
        at = stack.pop()
        if at not in order:
            order[at] = None
            stack += reversed(dataflow.children[at])
    return list(order)
