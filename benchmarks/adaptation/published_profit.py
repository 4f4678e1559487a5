"""Profit on two published graphs, by how much work there is: the horizon beside the algorithms of the thesis."""

from collections.abc import Iterator
from statistics import fmean

from benchmarks.adaptation.linear_road import M1
from benchmarks.adaptation.published_graphs import PUBLISHED_GRAPHS, Graph, published_dataflow, rate_for
from benchmarks.adaptation.rows import INTERVALS, SEEDS, Row, row
from benchmarks.adaptation.staged_dataflow import staged_goal, staged_rates
from provisioning import horizon
from provisioning.algorithms import greedy, look_ahead
from provisioning.algorithms.reaction import BASELINES
from provisioning.deployment import Adaptation
from provisioning.simulator import Oracle, SimulatedRun, World, random_walk, simulate, wave

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
            yield row(f"{name}, {cores:g} cores for a task", None, ours)


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
