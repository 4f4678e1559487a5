"""The genetic algorithm: chromosomes of two strands, alternates and machines with the task of each core.

At run time the first generation descends from what runs. The fitness is the profit. What misses the throughput is
penalised, the more the older the search is, so that it may recover for some generations; so are machines that come and
go, as each is paid for an hour.
"""

import random
from dataclasses import dataclass, replace

from provisioning.algorithms import greedy
from provisioning.deployment import Deployment, DeploymentDraft, Outlook, Rates
from provisioning.figures import Active, DataflowFigures, MachineClass, ProfitGoal, omega

Gene = tuple[int, tuple[int, ...], int]
"""A machine: its class, the task of each core, where -1 is a free one, and its number if it is rented, or -1."""
_FREE = -1
_PENALTY = 2.0
_KEPT = 0.05
_CHANGE_HOURS = 8.0
"""What a machine that comes or goes at run time is penalised with, as hours of its price."""


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
    greedy_one = _encoded(greedy.deployed(dataflow, rates, classes, goal, central=True), classes, rented=False)
    start = Deployment(active=greedy_one.active)
    return _Population(DeploymentDraft(dataflow, start), rates, classes, goal, evolution).fittest(greedy_one)


def adapted(outlook: Outlook, evolution: Evolution = Evolution(population=32, generations=25)) -> Deployment:
    """What has evolved from what runs, whenever the throughput is not as it should be; by what was seen last."""
    draft = DeploymentDraft(outlook.dataflow, outlook.deployment, outlook.speeds, outlook.now)
    if not (outlook.below(outlook.omega) or outlook.above(outlook.omega)):
        draft.end_idle(outlook.interval)
        return draft.made()
    first = _encoded(outlook.deployment, outlook.classes, rented=True)
    return _Population(draft, outlook.rates, outlook.classes, outlook.goal, evolution).fittest(
        first, within=outlook.interval
    )


