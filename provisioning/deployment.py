"""Deployments: the active alternates, the rented machines, and whose events each core works on.

A draft is a deployment while it is made: cores are put on machines and taken away, and each task's capacity is kept. An
outlook is what an algorithm knows at the start of an interval, of now, before and after. Predictions are clamped where
they enter: no rate is below 0, and no machine slower than a tenth of its rated speed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from provisioning.figures import (
    NO_LIMITS,
    Active,
    DataflowFigures,
    Limits,
    MachineClass,
    ProfitGoal,
    Rental,
    ideal_rates,
    mean_share,
    served,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What runs where. A core works for one task alone."""

    active: Active
    rentals: tuple[Rental, ...] = ()
    cores: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """By the number of the rental, how many of its cores work for which task."""
    rented: int = 0
    """How many rentals there have been: the number of the next one."""

    def capacity(self, dataflow: DataflowFigures, speeds: Mapping[int, float]) -> list[float]:
        """The reference cores of each task, if the cores of a rental have this speed now; rated where it is unknown."""
        capacity = [0.0] * len(dataflow.tasks)
        for rental in self.rentals:
            speed = speeds.get(rental.number, rental.machine_class.speed)
            for task, count in self.cores.get(rental.number, {}).items():
                capacity[task] += speed * count
        return capacity

    def limits(self, dataflow: DataflowFigures) -> Limits:
        """What the network lets through. Instances on one machine need none, and they are preferred."""
        if all(rental.machine_class.bandwidth == float("inf") for rental in self.rentals):
            return NO_LIMITS
        power = [self._shares(task) for task in range(len(dataflow.tasks))]
        width = {rental.number: rental.machine_class.bandwidth for rental in self.rentals}
        limits: dict[tuple[int, int], float] = {}
        for at, parents in enumerate(dataflow.parents):
            for parent in parents:
                local = sum(min(share, power[at].get(number, 0.0)) for number, share in power[parent].items())
                if (crossing := 1.0 - local) > 1e-9:  # noqa: PLR2004  rounding
                    limits[parent, at] = sum(width[number] for number in power[parent]) / (
                        dataflow.event_bytes * crossing
                    )
        return limits

    def cost(self, until: float) -> float:
        """What the machines that are rented now cost if all end then."""
        return sum(rental.cost(until) for rental in self.rentals)

    def price(self) -> float:
        """What the machines cost by the hour."""
        return sum(rental.machine_class.price for rental in self.rentals)

    def _shares(self, task: int) -> dict[int, float]:
        """Which share of a task's work is done on which rental."""
        power = {
            rental.number: count * rental.machine_class.speed
            for rental in self.rentals
            if (count := self.cores.get(rental.number, {}).get(task, 0))
        }
        total = sum(power.values())
        return {number: cores / total for number, cores in power.items()}


