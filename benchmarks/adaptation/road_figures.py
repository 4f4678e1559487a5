"""Figures of Linear Road: adaptation at run time, deployments that do not adapt, and how well throughput is kept.

They are the thesis' figures 4.6 and 4.7c, over rates from 10 to 2,000 events a second; its table 4.2; and how many
intervals keep the throughput within its tolerance, at what cost, over rates and machines that vary.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from statistics import fmean

from benchmarks.adaptation.dataflows import M1, linear_road, road_goal, road_rates
from benchmarks.adaptation.rows import INTERVALS, SEEDS, Row, road_world, row
from provisioning import horizon
from provisioning.algorithms import brute_force, genetic, greedy, look_ahead, reaction
from provisioning.algorithms.reaction import BASELINES
from provisioning.deployment import Adaptation, unchanged
from provisioning.simulator import Series, SimulatedRun, constant, random_walk, simulate, spike, wave

RATES = (10.0, 20.0, 50.0, 100.0, 500.0, 2000.0)
GENETIC_RATES = (20.0, 50.0)
_SEED = 1


def adaptive_rates(*, quick: bool) -> Iterator[Row]:
    """The rows of the figures."""
    rates = RATES[:3] if quick else RATES
    central = _runs_at(rates, reaction.centralised)
    sharded = _runs_at(rates, reaction.sharded, central=False)
    own = _runs_at(rates, horizon.adapted)
    static = _runs_at(rates, unchanged)
    for name, runs in (("static CE", static), ("CE", central), ("SH", sharded), ("own", own)):
        yield row(f"Omega by rate, {name}", {rate: run.omega for rate, run in runs.items()})
    evolved = _runs_at(GENETIC_RATES[: 1 if quick else 2], genetic.adapted)
    for name, runs in (("CE", central), ("SH", sharded), ("own", own), ("GA", evolved)):
        yield row(f"profit by rate, {name}", {rate: run.theta for rate, run in runs.items()})
    parts = {rate: central[rate].theta / run.theta for rate, run in evolved.items()}
    yield row("profit of CE as a part of GA's", parts, "beyond 50 events/s GA takes too long here")
    fixed = _runs_at(rates, reaction.centralised, dynamic=False)
    saved = {rate: 1 - run.cost / fixed[rate].cost for rate, run in central.items()}
    yield row("cost that alternates save, CE", saved)
    own_fixed = _runs_at(rates, horizon.adapted, dynamic=False)
    own_saved = {rate: 1 - run.cost / own_fixed[rate].cost for rate, run in own.items()}
    yield row("cost that alternates save, own", own_saved)


def _runs_at(
    rates: Sequence[float], adaptation: Adaptation, *, central: bool = True, dynamic: bool = True
) -> dict[str, SimulatedRun]:
    """A run at each rate, by the rate as the report names it."""
    return {f"{rate:g}": _run_at(rate, adaptation, central=central, dynamic=dynamic) for rate in rates}


def _run_at(rate: float, adaptation: Adaptation, *, central: bool, dynamic: bool) -> SimulatedRun:
    dataflow, goal = linear_road(dynamic=dynamic), road_goal(rate)
    world = road_world(dataflow, goal, random_walk(rate, INTERVALS, seed=_SEED), _SEED)
    return simulate(world, greedy.deployed(dataflow, road_rates(rate), M1, goal, central=central), adaptation)


_STATIC_RATE = 50.0
VARIES = ("neither", "machines", "rates", "both")


def static_deployment() -> Iterator[Row]:
    """The rows of the table."""
    dataflow, goal, rates = linear_road(), road_goal(_STATIC_RATE), road_rates(_STATIC_RATE)
    deployments = {
        "BR": brute_force.deployed(dataflow, rates, M1, goal),
        "GA": genetic.deployed(dataflow, rates, M1, goal),
        "CE": greedy.deployed(dataflow, rates, M1, goal, central=True),
        "SH": greedy.deployed(dataflow, rates, M1, goal, central=False),
        "own": horizon.deployed(dataflow, rates, M1, goal),
    }
    for name, deployment in deployments.items():
        theta = goal.theta(dataflow, dataflow.gamma(deployment.active), deployment.price() * goal.hours)
        yield row(f"profit at 50 events/s, {name}", theta)
    for name, deployment in deployments.items():
        for varies in VARIES:
            runs = []
            for seed in SEEDS:
                walk = random_walk(_STATIC_RATE, INTERVALS, seed=seed)
                reports = walk if varies in {"rates", "both"} else constant(_STATIC_RATE, INTERVALS)
                world = road_world(dataflow, goal, reports, seed if varies in {"machines", "both"} else None)
                runs.append(simulate(world, deployment, unchanged))
            ours = {
                "arriving": fmean(run.omega for run in runs),
                "with backlog": fmean(run.omega_of_all for run in runs),
            }
            yield row(f"Omega of static {name}, varying: {varies}", ours)


_RATE = 100.0
MOSTLY = 0.8
THESIS: Mapping[str, Adaptation] = {"SH": reaction.sharded, **BASELINES, "PLAStiCC": look_ahead.adapted}


def tolerance(*, quick: bool) -> Iterator[Row]:
    """Rows with a choice of alternates, and with none, where cost alone is to be compared."""
    seeds = SEEDS[:1] if quick else SEEDS
    for dynamic, title in ((True, "with alternates"), (False, "best alternates only")):
        every = {**THESIS, "own": horizon.adapted}
        runs = {name: _runs(adaptation, seeds, dynamic=dynamic) for name, adaptation in every.items()}
        kept, cost, profit = (
            {name: fmean(map(attrgetter(figure), own)) for name, own in runs.items()}
            for figure in ("kept", "cost", "theta")
        )
        yield row(f"intervals in tolerance, {title}", kept, "own to be at least 0.9")
        yield row(f"cost, {title}", cost)
        yield row(f"profit, {title}", profit)
        best = max((name for name in THESIS if kept[name] >= MOSTLY), key=lambda name: profit[name])
        own = {
            "in tolerance": kept["own"],
            "cost by the best's": cost["own"] / cost[best],
            "profit over the best's": profit["own"] - profit[best],
        }
        note = f"the best by profit of those that keep it in 80 % of intervals: {best}"
        yield row(f"own beside the best of the thesis, {title}", own, note)


def _runs(adaptation: Adaptation, seeds: tuple[int, ...], *, dynamic: bool) -> list[SimulatedRun]:
    dataflow, goal = linear_road(dynamic=dynamic), road_goal(_RATE)
    runs = []
    for seed in seeds:
        for series in _series(seed):
            world = road_world(dataflow, goal, series, seed)
            first = greedy.deployed(dataflow, road_rates(series[0]), M1, goal, central=True)
            runs.append(simulate(world, first, adaptation))
    return runs


def _series(seed: int) -> tuple[Series, ...]:
    return (
        random_walk(_RATE, INTERVALS, seed=seed),
        wave((0.5 * _RATE, 1.5 * _RATE), INTERVALS, period=INTERVALS / 3, noise=0.1, seed=seed),
        spike(_RATE, INTERVALS, at=INTERVALS // 2, length=6, factor=2.0),
    )
