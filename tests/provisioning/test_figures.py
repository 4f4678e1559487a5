"""Figures of provisioning: none leads to anything but an answer, or an error that names it."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioning.figures import AlternateFigures, DataflowFigures, MachineClass, ProfitGoal, TaskFigures
from provisioning.horizon import deployed, plan

_NAMES = ("cost", "value", "selectivity", "tenants", "event_bytes", "rate", "cores", "omega", "switch_cost")
_ANY: st.SearchStrategy[Any] = (
    st.sampled_from([0, -1, 1, 0.5, 1e-9, 1e300, -math.inf, math.inf, math.nan, 10**400, 5e-324, None, "1"])
    | st.floats()
    | st.integers()
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_NAMES), _ANY, max_size=2))
def test_any_figures_lead_to_a_plan_or_to_an_error(figures: Mapping[str, Any]) -> None:
    """What a plan says of throughput and value is from 0 to 1, or the error says what to give instead."""
    known = {"cost": 0.1, "value": 0.7, "selectivity": 1.0, "tenants": 1, "event_bytes": 1e3, "rate": 5.0}
    known |= dict(figures)
    try:
        alternates = (
            AlternateFigures(cost=known["cost"], selectivity=known["selectivity"]),
            AlternateFigures(cost=0.05, value=known["value"]),
        )
        task = TaskFigures(name="read", alternates=alternates, tenants=known["tenants"])  # type: ignore[arg-type]  # any
        dataflow = DataflowFigures(tasks=(task,), event_bytes=known["event_bytes"])
        more: dict[str, Any] = {name: known[name] for name in ("omega", "switch_cost") if name in known}
        found = plan(dataflow, [{"read": known["rate"]}], cores=known.get("cores", 1.0), **more)
    except ValueError as wrong:
        assert "; give a number" in str(wrong)  # noqa: PT017 - some figures are right
        return
    assert 0.0 <= found.now.omega <= 1.0
    assert 0.0 < found.now.gamma <= 1.0
    assert math.isfinite(found.now.cores)


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("name", ["cores", "speed", "price", "start_seconds"])
def test_machines_that_cannot_be_are_refused(name: str, figure: float) -> None:
    """The message names the class and the figure."""
    figures: dict[str, Any] = {"cores": 1, "price": 1.0, name: figure}
    with pytest.raises(ValueError, match=f"no machine class 'small' can be: {name} is {figure}; give a number"):
        MachineClass(name="small", **figures)


@pytest.mark.parametrize("cores", [-1.0, math.nan, math.inf])
def test_cores_and_rates_that_cannot_be_are_refused(cores: float) -> None:
    """A plan has some cores or none, so its throughput is never below nothing; a deployment has rates."""
    dataflow = DataflowFigures(tasks=(TaskFigures(name="read", alternates=(AlternateFigures(cost=0.5),)),))
    with pytest.raises(ValueError, match=f"this cannot be planned: cores is {cores}; give a number from 0"):
        plan(dataflow, [{"read": 1.0}], cores=cores)
    goal = ProfitGoal(best_cost=60.0, least_cost=30.0)
    with pytest.raises(ValueError, match="this cannot be deployed: the rate of read is"):
        deployed(dataflow, {"read": cores}, (MachineClass(name="small", cores=1, price=1.0),), goal)
