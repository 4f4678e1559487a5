"""Brute force: every deployment, but for branches that cannot be better; exact, and for small cases alone.

A branch is left when even plenty of cores for the tasks below would not do, or when the least that these need already
costs too much.
"""

import itertools
from collections.abc import Iterator

from provisioning.algorithms.repack import CoreKind, Counts, assembled, cheapest, kinds_of
from provisioning.deployment import Deployment, Rates
from provisioning.figures import Active, DataflowFigures, MachineClass, ProfitGoal, ideal_rates, omega

_PLENTY = float("inf")
_ROUNDING = 1e-9
MOST_BRANCHES = 5_000_000
"""What a search may take before it is too large a case for brute force."""


def deployed(
    dataflow: DataflowFigures, rates: Rates, classes: tuple[MachineClass, ...], goal: ProfitGoal
) -> Deployment:
    """The deployment of the highest profit that has the throughput."""
    search = _Search(dataflow, rates, kinds_of(classes), goal)
    choices = itertools.product(*(range(len(task.alternates)) for task in dataflow.tasks))
    bounded = sorted(((search.bound(active), active) for active in choices), reverse=True)
    for bound, active in bounded:
        if bound > search.theta + _ROUNDING:
            search.visit(active)
    if search.best is None:
        raise ValueError("no class of machines can run one of the tasks; add one with its tags")
    active, counts = search.best
    return assembled(dataflow, active, counts, search.kinds)


class _Search:
    def __init__(self, dataflow: DataflowFigures, rates: Rates, kinds: tuple[CoreKind, ...], goal: ProfitGoal) -> None:
        self.dataflow, self.rates, self.kinds, self.goal = dataflow, rates, kinds, goal
        self.theta = -float("inf")
        self.best: tuple[Active, list[Counts]] | None = None
        self._branches = 0
        self._prices: dict[tuple[int, int], float] = {}

    def bound(self, active: Active) -> float:
        """The profit if each task took no more than it must alone."""
        cost = sum(min(price for price, _, _ in options) for options in self._options(active) if options)
        return self._theta(active, cost)

    def visit(self, active: Active) -> None:
        options = self._options(active)
        if not all(options):
            return
        least = [min(price for price, _, _ in ways) for ways in options]
        below = [sum(least[at:]) for at in range(len(least) + 1)]
        self._descend(active, options, below, [], [_PLENTY] * len(options))

    def _descend(
        self,
        active: Active,
        options: list[list[tuple[float, float, Counts]]],
        below: list[float],
        chosen: list[tuple[float, Counts]],
        capacity: list[float],
    ) -> None:
        self._branches += 1
        if self._branches > MOST_BRANCHES:
            raise ValueError("too large a case for brute force; use another algorithm")
        at = len(chosen)
        if at == len(options):
            whole = [counts for _, counts in chosen]
            theta = self._theta(active, self._price(whole))
            if theta > self.theta + _ROUNDING:
                self.theta, self.best = theta, (active, whole)
            return
        spent = sum(price for price, _ in chosen)
        for price, power, counts in options[at]:
            if self._theta(active, spent + price + below[at + 1]) <= self.theta + _ROUNDING:
                continue
            narrowed = [*capacity[:at], power, *capacity[at + 1 :]]
            if omega(self.dataflow, active, self.rates, narrowed) >= self.goal.omega - _ROUNDING:
                self._descend(active, options, below, [*chosen, (price, counts)], narrowed)

    def _options(self, active: Active) -> list[list[tuple[float, float, Counts]]]:
        """For each task the counts of cores worth trying: their least price, their power; the cheapest first."""
        ideal = ideal_rates(self.dataflow, active, self.rates)
        return [
            self._of_task(at, active, rate * self.dataflow.alternate(at, active).cost) for at, rate in enumerate(ideal)
        ]

    def _of_task(self, at: int, active: Active, need: float) -> list[tuple[float, float, Counts]]:
        kinds = [kind for kind in self.kinds if self.dataflow.tasks[at].tags <= kind.tags]
        options: list[tuple[float, float, Counts]] = []
        for counts in self._covers(kinds, need):
            power = sum(count * kind.speed for count, kind in zip(counts, self.kinds, strict=True))
            price = sum(count * kind.least_price for count, kind in zip(counts, self.kinds, strict=True))
            capacity = [_PLENTY] * len(self.dataflow.tasks)
            capacity[at] = power
            if omega(self.dataflow, active, self.rates, capacity) >= self.goal.omega - _ROUNDING:
                options.append((price, power, counts))
        if not all(kind.linear for kind in kinds):
            return sorted(options)
        # With prices in proportion, more power for no more money is always better.
        kept: list[tuple[float, float, Counts]] = []
        for price, power, counts in sorted(options, key=lambda option: (option[0], -option[1])):
            if not kept or power > kept[-1][1] + _ROUNDING:
                kept.append((price, power, counts))
        return sorted(kept)

    def _covers(self, kinds: list[CoreKind], need: float) -> Iterator[Counts]:
        """All counts of which no core is without use."""
        ranges = [range(int(need / kind.speed) + 2) if kind in kinds else range(1) for kind in self.kinds]
        for counts in itertools.product(*ranges):
            used = [kind.speed for kind, count in zip(self.kinds, counts, strict=True) if count]
            power = sum(kind.speed * count for kind, count in zip(self.kinds, counts, strict=True))
            if used and (sum(counts) == 1 or power - min(used) < need):
                yield counts

    def _price(self, counts: list[Counts]) -> float:
        total = 0.0
        for at, kind in enumerate(self.kinds):
            cores = sum(row[at] for row in counts)
            if (at, cores) not in self._prices:
                self._prices[at, cores] = sum(one.price for one in cheapest(list(kind.classes), cores))
            total += self._prices[at, cores]
        return total

    def _theta(self, active: Active, price: float) -> float:
        return self.goal.theta(self.dataflow, self.dataflow.gamma(active), price * self.goal.hours)
