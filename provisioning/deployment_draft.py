"""A deployment while it is made: cores are put on machines and taken away, and each task's capacity is kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from provisioning.dataflow_figures import DataflowFigures
from provisioning.deployment import Deployment
from provisioning.machine_class import MachineClass, Rental
from provisioning.throughput import NO_LIMITS, Limits, ideal_rates, mean_share, served


class DeploymentDraft:
    """A deployment that changes, with the speed at which each machine is reckoned."""

    def __init__(
        self,
        dataflow: DataflowFigures,
        deployment: Deployment,
        speeds: Mapping[int, float] | None = None,
        now: float = 0.0,
    ) -> None:
        """Begin with what runs."""
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
            found = ideal_rates(self.dataflow, active, rates)
            given = (rate * self.dataflow.alternate(at, active).selectivity for at, rate in enumerate(found))
            self._ideal = active, rates, found, max(given, default=0.0)
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
