"""Kinds of cores, and deployments put together from how many cores of each kind every task has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from provisioning.algorithms.repack import cheapest
from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft
from provisioning.machine_class import MachineClass

_ROUNDING = 1e-9

Counts = tuple[int, ...]
"""Cores of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreKind:
    """Cores that differ in nothing: of equal speed, on machines with equal tags."""

    speed: float
    tags: frozenset[str]
    classes: tuple[MachineClass, ...]

    @property
    def least_price(self) -> float:
        """What a core costs at least."""
        return min(one.price / one.cores for one in self.classes)

    @property
    def linear(self) -> bool:
        """Whether any number of cores costs as much a core as the cheapest ones."""
        singles = [one.price for one in self.classes if one.cores == 1]
        return bool(singles) and min(singles) <= self.least_price + _ROUNDING


def kinds_of(classes: Sequence[MachineClass]) -> tuple[CoreKind, ...]:
    """The kinds of cores that classes have."""
    keys = dict.fromkeys((one.speed, one.tags) for one in classes)
    return tuple(
        CoreKind(
            speed=speed, tags=tags, classes=tuple(one for one in classes if (one.speed, one.tags) == (speed, tags))
        )
        for speed, tags in keys
    )


def assembled(
    dataflow: DataflowFigures,
    active: Active,
    counts: Sequence[Counts],
    kinds: Sequence[CoreKind],
    order: Iterable[int] | None = None,
) -> Deployment:
    """The cheapest machines for so many cores of each task; neighbours in the order share machines."""
    draft = DeploymentDraft(dataflow, Deployment(active=active))
    tasks = range(len(counts)) if order is None else tuple(order)
    for at, kind in enumerate(kinds):
        work = [task for task in tasks for _ in range(counts[task][at])]
        begin = 0
        for machine_class in cheapest(list(kind.classes), len(work)):
            number = draft.rent(machine_class)
            for task in work[begin : begin + machine_class.cores]:
                draft.put(task, number)
            begin += machine_class.cores
    return draft.made()
