"""Packing: the cheapest cores that have the throughput with given alternates, in nearly linear time.

Every task first gets the cores for the wanted part of what it needs, which suffices for all sinks. Whole cores leave
something over, so cores are then taken back, many at once. What that loses at least is known beforehand from one pass
backwards: throughput is a concave function of the capacities, so its slope bounds every loss, also of several cores
together. At last better alternates take what is still left over.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from provisioning.algorithms.core_kinds import Counts, assembled
from provisioning.algorithms.greedy import depth_first, grow
from provisioning.dataflow_figures import Active, DataflowFigures
from provisioning.deployment import Deployment
from provisioning.deployment_draft import DeploymentDraft
from provisioning.horizon.core_menu import CoreMenu
from provisioning.horizon.sink_levels import sink_levels
from provisioning.outlook import Rates
from provisioning.profit import ProfitGoal
from provisioning.throughput import ideal_rates, mean_share, served

_ROUNDING = 1e-9
_MOST_WORK = 400_000
"""How many tasks are looked at while cores are taken back from a packing: small ones get every try, large ones few."""
_LEAST_TRIES = 20
_MANY = 1000
"""So many tasks begin from one choice of levels alone."""
_HIGHEST = (0.9, 1.0)
"""Levels of what several sinks share that are tried beside the wanted one."""

_Step = TypeVar("_Step")


def estimated_price(dataflow: DataflowFigures, active: Active, rates: Rates, menu: CoreMenu, omega: float) -> float:
    """What the cores cost by the hour that each task has before any are taken back."""
    total = 0.0
    for task, taken, choice in zip(dataflow.tasks, ideal_rates(dataflow, active, rates), active, strict=True):
        total += menu.cover(task.tags, taken * task.alternates[choice].cost * omega)[0]
    return total


def settled(dataflow: DataflowFigures, before: Active, rates: Rates, menu: CoreMenu, goal: ProfitGoal) -> Active:
    """The alternates of the highest profit at the rates that those before led to, by whole cores.

    So a better alternate that needs no more cores is taken, however dear its work is. What an alternate causes below
    counts by the price of power.
    """
    taken = ideal_rates(dataflow, before, rates)
    worth = goal.sigma(dataflow) * goal.hours
    weight = 1.0 / max(1, sum(dataflow.tasks[at].tenants for at in dataflow.dynamic))
    below = [0.0] * len(dataflow.tasks)
    active = list(before)
    for at in reversed(range(len(dataflow.tasks))):
        task = dataflow.tasks[at]
        under = 0.0
        for child in dataflow.children[at]:
            under += below[child]
        if len(task.alternates) > 1:
            profits = [
                one.value * task.tenants * weight
                - worth
                * (
                    menu.cover(task.tags, taken[at] * one.cost * goal.omega)[0]
                    + taken[at] * one.selectivity * goal.omega * under
                )
                for one in task.alternates
            ]
            active[at] = max(range(len(profits)), key=profits.__getitem__)
        chosen = task.alternates[active[at]]
        below[at] = menu.power_price * chosen.cost + chosen.selectivity * under
    return tuple(active)


def packed(dataflow: DataflowFigures, active: Active, rates: Rates, menu: CoreMenu, omega: float) -> Deployment:
    """A deployment that has the throughput, at a low price; with better alternates where they cost nothing."""
    starts = _starts(dataflow, active, rates, menu, omega)
    packings = [
        _Packing(dataflow, active, rates, menu, omega, counts)
        for counts in (starts if len(dataflow.tasks) <= _MANY else starts[:1])
    ]
    for each in packings:
        each.take_back()
    packing = min(packings, key=lambda each: sum(map(menu.price, each.counts)))
    packing.improve()
    made = assembled(dataflow, tuple(packing.active), packing.counts, menu.kinds, depth_first(dataflow))
    draft = DeploymentDraft(dataflow, made)
    # The network may let less through than was reckoned.
    if draft.omega(rates) < omega - _ROUNDING:
        grow(draft, rates, menu.classes, omega)
    return draft.made()


def _starts(
    dataflow: DataflowFigures, active: Active, rates: Rates, menu: CoreMenu, omega: float
) -> list[list[Counts]]:
    """Cores that have the throughput, the cheapest first: by how high a level there may be at most."""
    needs = [
        taken * task.alternates[choice].cost
        for task, taken, choice in zip(dataflow.tasks, ideal_rates(dataflow, active, rates), active, strict=True)
    ]
    grain = min(menu.speeds)

    def price(task: int, power: float) -> float:
        return menu.cover(dataflow.tasks[task].tags, power)[0]

    options = [
        sink_levels(dataflow, needs, price, grain, highest=highest, mean=omega)
        for highest in dict.fromkeys((omega, *(each for each in _HIGHEST if each > omega)))
    ]
    counts = [
        [menu.counts(task.tags, need * level) for task, need, level in zip(dataflow.tasks, needs, levels, strict=True)]
        for levels in options
    ]
    return sorted(counts, key=lambda each: sum(map(menu.price, each)))


class _Packing:
    """Cores of tasks, while they are taken back."""

    def __init__(  # noqa: PLR0913, PLR0917  what is packed, and with what it begins
        self,
        dataflow: DataflowFigures,
        active: Active,
        rates: Rates,
        menu: CoreMenu,
        omega: float,
        counts: list[Counts],
    ) -> None:
        self._dataflow, self._rates, self._menu, self._omega = dataflow, rates, menu, omega
        self.active = list(active)
        self._ideal, self._reckoned = ideal_rates(dataflow, active, rates), active
        self.counts = counts
        self._capacity = [menu.power(counts) for counts in self.counts]
        self._tries = max(_LEAST_TRIES, _MOST_WORK // len(dataflow.tasks))

    def take_back(self) -> None:
        """Take cores back as long as the throughput allows, those first that save most for what they lose."""
        failed: set[int] = set()
        while self._tries > 0:
            self._tries -= 1
            taken, done = self._served()
            spare = mean_share(self._dataflow, done, self._ideal) - self._omega
            slopes = self._slopes(taken, done)
            steps: list[tuple[float, int]] = []
            freed = False
            for task, counts in enumerate(self.counts):
                smaller = self._menu.smaller(self._dataflow.tasks[task].tags, counts)
                if smaller is None:
                    continue
                cost = self._dataflow.tasks[task].alternates[self.active[task]].cost
                lacks = done[task] * cost - self._capacity[task] + smaller.lost
                if lacks <= 0:
                    self._step_down(task)
                    freed = True
                elif task not in failed and (loss := slopes[task] * lacks / cost) <= spare + _ROUNDING:
                    steps.append((loss / smaller.saved, task))
            possible = [task for _, task in sorted(steps)]
            if not self._taken(possible, self._step_down) and not freed:
                if not possible:
                    return
                failed.add(possible[0])

    def improve(self) -> None:
        """Take better alternates that the cores are enough for, those first that are worth most."""
        failed: set[tuple[int, int]] = set()
        while self._tries > 0:
            gains: list[tuple[float, int, int]] = []
            for at in self._dataflow.dynamic:
                task, enough = self._dataflow.tasks[at], self._capacity[at] + _ROUNDING
                now = task.alternates[self.active[at]].value
                better = [
                    (task.tenants * (one.value - now), at, other)
                    for other, one in enumerate(task.alternates)
                    if one.value > now
                    and self._ideal[at] * one.cost * self._omega <= enough
                    and (at, other) not in failed
                ]
                gains += [max(better)] if better else []
            possible = [(at, other) for _, at, other in sorted(gains, reverse=True)]
            if not possible:
                return
            if not self._taken(possible, self._switch):
                failed.add(possible[0])

    def _taken(self, steps: Sequence[_Step], take: Callable[[_Step], None]) -> bool:
        """Take as many steps from the first one on as leave the throughput; whether there are any."""
        before = self.active[:], self.counts[:], self._capacity[:]
        least, most = 0, len(steps)
        trial = most
        while least < most:
            for step in steps[:trial]:
                take(step)
            self._tries -= 1
            _, done = self._served()
            if mean_share(self._dataflow, done, self._ideal) >= self._omega - _ROUNDING:
                least = trial
            else:
                most = trial - 1
            self.active, self.counts, self._capacity = (each[:] for each in before)  # type: ignore[assignment]
            trial = (least + most + 1) // 2
        for step in steps[:least]:
            take(step)
        return least > 0

    def _step_down(self, task: int) -> None:
        """Take back from a task what it can do without most easily."""
        smaller = self._menu.smaller(self._dataflow.tasks[task].tags, self.counts[task])
        if smaller is not None:
            self.counts[task] = smaller.counts
            self._capacity[task] = self._menu.power(smaller.counts)

    def _switch(self, choice: tuple[int, int]) -> None:
        """Have another alternate active."""
        task, other = choice
        self.active[task] = other

    def _served(self) -> tuple[list[float], list[float]]:
        """What reaches each task, and what it does."""
        active = tuple(self.active)
        if active != self._reckoned:
            self._ideal, self._reckoned = ideal_rates(self._dataflow, active, self._rates), active
        return served(self._dataflow, active, self._rates, self._capacity)

    def _slopes(self, taken: Sequence[float], done: Sequence[float]) -> list[float]:
        """How much of the throughput an event a second that a task does less loses, at least, if others stay."""
        dataflow = self._dataflow
        tenants = sum(dataflow.tasks[at].tenants for at in dataflow.sinks)
        slopes = [0.0] * len(dataflow.tasks)
        for at in dataflow.sinks:
            if self._ideal[at] > 0:
                slopes[at] = dataflow.tasks[at].tenants / tenants / self._ideal[at]
        for at in reversed(range(len(dataflow.tasks))):
            below = 0.0
            for child in dataflow.children[at]:
                # A task that does all that reaches it does less if less does.
                if done[child] >= taken[child]:
                    below += slopes[child]
            if dataflow.children[at]:
                slopes[at] = below * dataflow.tasks[at].alternates[self.active[at]].selectivity
        return slopes
