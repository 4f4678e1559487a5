"""Mixes: alternates for all tasks together, as far as any is worth considering; and the plan on a number of cores.

Few mixes are enumerated. Of many, those on the hull are found with prices: at each price of a core, every task takes
the alternate whose value less the price of its work, and of the work it causes below, is highest.

The plan says which mix runs at which of the predicted intervals, where all tasks share a fixed number of cores. It is
dynamic programming over intervals and mixes. First comes the throughput, then value, then less work; and a switch must
be worth its cost, so that a short lull does not make alternates go to and fro.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product

from provisioning.algorithms.greedy import causes, chosen_upwards, selected
from provisioning.deployment import Rates
from provisioning.figures import (
    LARGEST,
    Active,
    DataflowFigures,
    ideal_rates,
    needs,
    refuse,
    wrong_figure,
    wrong_rates,
)

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
    every = product(*(range(len(task.alternates)) for task in dataflow.tasks))
    actives = every if choices <= MOST_ENUMERATED else _priced(dataflow, rates)
    made = [_made(dataflow, rates, active) for active in dict.fromkeys((*actives, selected(dataflow, central=True)))]
    kept = _efficient(made)
    known = {mix.active for mix in kept}
    kept += [_made(dataflow, rates, active) for active in dict.fromkeys(others) if active not in known]
    return tuple(kept)


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

    def loss(at: int) -> float:
        one, other = (dataflow.tasks[at].alternates[choice[at]] for choice in (better, cheaper))
        return dataflow.tasks[at].importance * (one.value - other.value) / max(one.cost - other.cost, 1e-9)

    changed = sorted((at for at, choice in enumerate(better) if choice != cheaper[at]), key=loss)
    for part in range(1, _PARTS):
        active = list(better)
        for at in changed[: len(changed) * part // _PARTS]:
            active[at] = cheaper[at]
        yield tuple(active)


def _at_price(dataflow: DataflowFigures, rates: Rates, before: Active, price: float) -> Active:
    """The best alternate of each task at a price of a core, with the rates that the choices before led to."""
    taken = ideal_rates(dataflow, before, rates)
    weight = 1.0 / (sum(dataflow.tasks[at].importance for at in dataflow.dynamic) or 1.0)

    def best(at: int, under: float) -> int:
        task = dataflow.tasks[at]
        if len(task.alternates) == 1:
            return 0
        worth = [
            one.value * task.importance * weight - price * taken[at] * (one.cost + one.selectivity * under)
            for one in task.alternates
        ]
        return max(range(len(worth)), key=worth.__getitem__)

    return chosen_upwards(dataflow, best)[0]


def _made(dataflow: DataflowFigures, rates: Rates, active: Active) -> Mix:
    return Mix(active=active, gamma=dataflow.gamma(active), cores=cores_of(dataflow, rates, causes(dataflow, active)))


def cores_of(dataflow: DataflowFigures, rates: Rates, below: Sequence[float]) -> float:
    """The reference cores that serve all events, by what an event into each task causes."""
    return sum(max(0.0, rate) * below[dataflow.number[name]] for name, rate in rates.items())


def _efficient(made: Iterable[Mix]) -> list[Mix]:
    """Those of which no other is worth as much and takes less, the best value first; of many, some over the range."""
    kept: list[Mix] = []
    for mix in sorted(made, key=lambda mix: (-mix.gamma, mix.cores)):
        if not kept or mix.cores < kept[-1].cores - 1e-12:
            kept.append(mix)
    if len(kept) <= MOST_MIXES:
        return kept
    last = len(kept) - 1
    return [kept[round(at * last / (MOST_MIXES - 1))] for at in range(MOST_MIXES)]


SWITCH_COST = 0.05
"""The value that switching all tasks with a choice costs, once; of one interval's value, which is at most 1."""
_SHORT = 1000.0
_LOAD = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonStep(Mix):
    """What is planned for one interval."""

    omega: float
    """Its relative throughput as far as it is known, at most 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPlan:
    """What is planned for all predicted intervals; only the first step is carried out, and then planned anew."""

    steps: tuple[HorizonStep, ...]

    @property
    def now(self) -> HorizonStep:
        """The step for the next interval."""
        return self.steps[0]


def plan(  # noqa: PLR0913  all that a plan considers, by name
    dataflow: DataflowFigures,
    forecast: Sequence[Rates],
    *,
    cores: float,
    omega: float = 0.8,
    running: Active | None = None,
    switch_cost: float = SWITCH_COST,
) -> HorizonPlan:
    """The best alternates for each interval of a forecast, on so many reference cores.

    Pass a union of dataflows to plan for all tenants at once, and only those alternates that are allowed.
    """
    if not forecast:
        raise ValueError("a plan needs the forecast of one interval at least")
    # Predictions below nothing count as nothing.
    wrong = (*wrong_figure("cores", cores), *wrong_figure("omega", omega, most=1.0))
    wrong += (
        *wrong_figure("switch_cost", switch_cost),
        *chain(*(wrong_rates(rates, least=-LARGEST) for rates in forecast)),
    )
    refuse("this cannot be planned", wrong)
    most = {name: max(max(0.0, rates.get(name, 0.0)) for rates in forecast) for name in forecast[0]}
    options = [mix.active for mix in mixes(dataflow, most, *([running] if running else ()))]
    below = [causes(dataflow, active) for active in options]
    gammas = [dataflow.gamma(active) for active in options]
    steps = [
        [
            _step(active, gamma, cores_of(dataflow, rates, caused), cores)
            for active, gamma, caused in zip(options, gammas, below, strict=True)
        ]
        for rates in forecast
    ]
    changes = [[switch_cost * changed_share(dataflow, one, other) for other in options] for one in options]
    first = [switch_cost * changed_share(dataflow, running, active) if running else 0.0 for active in options]
    # The best score of each mix at an interval, and the mix before it.
    scores = [_score(step, omega, cores) - first[at] for at, step in enumerate(steps[0])]
    before: list[list[int]] = []
    for coming in steps[1:]:
        best = [
            max(range(len(options)), key=lambda old, at=at, scores=scores: scores[old] - changes[old][at])  # type: ignore[misc]
            for at in range(len(options))
        ]
        scores = [
            scores[best[at]] - changes[best[at]][at] + _score(step, omega, cores) for at, step in enumerate(coming)
        ]
        before.append(best)
    path = [max(range(len(options)), key=scores.__getitem__)]
    for best in reversed(before):
        path.append(best[path[-1]])
    return HorizonPlan(steps=tuple(step[at] for step, at in zip(steps, reversed(path), strict=True)))


def _step(active: Active, gamma: float, needed: float, cores: float) -> HorizonStep:
    served = min(1.0, cores / needed) if needed > 0 else 1.0
    return HorizonStep(active=active, gamma=gamma, omega=served, cores=needed)


def _score(step: HorizonStep, omega: float, cores: float) -> float:
    short = max(0.0, omega - step.omega)
    return step.gamma - _SHORT * short - _LOAD * step.cores / max(cores, 1e-9)


def changed_share(dataflow: DataflowFigures, one: Active, other: Active) -> float:
    """The part of the tasks with a choice that are switched."""
    return sum(one[at] != other[at] for at in dataflow.dynamic) / max(1, len(dataflow.dynamic))
