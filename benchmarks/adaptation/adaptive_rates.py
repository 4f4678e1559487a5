"""Figures 4.6 and 4.7c: adaptation at run time, over rates from 10 to 2,000 events a second."""

from collections.abc import Iterator

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
    central = {rate: _run(rate, reaction.centralised) for rate in rates}
    sharded = {rate: _run(rate, reaction.sharded, central=False) for rate in rates}
    own = {rate: _run(rate, horizon.adapted) for rate in rates}
    static = {rate: _run(rate, unchanged) for rate in rates}
    for name, runs, thesis in (
        ("static CE", static, "0.3 to 0.6"),
        ("CE", central, ">= 0.8"),
        ("SH", sharded, ">= 0.8"),
        ("own", own, ">= 0.8"),
    ):
        yield row(f"Omega by rate, {name}", thesis, {f"{rate:g}": run.omega for rate, run in runs.items()})
    for name, runs in (("CE", central), ("SH", sharded), ("own", own)):
        profits = {f"{rate:g}": run.theta for rate, run in runs.items()}
        yield row(f"profit by rate, {name}", {"50": 0.29} if name == "CE" else None, profits)
    evolved = {rate: _run(rate, genetic.adapted) for rate in GENETIC_RATES[: 1 if quick else 2]}
    yield row("profit by rate, GA", {"50": 0.34}, {f"{rate:g}": run.theta for rate, run in evolved.items()})
    yield row(
        "profit of CE as a part of GA's",
        "0.6 to 0.8",
        {f"{rate:g}": central[rate].theta / run.theta for rate, run in evolved.items()},
        "beyond 50 events/s GA takes too long here",
    )
    saved = {
        f"{rate:g}": 1 - central[rate].cost / _run(rate, reaction.centralised, dynamic=False).cost for rate in rates
    }
    yield row("cost that alternates save, CE", "0.069 to 0.275", saved)
    own_saved = {
        f"{rate:g}": 1 - run.cost / _run(rate, horizon.adapted, dynamic=False).cost for rate, run in own.items()
    }
    yield row(
        "cost that alternates save, own",
        None,
        own_saved,
        "it prefers the best alternates while they are worth their cost",
    )


def _run(rate: float, adaptation: Adaptation, *, central: bool = True, dynamic: bool = True) -> SimulatedRun:
    dataflow, goal = linear_road(dynamic=dynamic), road_goal(rate)
    world = road_world(dataflow, goal, random_walk(rate, INTERVALS, seed=_SEED), _SEED)
    return simulate(world, greedy.deployed(dataflow, road_rates(rate), M1, goal, central=central), adaptation)
