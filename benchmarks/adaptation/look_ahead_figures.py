"""Figures of looking ahead, by the horizon, the errors and the bias of predictions, and on two published graphs.

They are the thesis' figures 5.3 to 5.5, and profit by how much work there is: the horizon beside the algorithms of the
thesis.
"""

from collections.abc import Iterator
from statistics import fmean

from benchmarks.adaptation.dataflows import (
    M1,
    PUBLISHED_GRAPHS,
    Graph,
    published_dataflow,
    rate_for,
    staged_dataflow,
    staged_goal,
    staged_rates,
)
from benchmarks.adaptation.rows import INTERVALS, SEEDS, Row, row
from provisioning import horizon
from provisioning.algorithms import greedy, look_ahead
from provisioning.algorithms.reaction import BASELINES
from provisioning.deployment import Adaptation
from provisioning.simulator import Oracle, SimulatedRun, World, random_walk, simulate, wave

LEAST, MOST = 2.0, 75.0
DAY = 288
ALGORITHMS = {**BASELINES, "PLAStiCC": look_ahead.adapted, "own": horizon.adapted}
_AHEAD = (10, 20, 30, 60)
"""Minutes."""
_FORM = "profit as in chapter 5: Gamma - sigma * cost"


def prediction_errors(*, quick: bool) -> Iterator[Row]:
    """The rows of the figures."""
    errors = (0.0, 0.2) if quick else (0.0, 0.05, 0.1, 0.15, 0.2)
    reactive = _profit(_run(BASELINES["CAF"], Oracle(horizon=4)))
    perfect = {name: _run(adaptation, Oracle(horizon=4)) for name, adaptation in ALGORITHMS.items()}
    profits = {name: _profit(run) for name, run in perfect.items()}
    yield row("profit with perfect predictions of 20 minutes", profits, _FORM)
    omegas = {name: run.omega for name, run in perfect.items()}
    yield row("Omega with perfect predictions of 20 minutes", omegas)
    deviations = {name: run.deviations for name, run in perfect.items()}
    yield row("intervals off the goal's tolerance", deviations, "of 144")
    for error in errors:
        ahead = {
            f"{minutes} min": _profit(_run(look_ahead.adapted, Oracle(horizon=minutes // 5, error=error)))
            for minutes in _AHEAD
        }
        yield row(f"profit of PLAStiCC by horizon, errors of {error:.0%}", ahead)
    for name in ("PLAStiCC", "own"):
        gains = {
            f"{error:.0%}": _profit(_run(ALGORITHMS[name], Oracle(horizon=4, error=error))) / reactive - 1
            for error in errors
        }
        yield row(f"gain over reaction (CAF) by error, {name}", gains)
    for bias in (-0.05, 0.05):
        biased = {
            name: _profit(_run(ALGORITHMS[name], Oracle(horizon=4, error=0.1, bias=bias)))
            for name in ("WPA", "WPO", "WPP", "PLAStiCC", "own")
        }
        yield row(f"profit with 10 % error and a bias of {bias:+.0%}", biased)


def _run(adaptation: Adaptation, oracle: Oracle) -> SimulatedRun:
    dataflow = staged_dataflow(10)
    middle = (LEAST + MOST) / 2
    goal = staged_goal(dataflow, middle)
    sources = staged_rates(dataflow, 1.0)
    rates = {
        name: wave((LEAST / 3, MOST / 3), INTERVALS, period=DAY, noise=0.2, seed=at) for at, name in enumerate(sources)
    }
    world = World(dataflow=dataflow, goal=goal, classes=M1, rates=rates, machines=1, oracle=oracle)
    first = {name: series[0] for name, series in rates.items()}
    return simulate(world, greedy.deployed(dataflow, first, M1, goal, central=True), adaptation)


def _profit(run: SimulatedRun) -> float:
    return run.gamma - run.goal.sigma(run.dataflow) * run.cost


_CORES = (0.3, 1.0, 2.0)
"""Of the best alternates for a task, on average."""
_ALGORITHMS: dict[str, Adaptation] = {
    "WPO": BASELINES["WPO"],
    "WPP": BASELINES["WPP"],
    "PLAStiCC": look_ahead.adapted,
    "own": horizon.adapted,
}


def published_profit(*, quick: bool) -> Iterator[Row]:
    """A row for each graph and load: over walks and waves, while machines vary and predictions err by a tenth."""
    for name, graph in PUBLISHED_GRAPHS.items():
        for cores in _CORES:
            runs = {
                algorithm: [
                    published_run(graph, cores, adaptation, shape=shape, seed=seed)
                    for seed in (SEEDS[:1] if quick else SEEDS)
                    for shape in ("walk", "wave")
                ]
                for algorithm, adaptation in _ALGORITHMS.items()
            }
            ours = {
                algorithm: {
                    "profit": fmean(run.theta for run in history),
                    "in tolerance": fmean(run.kept for run in history),
                    "cost": fmean(run.cost for run in history),
                }
                for algorithm, history in runs.items()
            }
            yield row(f"{name}, {cores:g} cores for a task", ours)


def published_run(graph: Graph, cores: float, adaptation: Adaptation, *, shape: str, seed: int) -> SimulatedRun:
    """One history."""
    dataflow = published_dataflow(graph, seed)
    rate = rate_for(dataflow, cores)
    rates = {}
    for at, (name, part) in enumerate(staged_rates(dataflow, rate).items()):
        own = seed + 7 * at
        rates[name] = (
            random_walk(part, INTERVALS, seed=own)
            if shape == "walk"
            else wave((0.5 * part, 1.5 * part), INTERVALS, period=INTERVALS / 3, noise=0.1, seed=own)
        )
    goal = staged_goal(dataflow, rate)
    oracle = Oracle(horizon=6, error=0.1, seed=seed)
    world = World(dataflow=dataflow, goal=goal, classes=M1, rates=rates, machines=seed, oracle=oracle)
    first = {name: series[0] for name, series in rates.items()}
    return simulate(world, greedy.deployed(dataflow, first, M1, goal, central=True), adaptation)
