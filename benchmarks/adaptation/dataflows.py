"""Dataflows that adapt: Linear Road with its machines, the thesis' synthetic dataflow, and two published graphs.

The thesis gives alternates of two of Linear Road's eight tasks, in a unit that it does not name, and nothing about the
others. Here the unit is 0.24 seconds of a reference core, and the others cost 0.02 seconds each. These two numbers were
chosen among about ten pairs, so that the four static deployments at 50 events a second have about the thesis' profits.
All other figures follow. The synthetic dataflow is that of figure 5.2: ten stages of three tasks, with one to three
alternates each.

One published graph has ten tasks: the graph by which Topcuoglu, Hariri and Wu explain HEFT (IEEE TPDS 13(3), 2002). The
other has fifty: CyberShake, as the Pegasus project characterised it, with the seconds of each task. What a task costs
for an event is in proportion to these. Alternates are drawn, as they are not published.
"""

import random
from dataclasses import replace

from provisioning.algorithms import greedy
from provisioning.figures import AlternateFigures, DataflowFigures, MachineClass, ProfitGoal, TaskFigures, needs

UNIT = 0.24
OTHER_COST = 0.02
RATE_OF_WEATHER = 0.01
"""Weather updates for a position report."""
SECTIONS_WITH_ACCIDENTS = 0.05
"""Accidents for a position report."""

M1 = tuple(
    MachineClass(
        name=f"m1.{name}", cores=cores, speed=speed, price=price, bandwidth=megabits * 125_000, start_seconds=100
    )
    for name, cores, speed, price, megabits in (
        ("small", 1, 1.0, 0.06, 250),
        ("medium", 1, 2.0, 0.12, 500),
        ("large", 2, 2.0, 0.24, 500),
        ("xlarge", 4, 2.0, 0.48, 1000),
    )
)
"""Amazon's classes in 2013: EC2 compute units for a core, dollars an hour in Virginia; they started in about 100 s."""


def linear_road(*, dynamic: bool = True) -> DataflowFigures:
    """The thesis' figure 4.5; without alternates, the best ones alone."""
    congestion: tuple[tuple[float, float, float], ...] = ((1.0, 1.2, 1.0), (0.8, 0.8, 1.0), (0.5, 0.8, 0.5))
    travel: tuple[tuple[float, float, float], ...] = ((0.6, 0.3, 1.0), (1.0, 0.5, 1.0))
    if not dynamic:
        congestion, travel = congestion[:1], travel[1:]
    return DataflowFigures(
        tasks=(
            _task("weather"),
            _task("reports"),
            _task("congestion", *congestion, after=("weather", "reports")),
            _task("accidents", (1.0, OTHER_COST / UNIT, SECTIONS_WITH_ACCIDENTS), after=("reports",)),
            _task("tolls", after=("congestion", "accidents")),
            _task("assessments", after=("tolls",)),
            _task("balances", after=("tolls",)),
            _task("travel times", *travel, after=("congestion", "accidents")),
        )
    )


def road_rates(rate: float) -> dict[str, float]:
    """The rates of both sources, for so many position reports a second."""
    return {"weather": rate * RATE_OF_WEATHER, "reports": rate}


def road_goal(rate: float, hours: float = 12.0) -> ProfitGoal:
    """The break-even costs that the thesis names: by the hour a tenth of the rate, and half that."""
    return ProfitGoal(best_cost=hours * rate / 10, least_cost=hours * rate / 20, hours=hours)


def _task(name: str, *alternates: tuple[float, float, float], after: tuple[str, ...] = ()) -> TaskFigures:
    """A task by its alternates' value, cost in units, and selectivity."""
    figures = (
        AlternateFigures(value=value, cost=cost * UNIT, selectivity=selectivity)
        for value, cost, selectivity in alternates or ((1.0, OTHER_COST / UNIT, 1.0),)
    )
    return TaskFigures(name=name, alternates=tuple(figures), inputs=after)


WIDTH = 3
COST = 0.04
"""Core-seconds of a typical alternate for an event."""


def staged_dataflow(stages: int, seed: int = 1, name: str = "") -> DataflowFigures:
    """So many stages of three tasks; each takes from its neighbour in the stage before."""
    draws = random.Random(seed)
    tasks: list[TaskFigures] = []
    for stage in range(stages):
        for lane in range(WIDTH):
            inputs = (f"{name}{stage - 1}.{lane}",) if stage else ()
            alternates = drawn_alternates(draws, COST * draws.uniform(0.5, 1.5), 1.0)
            tasks.append(TaskFigures(name=f"{name}{stage}.{lane}", alternates=alternates, inputs=inputs))
    return DataflowFigures(tasks=tuple(tasks))


