"""What is said of guards beforehand is true of what happens."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.document_checks import faults_of, shadows
from adaptation.guard_states import BEFORE_ANY_LOOK, Observed, advance
from adaptation.guards import Condition, Guard, TooManyCases, cases_of
from tests.adaptation.drawn import CLOCKS, metrics
from tests.adaptation.guards.history import CONDITIONS, guards, histories, holds, read_conditions


@settings(max_examples=80)
@given(condition=read_conditions(), history=histories(complete=True))
def test_what_never_fires_never_holds(condition: Condition, history: list[Observed]) -> None:
    """In no history, where everything is measured."""
    try:
        cases = cases_of(condition)
    except TooManyCases:
        return
    assert cases or not any(holds(condition, history[:end]) for end in range(1, len(history) + 1))


@settings(max_examples=80)
@given(bounds=st.lists(st.tuples(st.sampled_from(["above", "below"]), st.integers(0, 4)), min_size=1, max_size=4))
def test_bounds_of_one_metric_exclude_each_other_if_no_number_is_within_all(bounds: list[tuple[str, int]]) -> None:
    """Halves stand for all numbers, since the bounds are whole."""
    condition = CONDITIONS.validate_python({"all": [{"metric": "rate", side: bound} for side, bound in bounds]})
    numbers = [number / 2 for number in range(12)]
    within = [all(n > b if side == "above" else n < b for side, b in bounds) for n in numbers]
    assert any(within) == bool(cases_of(condition))


@st.composite
def nested_guards(draw: st.DrawFn) -> tuple[Guard, Guard]:
    """Two guards, the first of which often covers the second."""
    parts = draw(st.lists(metrics() | CLOCKS, min_size=1, max_size=3))
    others = draw(st.lists(metrics() | CLOCKS, max_size=2))
    wide = {"activate": {"any": parts}}
    narrow = {"activate": {"all": [*parts[: draw(st.integers(0, 1))], *others] or parts}}
    return Guard.model_validate(wide), Guard.model_validate(narrow)


@settings(max_examples=80)
@given(pair=nested_guards() | st.tuples(guards(), guards()), history=histories(complete=True))
def test_a_shadowed_guard_is_active_only_with_the_other(pair: tuple[Guard, Guard], history: list[Observed]) -> None:
    """So a rule with it never has an effect."""
    earlier, later = pair
    if shadows(earlier, later):
        states = BEFORE_ANY_LOOK
        for look in history:
            states = advance([earlier, later], [], states, look)
            assert states.is_active(earlier) or not states.is_active(later)


@pytest.mark.parametrize(
    ("wide", "narrow", "shadowed"),
    [
        ({"from": "20:00", "to": "08:00"}, {"from": "22:00", "to": "06:00"}, True),
        ({"from": "22:00", "to": "06:00"}, {"from": "20:00", "to": "08:00"}, False),
        ({"from": "22:00", "to": "06:00"}, {"from": "22:00", "to": "06:00", "days": ["sat"]}, True),
        ({"from": "20:00", "to": "08:00", "zone": "Asia/Tokyo"}, {"from": "22:00", "to": "06:00"}, False),
    ],
)
def test_times_within_others_are_shadowed(wide: dict[str, Any], narrow: dict[str, Any], *, shadowed: bool) -> None:
    """In one time zone."""
    earlier, later = (Guard.model_validate({"activate": {"clock": each}}) for each in (wide, narrow))
    assert shadowed == shadows(earlier, later)


@given(high=st.integers(1, 9), low=st.integers(1, 9))
def test_a_pair_with_a_gap_cannot_oscillate(high: int, low: int) -> None:
    """And one without is refused: at some value both would hold, or the least change leads from one to the other."""
    pair = {"activate": {"metric": "latency", "above": high}, "deactivate": {"metric": "latency", "below": low}}
    codes = [each.code for each in faults_of(Guard.model_validate(pair))]
    assert ([] if low < high else ["oscillates"]) == codes
