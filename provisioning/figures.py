"""Figures: of machines, of a dynamic dataflow, and of the throughput and profit that come of both.

Rates are events a second, costs are seconds of a reference core, which has speed 1. Records ask as they are made
whether their numbers can be reckoned with. A rental is paid by started hours from the moment it is ordered.

Relative throughput compares what is served at the sinks with what would be with plenty of cores. The thesis compares a
sink with what reaches it, so that one that is starved from above counts as fully served.

Profit is Theta = Gamma - sigma * (cost - C_max) - Gamma_max, the thesis' form with its sign put right: it is 0 at both
break-even points that a user names; its "+ 1" would make that 2. Gamma is the mean over the tasks that have a choice:
over all tasks, as the thesis writes it, Theta could not reach its figures.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Self

LARGEST = 1e12
"""What no figure exceeds, so that sums and products of them stay numbers."""
SMALLEST = 1e-9
"""What no figure is below that others are divided by."""


def wrong_figure(name: str, figure: object, *, least: float = 0.0, most: float = LARGEST) -> tuple[str, ...]:
    """What is wrong with a figure, and what would be right; nothing if it is right.

    >>> wrong_figure("cores", -1)
    ('cores is -1; give a number from 0 to 1e+12',)
    """
    is_number = isinstance(figure, Real) and not isinstance(figure, bool)
    # Written so that nan is wrong.
    if is_number and least <= figure <= most:  # type: ignore[operator]  # mypy does not follow the name
        return ()
    said = (
        f"a number of {figure.bit_length()} bits" if isinstance(figure, int) and abs(figure) > LARGEST else repr(figure)
    )
    return (f"{name} is {said}; give a number from {least:g} to {most:g}",)


AMOUNT = (0.0, LARGEST)
"""The least and the most of a figure that has no other limits."""


def _wrong(record: object, limits: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """What is wrong with the figures of a record, each of which has a least and a most."""
    for name, (least, most) in limits.items():
        yield from wrong_figure(name, getattr(record, name), least=least, most=most)


def wrong_rates(rates: Mapping[str, float], *, least: float = 0.0) -> Iterator[str]:
    """What is wrong with the rates at tasks."""
    for name, rate in rates.items():
        yield from wrong_figure(f"the rate of {name}", rate, least=least)


def refuse(what: str, wrong: Iterable[str]) -> None:
    """Raise `ValueError` with all that is wrong with something, if anything is."""
    if problems := "; ".join(wrong):
        raise ValueError(f"{what}: {problems}")


HOUR = 3600.0
_WAITS = 4.0
"""How many times the start of a machine may take what it should."""
_LEAST_WAIT = 60.0
AVOIDED_SECONDS = HOUR
"""How long a class is avoided after a machine of it was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineClass:
    """One kind of machine that can be rented. Raises `ValueError` for figures that no machine can have."""

    name: str
    cores: int
    speed: float = 1.0
    """How fast a core is, by the reference core."""
    price: float
    """For a started hour."""
    bandwidth: float = math.inf
    """Bytes a second to and from other machines."""
    start_seconds: float = 0.0
    """How long a machine takes from the order until it works."""
    tags: frozenset[str] = frozenset()
    """What it offers."""
    memory_gb: float | None = None
    """None if it is not known."""
    image: str = ""
    """The image that its hosts are made from; empty if they are of none."""
    least: int = 0
    """How many there always are."""
    most: int | None = None
    """How many there may be; any number if it is None."""

    def __post_init__(self) -> None:
        """Refuse figures that no machine can have; its network alone may be without a limit."""
        limits = {"cores": (1, LARGEST), "speed": (SMALLEST, LARGEST), "price": AMOUNT, "start_seconds": AMOUNT}
        refuse(f"no machine class {self.name!r} can be", _wrong(self, limits | {"bandwidth": (SMALLEST, math.inf)}))

    @property
    def power(self) -> float:
        """All its cores, as reference cores."""
        return self.cores * self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """A machine since it was ordered."""

    number: int
    """Never used again."""
    machine_class: MachineClass
    since: float = 0.0
    name: str = ""
    """The machine's; empty if there is none, as in a simulation."""
    why: str = ""
    """Why it was ordered."""
    ready: float | None = None
    """When it came; None if it has not."""
    speed: float | None = None
    """How fast its cores are, once they were measured; else they are taken to be as fast as those of its class."""

    @property
    def ready_at(self) -> float:
        """The moment from which it works, as far as that is known."""
        return self.since + self.machine_class.start_seconds if self.ready is None else self.ready

    @property
    def power(self) -> float:
        """All its cores, as reference cores."""
        return self.machine_class.power if self.speed is None else self.machine_class.cores * self.speed

    def expected_at(self, now: float) -> float:
        """The moment from which it is reckoned with: one that is late may take as long again."""
        late = now - self.ready_at if self.ready is None else 0.0
        return self.ready_at if late <= 0 else now + late

    def is_late(self, now: float) -> bool:
        """Whether it should work by now, and was not seen to."""
        return self.ready is None and now > self.ready_at

    def is_given_up(self, now: float) -> bool:
        """Whether it is so late that it is not waited for any longer."""
        return self.ready is None and now - self.since > max(_LEAST_WAIT, _WAITS * self.machine_class.start_seconds)

    def cost(self, until: float) -> float:
        """What it costs if it ends then: each started hour."""
        return started_hours(until - self.since) * self.machine_class.price

    def paid_left(self, now: float) -> float:
        """Seconds until another hour is to be paid; an hour that just ended leaves none."""
        return started_hours(now - self.since) * HOUR - (now - self.since)


