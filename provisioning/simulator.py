"""The simulator: rates and machines that vary, predictions that err, and what comes of an algorithm among them.

Discrete and seeded: the same seeds give the same history. Tasks are bound by cores, not by the network. In each
interval an algorithm adapts, and events flow through queues, so none is lost. Relative throughput is what left at the
sinks of what arrived in the interval, at most 1; `omega_of_all` counts the backlog to what should have left, as the
thesis does.

Where tasks share all cores, events wait at the sources, and each batch takes its part of them through all tasks.

The traces of machines are synthetic, as parts of their rated speed, and like what was published of EC2: neighbours move
a machine between a few levels for an hour or so, and around each level it walks at random.

Predictions have errors that grow over the horizon, and a bias, as in the thesis: the error of the interval i of n is
normally distributed with half of e_i as its deviation, which grows from 0 to twice the mean error.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from provisioning.deployment import Adaptation, Deployment, Outlook, Rates, Speeds
from provisioning.figures import (
    AVOIDED_SECONDS,
    Active,
    DataflowFigures,
    MachineClass,
    ProfitGoal,
    Rental,
    ideal_rates,
    mean_share,
    needs,
)

Series = tuple[float, ...]


def constant(rate: float, steps: int) -> Series:
    """A rate that stays the same all the time."""
    return (rate,) * steps


def random_walk(mean: float, steps: int, *, seed: int, spread: float = 0.5, stride: float = 0.15) -> Series:
    """A walk that is turned back at so much above and below the mean, as the thesis has it; scaled to the mean."""
    draws = random.Random(f"walk {seed}")  # noqa: S311  keeps no secret
    at = draws.uniform(-spread, spread)
    offsets = []
    for _ in range(steps):
        offsets.append(at)
        at += draws.uniform(-stride, stride)
        if abs(at) > spread:
            at = math.copysign(2 * spread - abs(at), at)
    middle = sum(offsets) / steps
    # What a walk is off on average would be another mean, not variability.
    return tuple(mean * (1 + max(-spread, min(spread, offset - middle))) for offset in offsets)


def wave(between: tuple[float, float], steps: int, *, period: float, noise: float = 0.0, seed: int = 0) -> Series:
    """A sine between two rates with a period in intervals, and noise of so great a part of it."""
    draws = random.Random(f"wave {seed}")  # noqa: S311  keeps no secret
    low, high = between
    middle, reach = (low + high) / 2, (high - low) / 2
    return tuple(
        max(0.0, (middle + reach * math.sin(2 * math.pi * step / period)) * (1 + draws.uniform(-noise, noise)))
        for step in range(steps)
    )


def spike(rate: float, steps: int, *, at: int, length: int, factor: float) -> Series:
    """A rate that is multiplied for some intervals."""
    return tuple(rate * factor if at <= step < at + length else rate for step in range(steps))


_LEVELS = (1.0, 0.92, 0.85, 0.72, 0.6)
_WEIGHTS = (3, 4, 4, 3, 1)
_SWITCH = 0.06
"""The chance of another level at each interval."""
_STRIDE = 0.02
_SPREAD = 0.08
SLOWEST, FASTEST = 0.4, 1.05


@lru_cache(maxsize=20_000)
def performance(seed: int, number: int, steps: int) -> tuple[float, ...]:
    """The performance of a machine at each interval, by its number."""
    draws = random.Random(f"machine {seed} {number}")  # noqa: S311  keeps no secret
    level = draws.choices(_LEVELS, _WEIGHTS)[0]
    offset = 0.0
    parts = []
    for _ in range(steps):
        if draws.random() < _SWITCH:
            level = draws.choices(_LEVELS, _WEIGHTS)[0]
        offset = max(-_SPREAD, min(_SPREAD, offset + draws.uniform(-_STRIDE, _STRIDE)))
        parts.append(max(SLOWEST, min(FASTEST, level + offset)))
    return tuple(parts)


LEAST_PREDICTED = 0.05
"""The least part of the truth that is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What predicts the intervals to come, more or less well."""

    horizon: int = 6
    """How many intervals."""
    error: float = 0.0
    """The mean error, as a part of the truth."""
    bias: float = 0.0
    """What is added to each predicted rate, as a part of the truth; added to speeds as well, it would cancel out."""
    seed: int = 0

    def predicted(self, name: str, truth: Sequence[float], step: int) -> tuple[float, ...]:
        """What is predicted at an interval for it and those after it; what is beyond the end stays as it was."""
        coming = [truth[min(at, len(truth) - 1)] for at in range(step, step + self.horizon)]
        if not self.error and not self.bias:
            return tuple(coming)
        draws = random.Random(f"{self.seed} {name} {step}")  # noqa: S311  keeps no secret
        last = max(1, self.horizon - 1)
        return tuple(
            figure * max(LEAST_PREDICTED, 1.0 + self.bias + draws.gauss(0.0, 1.0) * self.error * at / last)
            for at, figure in enumerate(coming)
        )


_WINDOW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFault:
    """What is wrong with a machine."""

    late: float = 0.0
    """Seconds that it takes longer to start; infinity if it never comes."""
    speed: float = 1.0
    """The part of its rated speed that it does."""
    dies_after: float = math.inf
    """Seconds from its order to its end."""


_SOUND = MachineFault()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an algorithm is tried on."""

    dataflow: DataflowFigures
    goal: ProfitGoal
    classes: tuple[MachineClass, ...]
    rates: Mapping[str, Series]
    """The rate of each task that takes from outside, for each interval."""
    machines: int | None = None
    """The seed of how machines vary; None if they are as rated."""
    oracle: Oracle = field(default_factory=Oracle)
    interval: float = 300.0
    shared: bool = False
    """Whether all tasks share all cores."""
    faults: Mapping[int, MachineFault] = field(default_factory=dict)
    """By the number of the rental."""

    @property
    def steps(self) -> int:
        """The number of intervals."""
        return min(len(series) for series in self.rates.values())

    def rates_at(self, step: int) -> Rates:
        """What comes in an interval."""
        return {name: series[step] for name, series in self.rates.items()}

    def trace(self, rental: Rental) -> Series:
        """The speed of a core of a machine, for each interval."""
        rated = rental.machine_class.speed * self.fault(rental).speed
        if self.machines is None:
            return (rated,) * self.steps
        return tuple(rated * part for part in performance(self.machines, rental.number, self.steps))

    def fault(self, rental: Rental) -> MachineFault:
        """What is wrong with a machine."""
        return self.faults.get(rental.number, _SOUND)

    def works_from(self, rental: Rental) -> float:
        """The moment from which it really works."""
        return rental.since + rental.machine_class.start_seconds + self.fault(rental).late


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedInterval:
    """What came of one interval."""

    omega: float
    omega_of_all: float
    gamma: float
    cores: int
    price: float
    """What the rented machines cost by the hour."""
    deployment: Deployment


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
            state.look(step)
            state.change(adaptation(state.outlook(step)), step)
        state.run(step)
    return state.result()


