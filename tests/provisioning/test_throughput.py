"""Laws of throughput."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.figures import DataflowFigures, needs, omega, served
from tests.provisioning.scenes import CHAIN, dataflows, rates_of

cores = st.floats(0, 20, allow_nan=False)


@st.composite
def loaded(draw: st.DrawFn) -> tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]]:
    dataflow = draw(dataflows())
    active = tuple(draw(st.integers(0, len(task.alternates) - 1)) for task in dataflow.tasks)
    rates = {name: draw(st.floats(0, 100)) for name in rates_of(dataflow, 1.0)}
    return dataflow, active, rates, [draw(cores) for _ in dataflow.tasks]


@given(loaded())
def test_omega_is_a_share(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]],
) -> None:
    """Whatever is deployed, it lies between nothing and all."""
    assert 0 <= omega(*scene) <= 1


@given(loaded())
def test_omega_is_one_with_plenty(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]],
) -> None:
    """What each task needs is enough, to the last digit."""
    dataflow, active, rates, _ = scene
    assert omega(dataflow, active, rates, needs(dataflow, active, rates)) == pytest.approx(1)


@given(loaded(), st.data())
def test_more_cores_never_lower_omega(
    scene: tuple[DataflowFigures, tuple[int, ...], dict[str, float], list[float]], data: st.DataObject
) -> None:
    """Wherever they are added."""
    dataflow, active, rates, capacity = scene
    more = [each + data.draw(cores) for each in capacity]
    assert omega(dataflow, active, rates, capacity) <= omega(dataflow, active, rates, more) + 1e-9


def test_a_starved_sink_does_not_count_as_served() -> None:
    """It does all that reaches it, which is a tenth of what should."""
    capacity = [0.01, 100.0, 100.0]
    active = (0, 0, 0)
    taken, done = served(CHAIN, active, {"read": 10.0}, capacity)
    assert taken[2] == done[2] == pytest.approx(1.0)
    assert omega(CHAIN, active, {"read": 10.0}, capacity) == pytest.approx(0.1)


def test_the_network_limits_what_passes() -> None:
    """What does not fit from one task to another does not arrive."""
    assert omega(CHAIN, (0, 0, 0), {"read": 10.0}, [9.0, 9.0, 9.0], {(1, 2): 4.0}) == pytest.approx(0.4)