def started_hours(seconds: float) -> int:
    """The hours that are paid for so long a time, at least one."""
    # A clock adds up in floats, so the hour has ended a little earlier or later.
    return max(1, math.ceil(seconds / HOUR - 1e-9))


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
        limits = {"cost": AMOUNT, "value": (SMALLEST, 1.0), "selectivity": AMOUNT}
        refuse("no alternate can be", _wrong(self, limits))


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
    weight: float = 1.0
    """How much its value counts beside that of other tasks."""

    @property
    def importance(self) -> float:
        """How much its value counts for all who use it."""
        return self.tenants * self.weight


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
            refuse(f"{task.name} cannot be", wrong_figure("tenants", task.tenants, least=1))
            refuse(f"{task.name} cannot be", wrong_figure("weight", task.weight, least=SMALLEST))
            number[task.name] = at
            parents.append(tuple(number[name] for name in task.inputs))
            for parent in parents[-1]:
                children[parent].append(at)
        derived = {
            "number": number,
            "parents": tuple(parents),
            "children": tuple(tuple(below) for below in children),
            "sinks": tuple(at for at, below in enumerate(children) if not below),
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
        weights = [self.tasks[at].importance for at in self.dynamic]
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
            if replace(known, tenants=task.tenants) != task:
                raise ValueError(f"{task.name} differs between two dataflows; name what differs differently")
            tenants[task.name] = tenants.get(task.name, 0) + task.tenants
    shared = tuple(replace(task, tenants=tenants[name]) for name, task in tasks.items())
    return DataflowFigures(tasks=shared, event_bytes=event_bytes or 1000.0)


def _best(task: TaskFigures) -> int:
    return min(range(len(task.alternates)), key=lambda at: (-task.alternates[at].value, task.alternates[at].cost))


Limits = Mapping[tuple[int, int], float]
"""Events a second that fit through the network from one task to another; edges that are not there have no limit."""
NO_LIMITS: Limits = {}


def ideal_rates(dataflow: DataflowFigures, active: Active, rates: Mapping[str, float]) -> list[float]:
    """Events a second that reach each task if all are served."""
    given: list[float] = []
    taken: list[float] = []
    for task, parents, choice in zip(dataflow.tasks, dataflow.parents, active, strict=True):
        rate = rates.get(task.name, 0.0)
        for parent in parents:
            rate += given[parent]
        taken.append(rate)
        given.append(rate * task.alternates[choice].selectivity)
    return taken


def needs(dataflow: DataflowFigures, active: Active, rates: Mapping[str, float]) -> list[float]:
    """The reference cores that each task takes if all events are served."""
    taken = ideal_rates(dataflow, active, rates)
    return [rate * dataflow.alternate(at, active).cost for at, rate in enumerate(taken)]


def served(
    dataflow: DataflowFigures,
    active: Active,
    rates: Mapping[str, float],
    capacity: Sequence[float],
    limits: Limits = NO_LIMITS,
) -> tuple[list[float], list[float]]:
    """Events a second that reach each task, and those that it processes, with so many reference cores for each."""
    given: list[float] = []
    taken: list[float] = []
    done: list[float] = []
    for at, (task, parents, choice) in enumerate(zip(dataflow.tasks, dataflow.parents, active, strict=True)):
        rate = rates.get(task.name, 0.0)
        for parent in parents:
            rate += min(given[parent], limits.get((parent, at), given[parent])) if limits else given[parent]
        alternate = task.alternates[choice]
        taken.append(rate)
        # Compared as cores, since a division would round what is just enough to a little less.
        did = rate if rate * alternate.cost <= capacity[at] else capacity[at] / alternate.cost
        done.append(did)
        given.append(did * alternate.selectivity)
    return taken, done


def omega(
    dataflow: DataflowFigures,
    active: Active,
    rates: Mapping[str, float],
    capacity: Sequence[float],
    limits: Limits = NO_LIMITS,
) -> float:
    """The relative throughput: the mean over sinks and tenants of what is served, of what would ideally be."""
    ideal = ideal_rates(dataflow, active, rates)
    _, done = served(dataflow, active, rates, capacity, limits)
    return mean_share(dataflow, done, ideal)


def mean_share(dataflow: DataflowFigures, done: Sequence[float], ideal: Sequence[float]) -> float:
    """The mean over sinks and tenants of what is done, of what would ideally be; a sink without events is served."""
    total = shares = 0.0
    for at in dataflow.sinks:
        tenants = dataflow.tasks[at].tenants
        total += tenants
        shares += tenants * (min(1.0, done[at] / ideal[at]) if ideal[at] > 0 else 1.0)
    return shares / total if total else 1.0


def local_shares(taken: Sequence[float], done: Sequence[float]) -> list[float]:
    """What each task does of what reaches it; the least is the bottleneck."""
    return [did / rate if rate > 0 else 1.0 for rate, did in zip(taken, done, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitGoal:
    """What shall be reached over a period."""

    omega: float = 0.8
    """The least relative throughput."""
    tolerance: float = 0.05
    """How far it may be off that."""
    hours: float = 12.0
    """The period that costs are counted over."""
    best_cost: float
    """What the best alternates may cost over the period before they are not worth it."""
    least_cost: float
    """What the worst alternates may cost."""

    def __post_init__(self) -> None:
        limits = {"omega": (SMALLEST, 1.0), "tolerance": AMOUNT, "hours": (SMALLEST, LARGEST)}
        refuse("this is no goal", _wrong(self, limits | {"best_cost": AMOUNT, "least_cost": AMOUNT}))
        if not (0 < self.omega <= 1 and 0 <= self.tolerance < self.omega and self.hours > 0):
            raise ValueError("a goal needs 0 < omega <= 1, a tolerance below omega, and some hours")
        if not 0 <= self.least_cost < self.best_cost:
            raise ValueError("the best alternates must be worth more money than the worst ones")

    @classmethod
    def of_worth(cls, dataflow: DataflowFigures, worth: float, *, omega: float, tolerance: float) -> Self:
        """The goal if the best alternates are worth so much money an hour, and others less by their value."""
        best, least = dataflow.most_gamma(), dataflow.least_gamma()
        cost = max(worth, SMALLEST)
        return cls(
            omega=omega,
            tolerance=tolerance,
            hours=1.0,
            best_cost=cost * best,
            least_cost=cost * least if least < best else 0.0,
        )

    def sigma(self, dataflow: DataflowFigures) -> float:
        """What a unit of money is worth in value; without a choice, as if all value were worth the best cost."""
        spread = dataflow.most_gamma() - dataflow.least_gamma()
        return spread / (self.best_cost - self.least_cost) if spread > 0 else 1.0 / self.best_cost

    def theta(self, dataflow: DataflowFigures, gamma: float, cost: float) -> float:
        """The profit of a mean value and the cost over the period; 0 is break-even."""
        return gamma - self.sigma(dataflow) * (cost - self.best_cost) - dataflow.most_gamma()

    def met(self, omega: float) -> bool:
        """Whether a relative throughput is enough, within the tolerance."""
        return omega >= self.omega - self.tolerance - 1e-9