class _Population:
    def __init__(
        self,
        runs: DeploymentDraft,
        rates: Rates,
        classes: tuple[MachineClass, ...],
        goal: ProfitGoal,
        evolution: Evolution,
    ) -> None:
        self._runs, self._dataflow = runs, runs.dataflow
        self._rates, self._classes, self._goal = rates, classes, goal
        self._evolution = evolution
        self._random = random.Random(evolution.seed)  # noqa: S311  keeps no secret
        self._people: list[Chromosome] = []

    def fittest(self, first: Chromosome, within: float = 0.0) -> Deployment:
        """The fittest after all generations; machines that are paid for so many seconds more may idle."""
        size = self._evolution.population
        packed = [self._packed_stranger(first) for _ in range(size // 4)]
        mutants = [self._mutated(first) for _ in range(size // 4)]
        others = range(size - 1 - len(packed) - len(mutants))
        strangers = [
            Chromosome(active=self._any_active(), machines=tuple(self._machine() for _ in first.machines))
            for _ in others
        ]
        self._people = [first, *packed, *mutants, *strangers]
        for age in range(1, self._evolution.generations + 1):
            ranked = sorted(self._people, key=lambda chromosome, age=age: -self._fitness(chromosome, age))  # type: ignore[misc]
            kept = ranked[: max(1, int(size * _KEPT))]
            # The better its rank, the likelier is a parent.
            parents = self._random.choices(ranked, weights=range(len(ranked), 0, -1), k=2 * (size - len(kept)))
            children = [self._mutated(self._child(*pair)) for pair in zip(parents[::2], parents[1::2], strict=True)]
            self._people = [*kept, *children]
        best = max(self._people, key=lambda chromosome: self._fitness(chromosome, 1000 * self._evolution.generations))
        return self._decoded(best, within)

    def _fitness(self, one: Chromosome, age: int) -> float:
        capacity = [0.0] * len(self._dataflow.tasks)
        price = 0.0
        for at, tasks, number in one.machines:
            price += self._classes[at].price
            speed = self._runs.speeds.get(number, self._classes[at].speed)
            for task in tasks:
                if task != _FREE:
                    capacity[task] += speed
        reached = omega(self._dataflow, one.active, self._rates, capacity)
        theta = self._goal.theta(self._dataflow, self._dataflow.gamma(one.active), price * self._goal.hours)
        kept = {number for *_, number in one.machines if number >= 0}
        if self._runs.rentals:
            changed = sum(self._classes[at].price for at, _, number in one.machines if number < 0)
            changed += sum(
                rental.machine_class.price for number, rental in self._runs.rentals.items() if number not in kept
            )
            theta -= self._goal.sigma(self._dataflow) * changed * _CHANGE_HOURS
        nowhere = capacity.count(0.0)
        return theta - _PENALTY * (max(0.0, self._goal.omega - reached) + nowhere) * age

    def _child(self, mother: Chromosome, father: Chromosome) -> Chromosome:
        """The child of two, with each gene from one of them at random."""
        length = max(len(mother.machines), len(father.machines))
        machines = [
            parent.machines[at]
            for at in range(length)
            if at < len((parent := self._random.choice((mother, father))).machines)
        ]
        machines = _distinct(machines)
        active = tuple(self._random.choice(pair) for pair in zip(mother.active, father.active, strict=True))
        return Chromosome(active=active, machines=tuple(machines))

    def _mutated(self, one: Chromosome) -> Chromosome:
        """One with another alternate now and then, and with a machine that comes, goes, changes or works otherwise."""
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
        at, tasks, number = gene
        changed = list(tasks)
        changed[self._random.randrange(len(changed))] = self._task(self._classes[at])
        return at, tuple(changed), number

    def _machine(self) -> Gene:
        at = self._random.randrange(len(self._classes))
        return at, tuple(self._task(self._classes[at]) for _ in range(self._classes[at].cores)), -1

    def _task(self, machine_class: MachineClass) -> int:
        fitting = [at for at, task in enumerate(self._dataflow.tasks) if task.tags <= machine_class.tags]
        return self._random.choice(fitting) if fitting else _FREE

    def _packed_stranger(self, first: Chromosome) -> Chromosome:
        """One of any alternates, with machines added greedily to what runs; random ones alone rarely suffice."""
        active = self._random.choice((first.active, self._any_active()))
        draft = DeploymentDraft(
            self._dataflow, replace(self._runs.made(), active=active), self._runs.speeds, self._runs.now
        )
        before = set(draft.rentals)
        greedy.grow(draft, self._rates, self._classes, self._goal.omega)
        packed = _encoded(draft.made(), self._classes, rented=True)
        return replace(
            packed,
            machines=tuple((at, tasks, number if number in before else -1) for at, tasks, number in packed.machines),
        )

    def _any_active(self) -> Active:
        return tuple(self._random.randrange(len(task.alternates)) for task in self._dataflow.tasks)

    def _decoded(self, one: Chromosome, within: float) -> Deployment:
        bare = replace(self._runs.made(), active=one.active, cores={})
        draft = DeploymentDraft(self._dataflow, bare, self._runs.speeds, self._runs.now)
        for at, tasks, known in one.machines:
            number = draft.rent(self._classes[at]) if known < 0 and set(tasks) != {_FREE} else known
            for task in tasks:
                if task != _FREE:
                    draft.put(task, number)
        draft.end_idle(within)
        return draft.made()


def _distinct(machines: list[Gene]) -> list[Gene]:
    known: set[int] = set()
    kept = []
    for gene in machines:
        if gene[2] not in known:
            kept.append(gene)
        if gene[2] >= 0:
            known.add(gene[2])
    return kept


def _encoded(deployment: Deployment, classes: tuple[MachineClass, ...], *, rented: bool) -> Chromosome:
    machines = []
    for rental in deployment.rentals:
        work = [task for task, count in deployment.cores.get(rental.number, {}).items() for _ in range(count)]
        free = [_FREE] * (rental.machine_class.cores - len(work))
        number = rental.number if rented else -1
        machines.append((classes.index(rental.machine_class), (*work, *free), number))
    return Chromosome(active=deployment.active, machines=tuple(machines))
