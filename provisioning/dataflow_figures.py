"""A dynamic dataflow in figures: what each alternate of a task is worth, costs and gives.

Rates are events a second, costs are seconds of a reference core, which has speed 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provisioning.figures import SMALLEST, refuse, wrong_figure

Active = tuple[int, ...]
"""The number of the active alternate of each task, in the order of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternateFigures:
    """What one implementation of a task is worth, costs and gives. Raises `ValueError` for impossible figures."""

    cost: float
    """Seconds of a reference core for an event."""
    value: float = 1.0
    """The quality of its results to who wants them, above 0 and at most 1, which is the best alternate's."""
    selectivity: float = 1.0
    """Events out for an event in."""

    def __post_init__(self) -> None:
        """Refuse figures that no implementation can have."""
        wrong = [
            *wrong_figure("cost", self.cost),
            *wrong_figure("value", self.value, least=SMALLEST, most=1.0),
        ]
        refuse("no alternate can be", [*wrong, *wrong_figure("selectivity", self.selectivity)])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """A task with its alternates; one that is not dynamic has one."""

    name: str
    alternates: tuple[AlternateFigures, ...]
    inputs: tuple[str, ...] = ()
    """The tasks whose events it takes, all of them."""
    tags: frozenset[str] = frozenset()
    """What a machine must offer to run it."""
    tenants: int = 1
    """How many dataflows use it: it runs once for all of them, and its value counts for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowFigures:
    """A dynamic dataflow, or the union of several that share tasks."""

    tasks: tuple[TaskFigures, ...]
    """Each after those whose events it takes."""
    event_bytes: float = 1000.0
    """The size of an event on its way between two machines."""
    number: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The place of each task in the order, by name."""
    parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    children: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    sinks: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The tasks whose events nobody takes here: what the dataflow is for."""
    dynamic: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The tasks with a choice."""

    def __post_init__(self) -> None:
        """Derive the edges; refuse an order or figures that cannot be."""
        refuse("no dataflow can be", wrong_figure("event_bytes", self.event_bytes, least=SMALLEST))
        number: dict[str, int] = {}
        parents: list[tuple[int, ...]] = []
        children: list[list[int]] = [[] for _ in self.tasks]
        for at, task in enumerate(self.tasks):
            if unknown := [name for name in task.inputs if name not in number]:
                raise ValueError(f"{task.name} takes from {unknown[0]}, which must stand before it")
            if task.name in number:
                raise ValueError(f"{task.name} is there twice; each task needs a name of its own")
            if not task.alternates:
                raise ValueError(f"{task.name} needs an alternate; give it one")
            wrong = wrong_figure("tenants", task.tenants, least=1)
            refuse(f"{task.name} cannot be", wrong)
            number[task.name] = at
            parents.append(tuple(number[name] for name in task.inputs))
            for parent in parents[-1]:
                children[parent].append(at)
        derived = {
            "number": number,
            "parents": tuple(parents),
            "children": tuple(tuple(each) for each in children),
            "sinks": tuple(at for at, each in enumerate(children) if not each),
            "dynamic": tuple(at for at, task in enumerate(self.tasks) if len(task.alternates) > 1),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def alternate(self, at: int, active: Active) -> AlternateFigures:
        """The active alternate of a task."""
        return self.tasks[at].alternates[active[at]]

    def best(self) -> Active:
        """The alternates of the highest value, the cheaper ones of equals."""
        return tuple(_best(task) for task in self.tasks)

    def gamma(self, active: Active) -> float:
        """The mean value of the active alternates, over all tasks with a choice and all tenants; 1 without any."""
        return self._mean([self.alternate(at, active).value for at in self.dynamic])

    def most_gamma(self) -> float:
        """The mean value of the best alternates."""
        return self._mean([max(one.value for one in self.tasks[at].alternates) for at in self.dynamic])

    def least_gamma(self) -> float:
        """The mean value of the worst alternates."""
        return self._mean([min(one.value for one in self.tasks[at].alternates) for at in self.dynamic])

    def _mean(self, values: list[float]) -> float:
        weights = [self.tasks[at].tenants for at in self.dynamic]
        total = sum(weights)
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else 1.0


def union(dataflows: Iterable[DataflowFigures]) -> DataflowFigures:
    """Several dataflows as one, in which tasks of equal name are one task: its cost counts once over all tenants.

    A name stands for what a task computes, as a signature does, so equal names must come with equal figures.
    """
    tasks: dict[str, TaskFigures] = {}
    tenants: dict[str, int] = {}
    event_bytes = 0.0
    for dataflow in dataflows:
        event_bytes = max(event_bytes, dataflow.event_bytes)
        for task in dataflow.tasks:
            known = tasks.setdefault(task.name, task)
            if known is not task and (known.alternates, known.inputs, known.tags) != (
                task.alternates,
                task.inputs,
                task.tags,
            ):
                raise ValueError(f"{task.name} differs between two dataflows; name what differs differently")
            tenants[task.name] = tenants.get(task.name, 0) + task.tenants
    shared = (
        TaskFigures(
            name=task.name, alternates=task.alternates, inputs=task.inputs, tags=task.tags, tenants=tenants[name]
        )
        for name, task in tasks.items()
    )
    return DataflowFigures(tasks=tuple(shared), event_bytes=event_bytes or 1000.0)


def _best(task: TaskFigures) -> int:
    return min(range(len(task.alternates)), key=lambda at: (-task.alternates[at].value, task.alternates[at].cost))
