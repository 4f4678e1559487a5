"""What is said of guards beforehand is true of what happens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.guards.cases import TooManyCases, cases_of
from adaptation.guards.conditions import Condition, Guard
from adaptation.guards.faults import faults_of, shadows
from adaptation.guards.guard_states import BEFORE_ANY_LOOK, advance
from adaptation.guards.observed import Observed
from tests.adaptation.guards.history import CONDITIONS, guards, histories, holds, read_conditions


@settings(max_examples=80)
@given(condition=read_conditions(), history=histories())
def test_what_never_fires_never_holds(condition: Condition, history: list[Observed]) -> None:
    """In no history, where everything is measured."""
    try:
        cases = cases_of(condition)
    except TooManyCases:
        return
    if all(len(look.metrics) == 4 for look in history):
        assert cases or not any(holds(condition, history[:end]) for end in range(1, len(history) + 1))


@settings(max_examples=80)
@given(bounds=st.lists(st.tuples(st.sampled_from(["above", "below"]), st.integers(0, 4)), min_size=1, max_size=4))
def test_bounds_of_one_metric_exclude_each_other_if_no_number_is_within_all(bounds: list[tuple[str, int]]) -> None:
    """Halves stand for all numbers, since the bounds are whole."""
    condition = CONDITIONS.validate_python({"all": [{"metric": "rate", side: bound} for side, bound in bounds]})
    numbers = [number / 2 for number in range(12)]
    within = [all(n > b if side == "above" else n < b for side, b in bounds) for n in numbers]
    assert any(within) == bool(cases_of(condition))


@settings(max_examples=80)
@given(earlier=guards(), later=guards(), history=histories())
def test_a_shadowed_guard_is_active_only_with_the_other(earlier: Guard, later: Guard, history: list[Observed]) -> None:
    """So a rule with it never has an effect."""
    if shadows(earlier, later) and all(len(look.metrics) == 4 for look in history):
        states = BEFORE_ANY_LOOK
        for look in history:
            states = advance([earlier, later], [], states, look)
            assert states.is_active(earlier) or not states.is_active(later)


@given(high=st.integers(1, 9), low=st.integers(1, 9))
def test_a_pair_with_a_gap_cannot_oscillate(high: int, low: int) -> None:
    """And one without is refused: at some value both would hold, or the least change leads from one to the other."""
    pair = {"activate": {"metric": "latency", "above": high}, "deactivate": {"metric": "latency", "below": low}}
    codes = [each.code for each in faults_of(Guard.model_validate(pair))]
    assert ([] if low < high else ["oscillates"]) == codes