def staged_rates(dataflow: DataflowFigures, rate: float) -> dict[str, float]:
    """An equal part of a rate at each source."""
    sources = [task.name for task in dataflow.tasks if not task.inputs]
    return {name: rate / len(sources) for name in sources}


def staged_goal(dataflow: DataflowFigures, rate: float) -> ProfitGoal:
    """Break-even at one and a half times what the best alternates cost when nothing varies, and at half of that."""
    tasks = tuple(
        replace(task, alternates=(task.alternates[at],))
        for task, at in zip(dataflow.tasks, dataflow.best(), strict=True)
    )
    plain = ProfitGoal(best_cost=1.0, least_cost=0.5)
    rates = staged_rates(dataflow, rate)
    price = greedy.deployed(DataflowFigures(tasks=tasks), rates, M1, plain, central=True).price()
    return ProfitGoal(best_cost=1.5 * price * plain.hours, least_cost=0.75 * price * plain.hours)


def drawn_alternates(draws: random.Random, cost: float, selectivity: float) -> tuple[AlternateFigures, ...]:
    """One to three alternates, each worth less than the one before and cheaper; the first costs so much."""
    made = [AlternateFigures(cost=cost, selectivity=selectivity)]
    for _ in range(draws.choice((0, 0, 1, 2))):
        worth, cost = made[-1].value * draws.uniform(0.6, 0.9), cost * draws.uniform(0.4, 0.8)
        given = selectivity * draws.choice((1.0, 1.0, 0.9))
        made.append(AlternateFigures(value=worth, cost=cost, selectivity=given))
    return tuple(made)


Graph = tuple[tuple[float, tuple[int, ...]], ...]
"""Of each task what it costs, and whose events it takes."""

HEFT: Graph = (
    (14, ()), (13, (0,)), (11, (0,)), (13, (0,)), (12, (0,)), (13, (0,)),
    (7, (2,)), (5, (1, 3, 5)), (18, (1, 3, 4)), (21, (6, 7, 8)),
)  # fmt: skip

_EXTRACTIONS = (73.14, 124.68, 90.56, 185.98)
_SYNTHESES = (
    (0, 39.9, 1.01), (0, 59.57, 1.4), (0, 64.21, 1.32), (1, 57.97, 1.36), (2, 64.06, 1.28), (1, 44.4, 1.25),
    (2, 41.72, 0.68), (3, 36.65, 1.56), (2, 54.24, 1.31), (3, 49.37, 0.88), (1, 37.83, 1.54), (0, 61.21, 0.99),
    (2, 42.76, 1.03), (3, 55.11, 1.57), (2, 29.64, 0.77), (3, 41.4, 1.3), (2, 39.3, 1.38), (1, 39.7, 1.29),
    (1, 43.73, 1.37), (1, 46.22, 1.21), (1, 23.13, 0.77), (3, 50.96, 1.44),
)  # fmt: skip
"""Of each seismogram the extraction before it, its own seconds, and those of the peaks after it."""


def _cybershake() -> Graph:
    tasks: list[tuple[float, tuple[int, ...]]] = [(seconds, ()) for seconds in _EXTRACTIONS]
    seismograms, peaks = [], []
    for extraction, seconds, peak in _SYNTHESES:
        seismograms.append(len(tasks))
        tasks.append((seconds, (extraction,)))
        peaks.append(len(tasks))
        tasks.append((peak, (seismograms[-1],)))
    return (*tasks, (0.17, tuple(seismograms)), (0.24, tuple(peaks)))


CYBERSHAKE = _cybershake()
PUBLISHED_GRAPHS = {"HEFT, 10 tasks": HEFT, "CyberShake, 50 tasks": CYBERSHAKE}
_LEAST_COST = 0.05
"""Of the mean, so that no task is for nothing."""


def published_dataflow(graph: Graph, seed: int) -> DataflowFigures:
    """A graph with drawn alternates; a task that takes from several gives as much as one of them on average."""
    draws = random.Random(seed)
    mean = sum(cost for cost, _ in graph) / len(graph)
    return DataflowFigures(
        tasks=tuple(
            TaskFigures(
                name=f"t{at}",
                alternates=drawn_alternates(draws, max(_LEAST_COST, cost / mean), 1.0 / max(1, len(inputs))),
                inputs=tuple(f"t{parent}" for parent in inputs),
            )
            for at, (cost, inputs) in enumerate(graph)
        )
    )


def rate_for(dataflow: DataflowFigures, cores: float) -> float:
    """The rate of all sources together at which the best alternates need so many cores for a task on average."""
    needed = needs(dataflow, dataflow.best(), staged_rates(dataflow, 1.0))
    return cores * len(dataflow.tasks) / sum(needed)