class _State:
    def __init__(self, world: World, deployment: Deployment) -> None:
        self._world = world
        # The first machines have been started before.
        first = tuple(replace(one, ready=one.since) for one in deployment.rentals)
        self._deployment = replace(deployment, rentals=first)
        self._traces = {one.number: world.trace(one) for one in first}
        self._first = frozenset(self._traces)
        self._missed: dict[str, float] = {}
        """When a machine of a class was given up."""
        tasks = len(world.dataflow.tasks)
        self._queues, self._arrived, self._done = [0.0] * tasks, [0.0] * tasks, [0.0] * tasks
        self._intervals: list[SimulatedInterval] = []
        self._ended = 0.0
        self._omega = 1.0

    def look(self, step: int) -> None:
        """See which machines work by now, and which have died."""
        now, world = step * self._world.interval, self._world
        alive = [one for one in self._deployment.rentals if now < one.since + world.fault(one).dies_after]
        for one in self._deployment.rentals:
            if one not in alive:
                self._ended += one.cost(one.since + world.fault(one).dies_after)
                del self._traces[one.number]
        seen = (
            replace(one, ready=works) if one.ready is None and (works := world.works_from(one)) <= now else one
            for one in alive
        )
        self._deployment = replace(self._deployment, rentals=tuple(seen))

    def outlook(self, step: int) -> Outlook:
        """What can be known before an interval."""
        world, seen = self._world, range(max(0, step - _WINDOW), step)
        oracle = world.oracle
        rates = {name: oracle.predicted(name, series, step) for name, series in world.rates.items()}
        unbiased = replace(oracle, bias=0.0)
        # Nobody knows how fast a machine is that has not come.
        awaited = {one.number: one.machine_class.speed for one in self._deployment.rentals if one.ready is None}
        traces = {
            number: (awaited[number],) * world.steps if world.shared and number in awaited else trace
            for number, trace in self._traces.items()
        }
        speeds = {number: unbiased.predicted(f"machine {number}", trace, step) for number, trace in traces.items()}
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
            past_speeds=tuple({number: trace[at] for number, trace in traces.items()} for at in seen),
            coming_rates=tuple({name: coming[at] for name, coming in rates.items()} for at in range(oracle.horizon)),
            coming_speeds=tuple(
                {number: coming[at] for number, coming in speeds.items()} for at in range(oracle.horizon)
            ),
            shared=world.shared,
            avoided_classes=frozenset(
                name for name, at in self._missed.items() if step * world.interval - at < AVOIDED_SECONDS
            ),
        )

    def change(self, deployment: Deployment, step: int) -> None:
        """Another deployment from an interval on: what is no longer rented is paid to here."""
        now = step * self._world.interval
        kept = {one.number for one in deployment.rentals}
        for one in self._deployment.rentals:
            if one.number not in kept:
                self._ended += one.cost(now)
                if one.is_given_up(now):
                    self._missed[one.machine_class.name] = now
                del self._traces[one.number]
        for one in deployment.rentals:
            if one.number not in self._traces:
                self._traces[one.number] = self._world.trace(one)
        self._deployment = deployment

    def run(self, step: int) -> None:
        dataflow, active, seconds = self._world.dataflow, self._deployment.active, self._world.interval
        rates = self._world.rates_at(step)
        speeds = self._working_speeds(step)
        capacity = self._deployment.capacity(dataflow, speeds)
        share = self._shared_part(active, rates, speeds) if self._world.shared else 1.0
        given = [0.0] * len(dataflow.tasks)
        done = [0.0] * len(dataflow.tasks)
        backlog = {task.name: self._queues[at] / seconds for at, task in enumerate(dataflow.tasks)}
        for at, task in enumerate(dataflow.tasks):
            alternate = dataflow.alternate(at, active)
            arrived = rates.get(task.name, 0.0) * seconds + sum(given[parent] for parent in dataflow.parents[at])
            there = self._queues[at] + arrived
            fits = there * (1.0 if dataflow.parents[at] else share)
            if not self._world.shared:
                fits = capacity[at] * seconds / alternate.cost if alternate.cost else there
            done[at] = min(there, fits)
            given[at] = done[at] * alternate.selectivity
            self._queues[at] = there - done[at]
            self._arrived[at] += arrived
            self._done[at] += done[at]
        per_second = [events / seconds for events in done]
        self._omega = mean_share(dataflow, per_second, ideal_rates(dataflow, active, rates))
        all_rates = {name: rates.get(name, 0.0) + waiting for name, waiting in backlog.items()}
        self._intervals.append(
            SimulatedInterval(
                omega=self._omega,
                omega_of_all=mean_share(dataflow, per_second, ideal_rates(dataflow, active, all_rates)),
                gamma=dataflow.gamma(active),
                cores=sum(sum(tasks.values()) for tasks in self._deployment.cores.values()),
                price=self._deployment.price(),
                deployment=self._deployment,
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

    def _working_speeds(self, step: int) -> Speeds:
        """The speeds in an interval, of a machine that starts meanwhile for the rest of it."""
        begin, seconds = step * self._world.interval, self._world.interval
        speeds = {}
        for one in self._deployment.rentals:
            works = self._world.works_from(one)
            late = 0.0 if one.number in self._first else max(0.0, min(seconds, works - begin))
            left = max(late, min(seconds, one.since + self._world.fault(one).dies_after - begin))
            speeds[one.number] = self._traces[one.number][step] * (left - late) / seconds
        return speeds

    def _shared_part(self, active: Active, rates: Rates, speeds: Speeds) -> float:
        """The part of what waits and arrives that all machines work off in an interval."""
        seconds, tasks = self._world.interval, self._world.dataflow.tasks
        there = {task.name: rates.get(task.name, 0.0) + self._queues[at] / seconds for at, task in enumerate(tasks)}
        need = sum(needs(self._world.dataflow, active, there))
        power = sum(speeds[one.number] * one.machine_class.cores for one in self._deployment.rentals)
        return min(1.0, power / need) if need > 0 else 1.0