class DeploymentDraft:
    """A deployment that changes, with the speed at which each machine is reckoned."""

    def __init__(
        self,
        dataflow: DataflowFigures,
        deployment: Deployment,
        speeds: Mapping[int, float] | None = None,
        now: float = 0.0,
    ) -> None:
        self.dataflow = dataflow
        self.now = now
        self.active = list(deployment.active)
        self.rentals = {rental.number: rental for rental in deployment.rentals}
        self.cores = {number: dict(deployment.cores.get(number, {})) for number in self.rentals}
        self.speeds = {
            number: (speeds or {}).get(number, rental.machine_class.speed) for number, rental in self.rentals.items()
        }
        self.capacity = deployment.capacity(dataflow, self.speeds)
        self.counts = [0] * len(dataflow.tasks)
        self.places: list[dict[int, int]] = [{} for _ in dataflow.tasks]
        """By task, on which machines how many cores work for it."""
        self._ideal: tuple[tuple[int, ...], Mapping[str, float], list[float], float] | None = None
        """For alternates and rates: what reaches each task ideally, and the most that one of them gives."""
        self.open: dict[int, int] = {}
        """The free cores of each rental that has some."""
        for number, tasks in self.cores.items():
            for task, count in tasks.items():
                self.counts[task] += count
                self.places[task][number] = count
            self._set_free(number, self.rentals[number].machine_class.cores - sum(tasks.values()))
        self._narrowest = min(
            (rental.machine_class.bandwidth for rental in self.rentals.values()), default=float("inf")
        )
        self._next = max(deployment.rented, *(number + 1 for number in self.rentals), 0)

    def rent(self, machine_class: MachineClass, speed: float | None = None) -> int:
        """The number of another machine, which is reckoned as rated if its speed is not known better."""
        number = self._next
        self._next += 1
        self.rentals[number] = Rental(number=number, machine_class=machine_class, since=self.now)
        self.cores[number] = {}
        self.speeds[number] = machine_class.speed if speed is None else speed
        self._narrowest = min(self._narrowest, machine_class.bandwidth)
        self._set_free(number, machine_class.cores)
        return number

    def release(self, number: int) -> None:
        """End a rental, with what runs on it."""
        for task, count in list(self.cores[number].items()):
            self.take(task, number, count)
        for book in (self.rentals, self.cores, self.speeds, self.open):
            book.pop(number, None)

    def put(self, task: int, number: int, count: int = 1) -> None:
        """Have free cores of a machine work for a task."""
        self._set_free(number, self.open.get(number, 0) - count)
        self.cores[number][task] = self.cores[number].get(task, 0) + count
        self.places[task][number] = self.cores[number][task]
        self.counts[task] += count
        self.capacity[task] += count * self.speeds[number]

    def take(self, task: int, number: int, count: int = 1) -> None:
        """Free cores of a machine that work for a task."""
        self._set_free(number, self.open.get(number, 0) + count)
        left = self.cores[number][task] - count
        if left:
            self.cores[number][task] = self.places[task][number] = left
        else:
            del self.cores[number][task], self.places[task][number]
        self.counts[task] -= count
        # Summed anew when nothing is left, so that rounding does not add up to a core that is not there.
        self.capacity[task] = self.capacity[task] - count * self.speeds[number] if self.counts[task] else 0.0

    def room(self, task: int) -> Iterator[int]:
        """The machines with a free core where a task may run, those where it or its neighbours run first."""
        tags = self.dataflow.tasks[task].tags
        fitting = [number for number in self.open if tags <= self.rentals[number].machine_class.tags]
        if len(fitting) > 1:
            near = {task, *self.dataflow.parents[task], *self.dataflow.children[task]}
            fitting.sort(key=lambda number: (not near & self.cores[number].keys(), -self.speeds[number], number))
        return iter(fitting)

    def homes(self, task: int) -> list[int]:
        """The machines where a task runs."""
        return list(self.places[task])

    def omega(self, rates: Mapping[str, float]) -> float:
        """The relative throughput to expect."""
        return self.flows(rates)[0]

    def flows(self, rates: Mapping[str, float]) -> tuple[float, Sequence[float], Sequence[float]]:
        """The relative throughput to expect, what reaches each task and what it does."""
        active = tuple(self.active)
        if self._ideal is None or self._ideal[0] != active or self._ideal[1] is not rates:
            reached = ideal_rates(self.dataflow, active, rates)
            given = (rate * self.dataflow.alternate(at, active).selectivity for at, rate in enumerate(reached))
            self._ideal = active, rates, reached, max(given, default=0.0)
        ideal = self._ideal[2]
        taken, done = served(self.dataflow, active, rates, self.capacity, self._limits(active, self._ideal[3]))
        return mean_share(self.dataflow, done, ideal), taken, done

    def idle(self) -> list[int]:
        """The machines on which nothing runs."""
        return [number for number, tasks in self.cores.items() if not tasks]

    def end_idle(self, within: float) -> None:
        """End machines on which nothing runs, if their paid hour ends within so many seconds; before, they are free."""
        for number in self.idle():
            if self.rentals[number].paid_left(self.now) <= within:
                self.release(number)

    def made(self) -> Deployment:
        """What the draft has become."""
        return Deployment(
            active=tuple(self.active),
            rentals=tuple(self.rentals.values()),
            cores={number: dict(tasks) for number, tasks in self.cores.items() if tasks},
            rented=self._next,
        )

    def _set_free(self, number: int, free: int) -> None:
        if free < 0:
            raise ValueError(f"rental {number} has no such core")
        if free:
            self.open[number] = free
        else:
            self.open.pop(number, None)

    def _limits(self, active: tuple[int, ...], most: float) -> Limits:
        """What the network lets through, reckoned only if the narrowest machine alone would not do."""
        if most * self.dataflow.event_bytes <= self._narrowest:
            return NO_LIMITS
        return Deployment(active=active, rentals=tuple(self.rentals.values()), cores=self.cores).limits(self.dataflow)


def largest(classes: Iterable[MachineClass], tags: frozenset[str]) -> MachineClass:
    """The class of most power that offers the tags."""
    fitting = [one for one in classes if tags <= one.tags]
    if not fitting:
        raise ValueError(f"no class of machines offers {', '.join(sorted(tags)) or 'a core'}; add one")
    return max(fitting, key=lambda one: (one.power, one.cores, -one.price))


Rates = Mapping[str, float]
"""Events a second at each task that takes from outside."""
Speeds = Mapping[int, float]
"""The speed of a core of each rental, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known when the next interval begins."""

    dataflow: DataflowFigures
    goal: ProfitGoal
    classes: tuple[MachineClass, ...]
    deployment: Deployment
    now: float
    step: int
    """Counts the intervals."""
    interval: float
    """Seconds."""
    omega: float
    """The relative throughput of the last interval."""
    mean_omega: float
    """The mean relative throughput of all intervals before."""
    past_rates: tuple[Rates, ...]
    """What was seen in the last intervals, the newest last."""
    past_speeds: tuple[Speeds, ...]
    coming_rates: tuple[Rates, ...]
    """What is predicted for the coming intervals, the next first."""
    coming_speeds: tuple[Speeds, ...]
    shared: bool = False
    """Whether all tasks share all cores, as where a batch runs one after the other; else a core works for one alone."""
    permanent: frozenset[int] = frozenset()
    """The numbers of machines that cost nothing here and stay: others own them."""
    avoided_classes: frozenset[str] = frozenset()
    """The classes of which a machine did not come a while ago; others are ordered, where there are others."""

    @property
    def rates(self) -> Rates:
        """The rates that were seen last."""
        return self.past_rates[-1]

    @property
    def speeds(self) -> Speeds:
        """The speeds that were seen last."""
        return self.past_speeds[-1]

    def below(self, omega: float) -> bool:
        """Whether a relative throughput is too low, tolerance considered."""
        return omega <= self.goal.omega - self.goal.tolerance

    def above(self, omega: float) -> bool:
        """Whether a relative throughput is higher than needed, tolerance considered."""
        return omega >= self.goal.omega + self.goal.tolerance


Adaptation = Callable[[Outlook], Deployment]
"""An algorithm at run time: the deployment for the next interval."""


def unchanged(outlook: Outlook) -> Deployment:
    """What runs, whatever comes: a static deployment."""
    return outlook.deployment
