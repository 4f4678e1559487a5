"""The genetic algorithm: chromosomes of two strands, alternates and machines with the task of each core.

The fitness is the profit; what misses the throughput is penalised, the more the older the search is, so that it may
recover for some generations.
"""

import random
from dataclasses import dataclass

from provisioning.algorithms import greedy
from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft
from provisioning.machine_class import MachineClass
from provisioning.outlook import Rates
from provisioning.profit import ProfitGoal
from provisioning.throughput import omega

Gene = tuple[int, tuple[int, ...]]
"""A machine: its class, and the task of each core; -1 is a free one."""
_FREE = -1
_PENALTY = 2.0
_KEPT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromosome:
    """One possible deployment."""

    active: Active
    machines: tuple[Gene, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """How long is searched, and how widely."""

    population: int = 60
    generations: int = 150
    seed: int = 0


def deployed(
    dataflow: DataflowFigures,
    rates: Rates,
    classes: tuple[MachineClass, ...],
    goal: ProfitGoal,
    evolution: Evolution = Evolution(),
) -> Deployment:
    """The fittest deployment that was found; some of the first generation are greedy ones."""
    return _Population(dataflow, rates, classes, goal, evolution).fittest()


class _Population:
    """Deployments that breed."""

    def __init__(
        self,
        dataflow: DataflowFigures,
        rates: Rates,
        classes: tuple[MachineClass, ...],
        goal: ProfitGoal,
        evolution: Evolution,
    ) -> None:
        self._dataflow, self._rates, self._classes, self._goal = dataflow, rates, classes, goal
        self._evolution = evolution
        self._random = random.Random(evolution.seed)  # noqa: S311  keeps no secret
        first = _encoded(greedy.deployed(dataflow, rates, classes, goal, central=True), classes)
        packed = [self._packed_stranger() for _ in range(evolution.population // 4)]
        others = evolution.population - 1 - len(packed)
        self._people = [first, *packed, *(self._stranger(len(first.machines)) for _ in range(others))]

    def fittest(self) -> Deployment:
        """Breed, select and forget, as often as asked."""
        size = self._evolution.population
        for age in range(1, self._evolution.generations + 1):
            ranked = sorted(self._people, key=lambda each, age=age: -self._fitness(each, age))  # type: ignore[misc]
            kept = ranked[: max(1, int(size * _KEPT))]
            # The better its rank, the likelier is a parent.
            parents = self._random.choices(ranked, weights=range(len(ranked), 0, -1), k=2 * (size - len(kept)))
            children = [self._mutated(self._child(*pair)) for pair in zip(parents[::2], parents[1::2], strict=True)]
            self._people = [*kept, *children]
        best = max(self._people, key=lambda each: self._fitness(each, 1000 * self._evolution.generations))
        return self._decoded(best)

    def _fitness(self, one: Chromosome, age: int) -> float:
        capacity = [0.0] * len(self._dataflow.tasks)
        price = 0.0
        for at, tasks in one.machines:
            machine_class = self._classes[at]
            price += machine_class.price
            for task in tasks:
                if task != _FREE:
                    capacity[task] += machine_class.speed
        reached = omega(self._dataflow, one.active, self._rates, capacity)
        theta = self._goal.theta(self._dataflow, self._dataflow.gamma(one.active), price * self._goal.hours)
        nowhere = capacity.count(0.0)
        return theta - _PENALTY * (max(0.0, self._goal.omega - reached) + nowhere) * age

    def _child(self, mother: Chromosome, father: Chromosome) -> Chromosome:
        """Gene by gene from one of both, as a random bit mask has it."""
        length = max(len(mother.machines), len(father.machines))
        machines = [
            parent.machines[at]
            for at in range(length)
            if at < len((parent := self._random.choice((mother, father))).machines)
        ]
        active = tuple(self._random.choice(pair) for pair in zip(mother.active, father.active, strict=True))
        return Chromosome(active=active, machines=tuple(machines))

    def _mutated(self, one: Chromosome) -> Chromosome:
        """Now and then another alternate; and a machine that comes, goes, becomes another or works for another task."""
        active, machines = list(one.active), list(one.machines)
        if self._dataflow.dynamic and self._random.random() < 0.2:  # noqa: PLR2004  the rate of mutation
            at = self._random.choice(self._dataflow.dynamic)
            active[at] = self._random.randrange(len(self._dataflow.tasks[at].alternates))
        for _ in range(self._random.randrange(3)):
            kind = self._random.randrange(4)
            if kind == 0 or not machines:
                machines.append(self._machine())
                continue
            at = self._random.randrange(len(machines))
            if kind == 1:
                machines.pop(at)
            elif kind == 2:  # noqa: PLR2004  one of four kinds
                machines[at] = self._machine()
            else:
                machines[at] = self._other_work(machines[at])
        return Chromosome(active=tuple(active), machines=tuple(machines))

    def _other_work(self, gene: Gene) -> Gene:
        at, tasks = gene
        changed = list(tasks)
        changed[self._random.randrange(len(changed))] = self._task(self._classes[at])
        return at, tuple(changed)

    def _machine(self) -> Gene:
        at = self._random.randrange(len(self._classes))
        return at, tuple(self._task(self._classes[at]) for _ in range(self._classes[at].cores))

    def _task(self, machine_class: MachineClass) -> int:
        fitting = [at for at, task in enumerate(self._dataflow.tasks) if task.tags <= machine_class.tags]
        return self._random.choice(fitting) if fitting else _FREE

    def _stranger(self, machines: int) -> Chromosome:
        return Chromosome(active=self._any_active(), machines=tuple(self._machine() for _ in range(machines)))

    def _packed_stranger(self) -> Chromosome:
        """Any alternates, on the machines that greedy deployment gives them; random machines alone rarely suffice."""
        draft = DeploymentDraft(self._dataflow, Deployment(active=self._any_active()))
        greedy.grow(draft, self._rates, self._classes, self._goal.omega)
        return _encoded(draft.made(), self._classes)

    def _any_active(self) -> Active:
        return tuple(self._random.randrange(len(task.alternates)) for task in self._dataflow.tasks)

    def _decoded(self, one: Chromosome) -> Deployment:
        draft = DeploymentDraft(self._dataflow, Deployment(active=one.active))
        for at, tasks in one.machines:
            number = draft.rent(self._classes[at])
            for task in tasks:
                if task != _FREE:
                    draft.put(task, number)
        for number in draft.idle():
            draft.release(number)
        return draft.made()


def _encoded(deployment: Deployment, classes: tuple[MachineClass, ...]) -> Chromosome:
    machines = []
    for rental in deployment.rentals:
        work = [task for task, count in deployment.cores.get(rental.number, {}).items() for _ in range(count)]
        free = [_FREE] * (rental.machine_class.cores - len(work))
        machines.append((classes.index(rental.machine_class), (*work, *free)))
    return Chromosome(active=deployment.active, machines=tuple(machines))
