"""A simulation: intervals one after the other, in each of which an algorithm adapts and events flow through queues.

What is not processed in an interval waits for the next, so no event is lost: what came in is done or waits. Relative
throughput is what left at the sinks of what arrived in the interval, at most 1, so that a backlog, once caught up with,
is no fault for ever; `omega_of_all` counts the backlog to what should have left, as the thesis writes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioning.dataflow_figures import DataflowFigures
from provisioning.deployment import Deployment
from provisioning.machine_class import MachineClass, Rental
from provisioning.outlook import Adaptation, Outlook, Rates, Speeds
from provisioning.profit import ProfitGoal
from provisioning.simulator.machine_traces import performance
from provisioning.simulator.predictions import Oracle
from provisioning.simulator.rates import Series
from provisioning.throughput import ideal_rates, mean_share

_WINDOW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an algorithm is tried on."""

    dataflow: DataflowFigures
    goal: ProfitGoal
    classes: tuple[MachineClass, ...]
    rates: Mapping[str, Series]
    """Of each task that takes from outside, for each interval."""
    machines: int | None = None
    """The seed of how machines vary; None if they are as rated."""
    oracle: Oracle = field(default_factory=Oracle)
    interval: float = 300.0

    @property
    def steps(self) -> int:
        """The number of intervals."""
        return min(len(series) for series in self.rates.values())

    def rates_at(self, step: int) -> Rates:
        """What comes in an interval."""
        return {name: series[step] for name, series in self.rates.items()}

    def trace(self, rental: Rental) -> Series:
        """The speed of a core of a machine, for each interval."""
        rated = rental.machine_class.speed
        if self.machines is None:
            return (rated,) * self.steps
        return tuple(rated * part for part in performance(self.machines, rental.number, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedInterval:
    """What came of one interval."""

    omega: float
    omega_of_all: float
    gamma: float
    cores: int
    price: float
    """Of the machines that are rented, by the hour."""
    waiting: float
    """Events in queues at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What came of an algorithm."""

    goal: ProfitGoal
    dataflow: DataflowFigures
    intervals: tuple[SimulatedInterval, ...]
    cost: float
    arrived: Mapping[str, float]
    """Events that came to each task."""
    done: Mapping[str, float]
    queued: Mapping[str, float]

    @property
    def omega(self) -> float:
        """The mean relative throughput."""
        return sum(one.omega for one in self.intervals) / len(self.intervals)

    @property
    def omega_of_all(self) -> float:
        """The mean relative throughput, where a backlog should have left as well."""
        return sum(one.omega_of_all for one in self.intervals) / len(self.intervals)

    @property
    def gamma(self) -> float:
        """The mean value."""
        return sum(one.gamma for one in self.intervals) / len(self.intervals)

    @property
    def theta(self) -> float:
        """The profit."""
        return self.goal.theta(self.dataflow, self.gamma, self.cost)

    @property
    def kept(self) -> float:
        """The share of intervals whose relative throughput is no lower than the goal less its tolerance."""
        return sum(self.goal.met(one.omega) for one in self.intervals) / len(self.intervals)

    @property
    def deviations(self) -> int:
        """The intervals whose relative throughput is lower or higher than the goal by more than its tolerance."""
        return sum(abs(one.omega - self.goal.omega) > self.goal.tolerance for one in self.intervals)


def simulate(world: World, deployment: Deployment, adaptation: Adaptation) -> SimulatedRun:
    """Run an algorithm from a deployment on, to the end of the rates."""
    state = _State(world, deployment)
    for step in range(world.steps):
        if step:
            state.change(adaptation(state.outlook(step)), step)
        state.run(step)
    return state.result()


class _State:
    """A world at some interval."""

    def __init__(self, world: World, deployment: Deployment) -> None:
        self._world, self._deployment = world, deployment
        # The first machines have been started before.
        self._traces = {one.number: world.trace(one) for one in deployment.rentals}
        self._first = frozenset(self._traces)
        tasks = len(world.dataflow.tasks)
        self._queues, self._arrived, self._done = [0.0] * tasks, [0.0] * tasks, [0.0] * tasks
        self._intervals: list[SimulatedInterval] = []
        self._ended = 0.0
        self._omega = 1.0

    def outlook(self, step: int) -> Outlook:
        """What can be known before an interval."""
        world, seen = self._world, range(max(0, step - _WINDOW), step)
        oracle = world.oracle
        rates = {name: oracle.predicted(name, series, step) for name, series in world.rates.items()}
        speeds = {number: oracle.predicted_speeds(number, each, step) for number, each in self._traces.items()}
        return Outlook(
            dataflow=world.dataflow,
            goal=world.goal,
            classes=world.classes,
            deployment=self._deployment,
            now=step * world.interval,
            step=step,
            interval=world.interval,
            omega=self._omega,
            mean_omega=sum(one.omega for one in self._intervals) / len(self._intervals),
            past_rates=tuple(world.rates_at(at) for at in seen),
            past_speeds=tuple(self._speeds_at(at) for at in seen),
            coming_rates=tuple({name: each[at] for name, each in rates.items()} for at in range(oracle.horizon)),
            coming_speeds=tuple({number: each[at] for number, each in speeds.items()} for at in range(oracle.horizon)),
        )

    def change(self, deployment: Deployment, step: int) -> None:
        """Another deployment from an interval on: what is no longer rented is paid to here."""
        now = step * self._world.interval
        kept = {one.number for one in deployment.rentals}
        for one in self._deployment.rentals:
            if one.number not in kept:
                self._ended += one.cost(now)
                del self._traces[one.number]
        for one in deployment.rentals:
            if one.number not in self._traces:
                self._traces[one.number] = self._world.trace(one)
        self._deployment = deployment

    def run(self, step: int) -> None:
        """Let events flow for an interval."""
        dataflow, active, seconds = self._world.dataflow, self._deployment.active, self._world.interval
        rates = self._world.rates_at(step)
        capacity = self._deployment.capacity(dataflow, self._working_speeds(step))
        given = [0.0] * len(dataflow.tasks)
        done = [0.0] * len(dataflow.tasks)
        backlog = {task.name: self._queues[at] / seconds for at, task in enumerate(dataflow.tasks)}
        for at, task in enumerate(dataflow.tasks):
            alternate = dataflow.alternate(at, active)
            arrived = rates.get(task.name, 0.0) * seconds + sum(given[parent] for parent in dataflow.parents[at])
            there = self._queues[at] + arrived
            fits = capacity[at] * seconds / alternate.cost if alternate.cost else there
            done[at] = min(there, fits)
            given[at] = done[at] * alternate.selectivity
            self._queues[at] = there - done[at]
            self._arrived[at] += arrived
            self._done[at] += done[at]
        per_second = [each / seconds for each in done]
        self._omega = mean_share(dataflow, per_second, ideal_rates(dataflow, active, rates))
        all_rates = {name: rates.get(name, 0.0) + waiting for name, waiting in backlog.items()}
        self._intervals.append(
            SimulatedInterval(
                omega=self._omega,
                omega_of_all=mean_share(dataflow, per_second, ideal_rates(dataflow, active, all_rates)),
                gamma=dataflow.gamma(active),
                cores=sum(sum(tasks.values()) for tasks in self._deployment.cores.values()),
                price=self._deployment.price(),
                waiting=sum(self._queues),
            )
        )

    def result(self) -> SimulatedRun:
        """All of it, with what is still rented paid to the end."""
        names = [task.name for task in self._world.dataflow.tasks]
        return SimulatedRun(
            goal=self._world.goal,
            dataflow=self._world.dataflow,
            intervals=tuple(self._intervals),
            cost=self._ended + self._deployment.cost(self._world.steps * self._world.interval),
            arrived=dict(zip(names, self._arrived, strict=True)),
            done=dict(zip(names, self._done, strict=True)),
            queued=dict(zip(names, self._queues, strict=True)),
        )

    def _speeds_at(self, step: int) -> Speeds:
        return {number: trace[step] for number, trace in self._traces.items()}

    def _working_speeds(self, step: int) -> Speeds:
        """The speeds in an interval, of a machine that starts meanwhile for the rest of it."""
        begin, seconds = step * self._world.interval, self._world.interval
        speeds = {}
        for one in self._deployment.rentals:
            late = 0.0 if one.number in self._first else max(0.0, min(seconds, one.ready_at - begin))
            speeds[one.number] = self._traces[one.number][step] * (seconds - late) / seconds
        return speeds
