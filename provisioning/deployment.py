"""A deployment: the active alternates, the rented machines, and whose events each core works on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.machine_class import Rental
from provisioning.throughput import NO_LIMITS, Limits


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
        found = [0.0] * len(dataflow.tasks)
        for rental in self.rentals:
            speed = speeds.get(rental.number, rental.machine_class.speed)
            for task, count in self.cores.get(rental.number, {}).items():
                found[task] += speed * count
        return found

    def limits(self, dataflow: DataflowFigures) -> Limits:
        """What the network lets through. Instances on one machine need none, and they are preferred."""
        if all(rental.machine_class.bandwidth == float("inf") for rental in self.rentals):
            return NO_LIMITS
        power = [self._shares(task) for task in range(len(dataflow.tasks))]
        width = {rental.number: rental.machine_class.bandwidth for rental in self.rentals}
        found: dict[tuple[int, int], float] = {}
        for at, parents in enumerate(dataflow.parents):
            for parent in parents:
                local = sum(min(share, power[at].get(number, 0.0)) for number, share in power[parent].items())
                if (crossing := 1.0 - local) > 1e-9:  # noqa: PLR2004  rounding
                    found[parent, at] = sum(width[number] for number in power[parent]) / (
                        dataflow.event_bytes * crossing
                    )
        return found

    def cost(self, until: float) -> float:
        """What the machines that are rented now cost if all end then."""
        return sum(rental.cost(until) for rental in self.rentals)

    def price(self) -> float:
        """What the machines cost by the hour."""
        return sum(rental.machine_class.price for rental in self.rentals)

    def problems(self, dataflow: DataflowFigures) -> Iterator[str]:
        """Why this cannot be: a task that runs nowhere or where its tags are missing, too many cores of a machine."""
        known = {rental.number: rental.machine_class for rental in self.rentals}
        somewhere = {task for tasks in self.cores.values() for task, count in tasks.items() if count}
        for at, one in enumerate(dataflow.tasks):
            if at not in somewhere:
                yield f"{one.name} runs nowhere"
        if len(known) < len(self.rentals):
            yield "two rentals have one number"
        for number, tasks in self.cores.items():
            if number not in known:
                yield f"rental {number} has work, but is not there"
                continue
            if sum(tasks.values()) > known[number].cores or min(tasks.values(), default=0) < 0:
                yield f"rental {number} has {known[number].cores} cores, not {sum(tasks.values())}"
            for task in tasks:
                if missing := dataflow.tasks[task].tags - known[number].tags:
                    yield f"{dataflow.tasks[task].name} needs {', '.join(sorted(missing))}, which {number} lacks"

    def _shares(self, task: int) -> dict[int, float]:
        """Which share of a task's work is done on which rental."""
        power = {
            rental.number: count * rental.machine_class.speed
            for rental in self.rentals
            if (count := self.cores.get(rental.number, {}).get(task, 0))
        }
        total = sum(power.values())
        return {number: each / total for number, each in power.items()}
