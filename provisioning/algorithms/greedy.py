"""Greedy deployment: the best ratios of value to cost, then a core for the bottleneck until throughput suffices.

Machines are of the largest class, and filled one after the other. The centralised variant considers the work below an
alternate, and repacks; the sharded one does neither. What choosing an alternate costs is its own work (sharded), or
that with the work that it causes below (centralised).
"""

from collections.abc import Callable, Iterable

from provisioning.algorithms.repack import repacked
from provisioning.deployment import Deployment, DeploymentDraft, Rates, largest
from provisioning.figures import Active, DataflowFigures, MachineClass, ProfitGoal, local_shares, needs


def selected(dataflow: DataflowFigures, *, central: bool) -> Active:
    """The alternate with the highest ratio of value to cost of each task; of equals, the last."""

    def best(at: int, under: float) -> int:
        causing = under if central else 0.0
        costs = (max(one.cost + one.selectivity * causing, 1e-12) for one in dataflow.tasks[at].alternates)
        ratios = [one.value / cost for one, cost in zip(dataflow.tasks[at].alternates, costs, strict=True)]
        return max(range(len(ratios)), key=lambda at: (ratios[at], at))

    return chosen_upwards(dataflow, best)[0]


def causes(dataflow: DataflowFigures, active: Active) -> list[float]:
    """The reference cores that an event a second into each task takes there and below, with these alternates."""
    return chosen_upwards(dataflow, lambda at, _under: active[at])[1]


def chosen_upwards(
    dataflow: DataflowFigures, best: Callable[[int, float], int], price: float = 1.0
) -> tuple[Active, list[float]]:
    """The alternates chosen from the last task up, and what an event a second into each task causes with them.

    `best` is given a task, and what an event that leaves it causes below it. `price` is that of a reference core.
    """
    active, caused = [0] * len(dataflow.tasks), [0.0] * len(dataflow.tasks)
    for at in reversed(range(len(dataflow.tasks))):
        under = 0.0
        for child in dataflow.children[at]:
            under += caused[child]
        active[at] = best(at, under)
        one = dataflow.tasks[at].alternates[active[at]]
        caused[at] = price * one.cost + one.selectivity * under
    return tuple(active), caused


ENOUGH = 1e-9
"""Rounding."""
MOST_STEPS = 100_000


def deployed(
    dataflow: DataflowFigures, rates: Rates, classes: tuple[MachineClass, ...], goal: ProfitGoal, *, central: bool
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
