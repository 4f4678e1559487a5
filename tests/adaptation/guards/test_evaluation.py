"""Evaluation look by look agrees with an oracle that sees the whole history."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from adaptation.guard_states import BEFORE_ANY_LOOK, NO_MEMORY, DomainEvent, GuardStates, Observed, advance, evaluated
from adaptation.guards import Condition, Guard, MetricKey, ValueGuard
from tests.adaptation.guards.history import CONDITIONS, guards, histories, holds, is_active, read_conditions


@settings(max_examples=150)
@given(condition=read_conditions(), history=histories())
def test_a_condition_holds_when_its_definition_says_so(condition: Condition, history: list[Observed]) -> None:
    """At every look, though only what it remembers is kept."""
    memory = NO_MEMORY
    for end, look in enumerate(history, 1):
        found = evaluated(condition, memory, look)
        memory = found.memory
        assert holds(condition, history[:end]) == found.holds


@settings(max_examples=80)
@given(guard=guards(), history=histories())
def test_a_guard_is_active_when_its_definition_says_so(guard: Guard, history: list[Observed]) -> None:
    """Between activation and deactivation, the later of which counts."""
    states = BEFORE_ANY_LOOK
    for end, look in enumerate(history, 1):
        states = advance([guard], [], states, look)
        assert is_active(guard, history[:end]) == states.is_active(guard)


def test_of_two_events_between_two_looks_the_later_one_counts() -> None:
    """In whichever order they are given."""
    guard = Guard.model_validate({"activate": {"event": "peak"}, "deactivate": {"event": "calm"}})
    peak, calm = DomainEvent(name="peak", at=2.0), DomainEvent(name="calm", at=3.0)

    def active(*events: DomainEvent) -> bool:
        return advance([guard], [], BEFORE_ANY_LOOK, Observed(now=9.0, events=events)).is_active(guard)

    assert [True, False, False] == [active(peak), active(peak, calm), active(calm, peak)]


def test_a_bound_with_a_duration_holds_once_it_lasted() -> None:
    """And begins anew after a look at which it did not hold."""
    lasting = CONDITIONS.validate_python({"metric": "rate", "above": 5, "for": 2})
    memory, found = NO_MEMORY, []
    for now, rate in enumerate([9.0, 9.0, 9.0, 9.0, 1.0, 9.0, 9.0, 9.0]):
        at_look = evaluated(lasting, memory, Observed(now=float(now), metrics={MetricKey("rate", None): rate}))
        memory = at_look.memory
        found.append(at_look.holds)
    assert [False, False, True, True, False, False, False, True] == found


def test_a_sequence_is_found_within_one_look() -> None:
    """By the moments of its events, of which one does not count for two."""
    rise = CONDITIONS.validate_python({"sequence": [{"event": "peak"}, {"event": "peak"}], "within": 5})
    one, other = DomainEvent(name="peak", at=1.0), DomainEvent(name="peak", at=2.0)
    assert not evaluated(rise, NO_MEMORY, Observed(now=3.0, events=(one,))).holds
    assert evaluated(rise, NO_MEMORY, Observed(now=3.0, events=(other, one))).holds
    assert not evaluated(rise, NO_MEMORY, Observed(now=9.0, events=(other, one))).holds


@given(
    numbers=st.lists(st.none() | st.floats(-2, 2) | st.just("x") | st.booleans(), max_size=5),
    factor=st.floats(-2, 2),
    plus=st.floats(-1, 1),
)
@example(numbers=[0.25], factor=-1.0, plus=1.0)
def test_a_value_follows_the_newest_number(numbers: list[float | str | None], factor: float, plus: float) -> None:
    """Between 0 and 1; what is no number changes nothing."""
    guard = ValueGuard(event="errors", field="mse", factor=factor, plus=plus, otherwise=0.6)
    states = GuardStates()
    expected = 0.6
    for at, number in enumerate(numbers):
        events = (DomainEvent(name="errors", at=float(at), fields={"mse": number}),)
        states = advance([], [guard], states, Observed(now=float(at), events=events))
        if isinstance(number, float):
            expected = min(1.0, max(0.0, factor * number + plus))
        assert expected == guard.of(states.numbers.get(("errors", "mse")))
