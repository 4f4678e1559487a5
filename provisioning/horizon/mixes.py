"""Mixes: alternates for all tasks together, as far as any is worth considering.

Few are enumerated. Of many, those on the hull are found with prices: at each price of a core, every task takes the
alternate whose value less the price of its work, and of the work it causes below, is highest.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from provisioning.algorithms.alternate_costs import causes, selected
from provisioning.dataflow_figures import Active, DataflowFigures, TaskFigures
from provisioning.outlook import Rates
from provisioning.throughput import ideal_rates, needs

MOST_ENUMERATED = 256
MOST_MIXES = 24
_PRICES = 16
_PARTS = 4
_ROUNDS = 2
"""How often rates and choices are settled with each other at one price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Alternates for all tasks, with what they are worth and take at some rates."""

    active: Active
    gamma: float
    cores: float
    """The reference cores that serve all events."""


def mixes(dataflow: DataflowFigures, rates: Rates, *others: Active) -> tuple[Mix, ...]:
    """The mixes that are worth considering at these rates, the best value first, and some others in any case."""
    choices = math.prod(len(dataflow.tasks[at].alternates) for at in dataflow.dynamic)
    found = _all(dataflow) if choices <= MOST_ENUMERATED else _priced(dataflow, rates)
    made = [_made(dataflow, rates, active) for active in dict.fromkeys((*found, selected(dataflow, central=True)))]
    kept = _spread(_efficient(made))
    known = {mix.active for mix in kept}
    kept += [_made(dataflow, rates, active) for active in dict.fromkeys(others) if active not in known]
    return tuple(kept)


def _all(dataflow: DataflowFigures) -> Iterator[Active]:
    return product(*(range(len(task.alternates)) for task in dataflow.tasks))


def _priced(dataflow: DataflowFigures, rates: Rates) -> Iterator[Active]:
    """The choices at prices from nothing to more than all value."""
    best = dataflow.best()
    hull = [best]
    typical = max(sum(needs(dataflow, best, rates)), 1e-9)
    active = best
    for exponent in range(_PRICES):
        price = 0.01 * 1.8**exponent / typical
        for _ in range(_ROUNDS):
            active = _at_price(dataflow, rates, active, price)
        hull.append(active)
    for better, cheaper in pairwise(dict.fromkeys(hull)):
        yield better
        yield from _between(dataflow, better, cheaper)
    yield hull[-1]


def _between(dataflow: DataflowFigures, better: Active, cheaper: Active) -> Iterator[Active]:
    """Mixes between two, in which a part of the tasks is switched, those that lose least value for their work first."""
    changed = [at for at, (one, other) in enumerate(zip(better, cheaper, strict=True)) if one != other]
    changed.sort(key=lambda at: _loss(dataflow.tasks[at], better[at], cheaper[at]))
    for part in range(1, _PARTS):
        active = list(better)
        for at in changed[: len(changed) * part // _PARTS]:
            active[at] = cheaper[at]
        yield tuple(active)


def _loss(task: TaskFigures, better: int, cheaper: int) -> float:
    """The value that is lost for the work that is saved."""
    one, other = task.alternates[better], task.alternates[cheaper]
    return task.tenants * (one.value - other.value) / max(one.cost - other.cost, 1e-9)


def _at_price(dataflow: DataflowFigures, rates: Rates, before: Active, price: float) -> Active:
    """The best alternate of each task at a price of a core, with the rates that the choices before led to."""
    taken = ideal_rates(dataflow, before, rates)
    weight = 1.0 / max(1, sum(dataflow.tasks[at].tenants for at in dataflow.dynamic))
    below = [0.0] * len(dataflow.tasks)
    active = list(before)
    for at in reversed(range(len(dataflow.tasks))):
        task = dataflow.tasks[at]
        under = 0.0
        for child in dataflow.children[at]:
            under += below[child]
        if len(task.alternates) == 1:
            below[at] = task.alternates[0].cost + task.alternates[0].selectivity * under
            continue
        costs = [one.cost + one.selectivity * under for one in task.alternates]
        worth = [
            one.value * task.tenants * weight - price * taken[at] * cost
            for one, cost in zip(task.alternates, costs, strict=True)
        ]
        active[at] = max(range(len(worth)), key=lambda each, worth=worth: (worth[each], -each))  # type: ignore[misc]
        below[at] = costs[active[at]]
    return tuple(active)


def _made(dataflow: DataflowFigures, rates: Rates, active: Active) -> Mix:
    return Mix(active=active, gamma=dataflow.gamma(active), cores=cores_of(dataflow, rates, causes(dataflow, active)))


def cores_of(dataflow: DataflowFigures, rates: Rates, below: Sequence[float]) -> float:
    """The reference cores that serve all events, by what an event into each task causes."""
    return sum(max(0.0, rate) * below[dataflow.number[name]] for name, rate in rates.items())


def _efficient(made: Iterable[Mix]) -> list[Mix]:
    """Those of which no other is worth as much and takes less, the best value first."""
    kept: list[Mix] = []
    for mix in sorted(made, key=lambda each: (-each.gamma, each.cores)):
        if not kept or mix.cores < kept[-1].cores - 1e-12:
            kept.append(mix)
    return kept


def _spread(kept: list[Mix]) -> list[Mix]:
    """At most so many, over the whole range."""
    if len(kept) <= MOST_MIXES:
        return kept
    last = len(kept) - 1
    return [kept[round(at * last / (MOST_MIXES - 1))] for at in range(MOST_MIXES)]
