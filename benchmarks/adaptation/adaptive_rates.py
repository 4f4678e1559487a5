"""Figures 4.6 and 4.7c: adaptation at run time, over rates from 10 to 2,000 events a second."""

from collections.abc import Iterator, Sequence

from benchmarks.adaptation.linear_road import M1, linear_road, road_goal, road_rates
from benchmarks.adaptation.rows import INTERVALS, Row, road_world, row
from provisioning import horizon
from provisioning.algorithms import genetic, greedy, reaction
from provisioning.deployment import Adaptation, unchanged
from provisioning.simulator import SimulatedRun, random_walk, simulate

RATES = (10.0, 20.0, 50.0, 100.0, 500.0, 2000.0)
GENETIC_RATES = (20.0, 50.0)
_SEED = 1


def adaptive_rates(*, quick: bool) -> Iterator[Row]:
    """The rows of the figures."""
    rates = RATES[:3] if quick else RATES
    central = _runs(rates, reaction.centralised)
    sharded = _runs(rates, reaction.sharded, central=False)
    own = _runs(rates, horizon.adapted)
    static = _runs(rates, unchanged)
    for name, runs, thesis in (
        ("static CE", static, "0.3 to 0.6"),
        ("CE", central, ">= 0.8"),
        ("SH", sharded, ">= 0.8"),
        ("own", own, ">= 0.8"),
    ):
        yield row(f"Omega by rate, {name}", thesis, {rate: run.omega for rate, run in runs.items()})
    evolved = _runs(GENETIC_RATES[: 1 if quick else 2], genetic.adapted)
    for name, runs, profit in (("CE", central, 0.29), ("SH", sharded, None), ("own", own, None), ("GA", evolved, 0.34)):
        profits = {rate: run.theta for rate, run in runs.items()}
        yield row(f"profit by rate, {name}", {"50": profit} if profit else None, profits)
    parts = {rate: central[rate].theta / run.theta for rate, run in evolved.items()}
    yield row("profit of CE as a part of GA's", "0.6 to 0.8", parts, "beyond 50 events/s GA takes too long here")
    fixed = _runs(rates, reaction.centralised, dynamic=False)
    saved = {rate: 1 - run.cost / fixed[rate].cost for rate, run in central.items()}
    yield row("cost that alternates save, CE", "0.069 to 0.275", saved)
    own_fixed = _runs(rates, horizon.adapted, dynamic=False)
    own_saved = {rate: 1 - run.cost / own_fixed[rate].cost for rate, run in own.items()}
    note = "it prefers the best alternates while they are worth their cost"
    yield row("cost that alternates save, own", None, own_saved, note)


def _runs(
    rates: Sequence[float], adaptation: Adaptation, *, central: bool = True, dynamic: bool = True
) -> dict[str, SimulatedRun]:
    """A run at each rate, by the rate as the report names it."""
    return {f"{rate:g}": _run(rate, adaptation, central=central, dynamic=dynamic) for rate in rates}


def _run(rate: float, adaptation: Adaptation, *, central: bool, dynamic: bool) -> SimulatedRun:
    dataflow, goal = linear_road(dynamic=dynamic), road_goal(rate)
    world = road_world(dataflow, goal, random_walk(rate, INTERVALS, seed=_SEED), _SEED)
    return simulate(world, greedy.deployed(dataflow, road_rates(rate), M1, goal, central=central), adaptation)
