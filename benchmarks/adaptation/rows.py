"""Rows of the report: what was measured, the figures, and what explains them."""

from collections.abc import Mapping
from typing import Any

from benchmarks.adaptation.dataflows import M1, RATE_OF_WEATHER
from provisioning.figures import DataflowFigures, ProfitGoal
from provisioning.simulator import Oracle, Series, World

Row = Mapping[str, Any]
INTERVALS = 144
"""Twelve hours in intervals of five minutes."""
SEEDS = (1, 2, 3)


def row(what: str, ours: Any, note: str = "") -> Row:
    """One row; figures are rounded."""
    made = {"what": what, "ours": _rounded(ours)}
    return made | {"note": note} if note else made


def road_world(
    dataflow: DataflowFigures, goal: ProfitGoal, reports: Series, machines: int | None, oracle: Oracle | None = None
) -> World:
    """Linear Road with so many position reports, and weather in proportion."""
    weather = tuple(rate * RATE_OF_WEATHER for rate in reports)
    rates = {"weather": weather, "reports": reports}
    return World(
        dataflow=dataflow, goal=goal, classes=M1, rates=rates, machines=machines, oracle=oracle or Oracle(horizon=6)
    )


def _rounded(figure: Any) -> Any:
    if isinstance(figure, float):
        return float(f"{figure:.3g}")
    if isinstance(figure, Mapping):
        return {key: _rounded(value) for key, value in figure.items()}
    return figure
