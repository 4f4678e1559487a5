"""How many intervals keep the throughput within its tolerance, and at what cost, over rates and machines that vary."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from statistics import fmean

from benchmarks.adaptation.linear_road import M1, linear_road, road_goal, road_rates
from benchmarks.adaptation.rows import INTERVALS, SEEDS, Row, road_world, row
from provisioning import horizon
from provisioning.algorithms import greedy, look_ahead, reaction
from provisioning.algorithms.reaction import BASELINES
from provisioning.deployment import Adaptation
from provisioning.simulator import Series, SimulatedRun, random_walk, simulate, spike, wave

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
        yield row(f"intervals in tolerance, {title}", None, kept, "own to be at least 0.9")
        yield row(f"cost, {title}", None, cost)
        yield row(f"profit, {title}", None, profit)
        best = max((name for name in THESIS if kept[name] >= MOSTLY), key=lambda name: profit[name])
        own = {
            "in tolerance": kept["own"],
            "cost by the best's": cost["own"] / cost[best],
            "profit over the best's": profit["own"] - profit[best],
        }
        note = f"the best by profit of those that keep it in 80 % of intervals: {best}"
        yield row(f"own beside the best of the thesis, {title}", None, own, note)


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
