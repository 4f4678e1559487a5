"""Packing: the cheapest cores that have the throughput with given alternates, in nearly linear time.

Every task first gets the cores for the wanted part of what it needs, which suffices for all sinks. Whole cores leave
something over, so cores are then taken back, many at once. What that loses at least is known beforehand from one pass
backwards: throughput is a concave function of the capacities, so its slope bounds every loss, also of several cores
together. At last better alternates take what is still left over.

`CoreMenu` says what capacities cost: the cheapest cores of so much power, and the next smaller ones. `sink_levels` says
what part of its events each sink gets, so that the mean is reached at a low price. Whole cores make some levels cheap:
just where a task makes do with a core less. So some sinks get all of their events and others few, if that costs less
than the same for all. What lies above several sinks serves the highest of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from provisioning.algorithms.greedy import chosen_upwards, depth_first, grow
from provisioning.algorithms.repack import CoreKind, Counts, assembled, kinds_of
from provisioning.deployment import Deployment, DeploymentDraft, Rates
from provisioning.figures import (
    Active,
    DataflowFigures,
    MachineClass,
    ProfitGoal,
    ideal_rates,
    mean_share,
    needs,
    served,
)

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Smaller:
    """The next smaller capacity of a task."""

    counts: Counts
    lost: float
    """Power."""
    saved: float
    """Price."""


class CoreMenu:
    """What capacities cost: kinds of cores, by the tags that a task needs."""

    def __init__(self, classes: Sequence[MachineClass]) -> None:
        self.classes = tuple(classes)
        self.kinds: tuple[CoreKind, ...] = kinds_of(classes)
        self.prices = tuple(kind.least_price for kind in self.kinds)
        self.speeds = tuple(kind.speed for kind in self.kinds)
        self.power_price = min(price / speed for price, speed in zip(self.prices, self.speeds, strict=True))
        """The lowest price of a reference core by the hour."""
        self._fitting: dict[frozenset[str], tuple[int, ...]] = {}
        self._smaller: dict[tuple[frozenset[str], Counts], _Smaller | None] = {}

    def cover(self, tags: frozenset[str], power: float) -> tuple[float, int, int, int]:
        """The price of the cheapest cores of so much power; so many of one kind, and the kind of one more, or -1."""
        best: tuple[float, int, int, int] | None = None
        fitting = self._offering(tags)
        for kind in fitting:
            whole = int(power / self.speeds[kind] + _ROUNDING)
            rest = power - whole * self.speeds[kind]
            price, last = whole * self.prices[kind], -1
            if rest > _ROUNDING or not whole:
                last = min(
                    (one for one in fitting if self.speeds[one] >= rest - _ROUNDING), key=self.prices.__getitem__
                )
                price += self.prices[last]
            if best is None or price < best[0] - _ROUNDING:
                best = price, whole, kind, last
        if best is None:
            raise ValueError(f"no class of machines offers {', '.join(sorted(tags)) or 'a core'}; add one")
        return best

    def counts(self, tags: frozenset[str], power: float) -> Counts:
        """The cheapest cores of so much power."""
        _, whole, kind, last = self.cover(tags, power)
        return tuple(whole * (at == kind) + (at == last) for at in range(len(self.kinds)))

    def power(self, counts: Counts) -> float:
        """What so many cores do."""
        return sum(count * speed for count, speed in zip(counts, self.speeds, strict=True))

    def price(self, counts: Counts) -> float:
        """What so many cores cost at least."""
        return sum(count * price for count, price in zip(counts, self.prices, strict=True))

    def smaller(self, tags: frozenset[str], counts: Counts) -> _Smaller | None:
        """One core less, or a cheaper one in its place, whichever loses least power; None if nothing is to be saved."""
        key = tags, counts
        if key not in self._smaller:
            options = [one for one in self._less(tags, counts) if one.saved > _ROUNDING]
            self._smaller[key] = min(options, key=lambda one: (one.lost, -one.saved), default=None)
        return self._smaller[key]

    def _offering(self, tags: frozenset[str]) -> tuple[int, ...]:
        if tags not in self._fitting:
            self._fitting[tags] = tuple(at for at, kind in enumerate(self.kinds) if tags <= kind.tags)
        return self._fitting[tags]

    def _less(self, tags: frozenset[str], counts: Counts) -> Iterator[_Smaller]:
        for kind, count in enumerate(counts):
            if not count:
                continue
            without = (*counts[:kind], count - 1, *counts[kind + 1 :])
            if sum(without):
                yield _Smaller(counts=without, lost=self.speeds[kind], saved=self.prices[kind])
            for other in self._offering(tags):
                if self.speeds[other] < self.speeds[kind]:
                    yield _Smaller(
                        counts=(*without[:other], without[other] + 1, *without[other + 1 :]),
                        lost=self.speeds[kind] - self.speeds[other],
                        saved=self.prices[kind] - self.prices[other],
                    )


def menus(dataflow: DataflowFigures, classes: Sequence[MachineClass]) -> Iterator[CoreMenu]:
    """All classes, and, if a core is cheapest only on a machine that is full, also some of them."""
    kinds = kinds_of(classes)
    yield CoreMenu(classes)
    if all(kind.linear for kind in kinds):
        return
    wanted = {task.tags for task in dataflow.tasks}
    without = [tuple(other for other in kinds if other is not kind) for kind in kinds]
    for some in dict.fromkeys((*without, *((kind,) for kind in kinds))):
        if all(any(tags <= kind.tags for kind in some) for tags in wanted):
            yield CoreMenu([one for kind in some for one in kind.classes])


_SHARED = -1
_STEPS = 4
"""The cores less of a task that are considered."""
_LEVELS = 24
"""The levels of a sink that are considered."""

Price = Callable[[int, float], float]
"""The price of so many reference cores for a task."""


def sink_levels(  # noqa: PLR0913  all that a level follows from
    dataflow: DataflowFigures, needs: Sequence[float], price: Price, grain: float, *, highest: float, mean: float
) -> list[float]:
    """The level of each task, with none above the highest one, and with so high a mean over sinks and tenants."""
    regions = _regions(dataflow)
    total = sum(dataflow.tasks[at].tenants for at in dataflow.sinks)
    spare = (highest - mean) * total
    chosen = dict.fromkeys(regions, highest)
    moves: list[tuple[float, float, int, float]] = []
    for sink, tasks in regions.items():
        curve = _curve(tasks, needs, price, grain, highest)
        weight = dataflow.tasks[sink].tenants
        for (above, dear), (level, cheap) in pairwise(curve):
            loss = weight * (above - level)
            moves.append(((cheap - dear) / loss, loss, sink, level))
    closed: set[int] = set()
    for _, loss, sink, level in sorted(moves, key=lambda move: (move[0], -move[3])):
        if sink in closed:
            continue
        if loss > spare + _ROUNDING:
            closed.add(sink)
            continue
        spare -= loss
        chosen[sink] = level
    levels = [highest] * len(dataflow.tasks)
    for sink, tasks in regions.items():
        for task in tasks:
            levels[task] = chosen[sink]
    return levels


def _regions(dataflow: DataflowFigures) -> dict[int, list[int]]:
    """For each sink the tasks that work for it alone."""
    label = [_SHARED] * len(dataflow.tasks)
    regions: defaultdict[int, list[int]] = defaultdict(list)
    for at in reversed(range(len(dataflow.tasks))):
        below = {label[child] for child in dataflow.children[at]}
        label[at] = at if not below else below.pop() if len(below) == 1 else _SHARED
        if label[at] != _SHARED:
            regions[label[at]].append(at)
    return regions


def _curve(
    tasks: Sequence[int], needs: Sequence[float], price: Price, grain: float, highest: float
) -> list[tuple[float, float]]:
    """Levels of a region and their prices, from the highest one down; convex, so that what saves most comes first."""
    levels = {0.0}
    for task in tasks:
        if needs[task] > 0:
            whole = int(needs[task] * highest / grain - _ROUNDING)
            levels |= {cores * grain / needs[task] for cores in range(max(1, whole - _STEPS + 1), whole + 1)}
    ordered = sorted(level for level in levels if level < highest - _ROUNDING)
    if len(ordered) > _LEVELS:
        ordered = [ordered[round(at * (len(ordered) - 1) / (_LEVELS - 1))] for at in range(_LEVELS)]
    hull: list[tuple[float, float]] = []
    for level in (highest, *reversed(ordered)):
        point = level, sum(price(task, needs[task] * level) for task in tasks)
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], point):
            hull.pop()
        hull.append(point)
    return [point for at, point in enumerate(hull) if not at or point[1] < hull[at - 1][1] - _ROUNDING]


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    """What is saved on the way down, by level."""
    return (one[1] - other[1]) / (one[0] - other[0])


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
    wanted = zip(dataflow.tasks, needs(dataflow, active, rates), strict=True)
    return sum(menu.cover(task.tags, need * omega)[0] for task, need in wanted)


def settled(dataflow: DataflowFigures, before: Active, rates: Rates, menu: CoreMenu, goal: ProfitGoal) -> Active:
    """The alternates of the highest profit at the rates that those before led to, by whole cores.

    So a better alternate that needs no more cores is taken, however dear its work is. What an alternate causes below
    counts by the price of power.
    """
    taken = ideal_rates(dataflow, before, rates)
    worth = goal.sigma(dataflow) * goal.hours
    weight = 1.0 / (sum(dataflow.tasks[at].importance for at in dataflow.dynamic) or 1.0)

    def best(at: int, under: float) -> int:
        task = dataflow.tasks[at]
        if len(task.alternates) == 1:
            return 0
        profits = []
        for one in task.alternates:
            price = menu.cover(task.tags, taken[at] * one.cost * goal.omega)[0]
            caused = taken[at] * one.selectivity * goal.omega * under
            profits.append(one.value * task.importance * weight - worth * (price + caused))
        return max(range(len(profits)), key=profits.__getitem__)

    return chosen_upwards(dataflow, best, menu.power_price)[0]


def packed(dataflow: DataflowFigures, active: Active, rates: Rates, menu: CoreMenu, omega: float) -> Deployment:
    """A deployment that has the throughput, at a low price; with better alternates where they cost nothing."""
    starts = _starts(dataflow, active, rates, menu, omega)
    packings = [
        _Packing(dataflow, active, rates, menu, omega, counts)
        for counts in (starts if len(dataflow.tasks) <= _MANY else starts[:1])
    ]
    for packing in packings:
        packing.take_back()
    packing = min(packings, key=lambda packing: sum(map(menu.price, packing.counts)))
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
    wanted, grain = needs(dataflow, active, rates), min(menu.speeds)

    def price(task: int, power: float) -> float:
        return menu.cover(dataflow.tasks[task].tags, power)[0]

    options = [
        sink_levels(dataflow, wanted, price, grain, highest=highest, mean=omega)
        for highest in dict.fromkeys((omega, *(level for level in _HIGHEST if level > omega)))
    ]
    counts = [
        [menu.counts(task.tags, need * level) for task, need, level in zip(dataflow.tasks, wanted, levels, strict=True)]
        for levels in options
    ]
    return sorted(counts, key=lambda option: sum(map(menu.price, option)))


class _Packing:
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
                    (task.importance * (one.value - now), at, other)
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
            self.active, self.counts, self._capacity = (kept[:] for kept in before)  # type: ignore[assignment]
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
        task, other = choice
        self.active[task] = other

    def _served(self) -> tuple[list[float], list[float]]:
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
