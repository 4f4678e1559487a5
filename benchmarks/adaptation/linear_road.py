"""Linear Road as a dynamic dataflow, and the machines it is tried on.

The thesis gives alternates of two of its eight tasks, in a unit that it does not name, and nothing about the others.
Here the unit is 0.24 seconds of a reference core, and the others cost 0.02 seconds each. These two numbers were chosen
among about ten pairs, so that the four static deployments at 50 events a second have about the thesis' profits. All
other figures follow.
"""

from provisioning.figures import AlternateFigures, DataflowFigures, MachineClass, ProfitGoal, TaskFigures

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
