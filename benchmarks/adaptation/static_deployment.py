"""Table 4.2: what deployments that do not adapt are worth, and what variability makes of their throughput."""

from collections.abc import Iterator
from statistics import fmean

from benchmarks.adaptation.linear_road import M1, linear_road, road_goal, road_rates
from benchmarks.adaptation.rows import INTERVALS, SEEDS, Row, road_world, row
from provisioning import horizon
from provisioning.algorithms import brute_force, genetic, greedy
from provisioning.deployment import unchanged
from provisioning.simulator import constant, random_walk, simulate

_RATE = 50.0
THESIS_PROFIT = {"BR": 0.67, "GA": 0.65, "SH": 0.45, "CE": 0.58}
THESIS_OMEGA = {
    "BR": (0.80, 0.68, 0.59, 0.44),
    "GA": (0.79, 0.67, 0.48, 0.37),
    "SH": (0.81, 0.60, 0.40, 0.29),
    "CE": (0.81, 0.66, 0.42, 0.31),
}
VARIES = ("neither", "machines", "rates", "both")
_QUEUES = (
    "ours: what leaves of what arrives in an interval; with a backlog: of all that waits. At 80 % of the "
    "rate a backlog grows without end, so that by the thesis' own formula 0.80 cannot last with constant rates; its "
    "figures for varying rates lie between both readings, which were tried in turn"
)


def static_deployment() -> Iterator[Row]:
    """The rows of the table."""
    dataflow, goal, rates = linear_road(), road_goal(_RATE), road_rates(_RATE)
    deployments = {
        "BR": brute_force.deployed(dataflow, rates, M1, goal),
        "GA": genetic.deployed(dataflow, rates, M1, goal),
        "CE": greedy.deployed(dataflow, rates, M1, goal, central=True),
        "SH": greedy.deployed(dataflow, rates, M1, goal, central=False),
        "own": horizon.deployed(dataflow, rates, M1, goal),
    }
    for name, deployment in deployments.items():
        theta = goal.theta(dataflow, dataflow.gamma(deployment.active), deployment.price() * goal.hours)
        note = "costs of six tasks and the unit are not in the thesis; two numbers were chosen so that BR fits"
        yield row(f"profit at 50 events/s, {name}", THESIS_PROFIT.get(name), theta, note if name == "BR" else "")
    for name, deployment in deployments.items():
        for at, varies in enumerate(VARIES):
            runs = [
                simulate(
                    road_world(
                        dataflow,
                        goal,
                        random_walk(_RATE, INTERVALS, seed=seed) if at >= 2 else constant(_RATE, INTERVALS),  # noqa: PLR2004  rates
                        seed if varies in {"machines", "both"} else None,
                    ),
                    deployment,
                    unchanged,
                )
                for seed in SEEDS
            ]
            ours = {
                "arriving": fmean(run.omega for run in runs),
                "with backlog": fmean(run.omega_of_all for run in runs),
            }
            thesis = THESIS_OMEGA[name][at] if name in THESIS_OMEGA else None
            yield row(f"Omega of static {name}, varying: {varies}", thesis, ours, _QUEUES if varies == "rates" else "")
