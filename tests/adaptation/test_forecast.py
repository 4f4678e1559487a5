"""Forecasts of rates: bounded, and by what was best on the history."""

from hypothesis import given
from hypothesis import strategies as st

from adaptation.forecast import forecast

RATES = st.lists(st.floats(0, 1e6), max_size=40)


@given(history=RATES, ahead=st.integers(1, 12))
def test_a_forecast_stays_within_bounds(history: list[float], ahead: int) -> None:
    """Never below 0, nor above twice what was ever seen."""
    found = forecast(history, ahead)
    assert ahead == len(found.rates)
    assert all(0 <= each <= 2 * max(history, default=0.0) for each in found.rates)
    assert found.error >= 0


@given(rate=st.floats(0, 1e6), length=st.integers(1, 40))
def test_a_constant_rate_goes_on(rate: float, length: int) -> None:
    """By the simplest method."""
    found = forecast([rate] * length, 3)
    assert ("newest", (rate,) * 3) == (found.method, found.rates)


def test_what_rises_is_expected_to_rise_further() -> None:
    """So that room is made before it is needed."""
    found = forecast([10.0 * step for step in range(20)], 3)
    assert found.method.startswith("trend")
    assert 190 < found.highest < 230
