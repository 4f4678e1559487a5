"""Guards look by look against an oracle that sees the whole history, and what is said of them beforehand."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from adaptation.document_checks import faults_of, shadows
from adaptation.guard_states import BEFORE_ANY_LOOK, NO_MEMORY, DomainEvent, GuardStates, Observed, advance, evaluated
from adaptation.guards import (
    DAYS,
    AllCondition,
    AnyCondition,
    ClockCondition,
    ClockTimes,
    Condition,
    EventCondition,
    Guard,
    MetricCondition,
    MetricKey,
    NotCondition,
    SequenceCondition,
    TooManyCases,
    ValueGuard,
    cases_of,
    minute_of,
)
from tests.adaptation.drawn import CLOCKS, conditions, metrics

CONDITIONS: TypeAdapter[Condition] = TypeAdapter(Condition)
MONDAY = datetime(2026, 3, 2, tzinfo=ZoneInfo("UTC")).timestamp()


def read_conditions() -> st.SearchStrategy[Condition]:
    """Any condition, read."""
    return conditions().map(CONDITIONS.validate_python)


def guards() -> st.SearchStrategy[Guard]:
    """Any guard."""
    return st.builds(
        lambda on, off: Guard(activate=on, deactivate=off), read_conditions(), st.none() | read_conditions()
    )


@st.composite
def histories(draw: st.DrawFn, most: int = 8, *, complete: bool = False) -> list[Observed]:
    """Looks one after the other, in seconds or hours; events come between them, some at the very same moment.

    If they are complete, everything is measured at every look.
    """
    pace = draw(st.sampled_from([1.0, 1.0, 3_600.0]))
    now, looks = MONDAY + 3_600 * draw(st.integers(0, 7 * 24)), []
    for _ in range(draw(st.integers(1, most))):
        before, now = now, now + pace * draw(st.integers(1, 3))
        keys = [MetricKey(metric, task) for metric in ("rate", "latency") for task in (None, "a")]
        metrics = {
            key: draw(st.sampled_from([0.0, 1.0, 2.0, 4.0])) for key in keys if complete or draw(st.integers(0, 4))
        }
        events = [
            DomainEvent(
                name=draw(st.sampled_from(["peak", "calm"])),
                at=before + (now - before) * draw(st.sampled_from([0.25, 0.5, 1.0])),
                fields=draw(st.sampled_from([{}, {"level": 1}, {"level": 2}, {"level": 3.5}, {"level": None}])),
            )
            for _ in range(draw(st.sampled_from([0, 0, 1, 2])))
        ]
        looks.append(Observed(now=now, metrics=metrics, events=tuple(events)))
    return looks


def holds(condition: Condition, history: Sequence[Observed]) -> bool:  # noqa: PLR0911 - one for each kind
    """Whether a condition holds at the last look."""
    now = history[-1].now
    match condition:
        case MetricCondition():
            run = list(takewhile(lambda look: _is_beyond(condition, look), reversed(history)))
            return bool(run) and (condition.for_s is None or now - run[-1].now >= condition.for_s)
        case EventCondition():
            if condition.within is None:
                return bool(_came(condition, history[-1:]))
            return any(now - at <= condition.within for at in _came(condition, history))
        case ClockCondition():
            return _is_time(condition.clock, now)
        case AllCondition():
            return all(holds(each, history) for each in condition.parts)
        case AnyCondition():
            return any(holds(each, history) for each in condition.parts)
        case NotCondition():
            return not holds(condition.part, history)
        case SequenceCondition():
            parts = [
                [at for end in range(1, len(history) + 1) for at in moments(each, history[:end])]
                for each in condition.parts
            ]
            return any(_follow(parts[1:], at) for at in parts[0] if now - at <= condition.within)


def moments(condition: Condition, history: Sequence[Observed]) -> list[float]:
    """The moments at which a condition came true since the look before the last."""
    if isinstance(condition, EventCondition):
        return _came(condition, history[-1:])
    if isinstance(condition, AnyCondition):
        return [at for each in condition.parts for at in moments(each, history)]
    return [history[-1].now] if holds(condition, history) else []


def is_active(guard: Guard, history: Sequence[Observed]) -> bool:
    """Whether a guard is active after the last look."""
    if not history:
        return False
    on = holds(guard.activate, history)
    if guard.deactivate is None:
        return on
    off = holds(guard.deactivate, history)
    if on and off:
        newest = [max(moments(each, history), default=0.0) for each in (guard.activate, guard.deactivate)]
        return newest[0] > newest[1]
    return on or (not off and is_active(guard, history[:-1]))


def _follow(parts: Sequence[Sequence[float]], after: float) -> bool:
    return not parts or any(_follow(parts[1:], at) for at in parts[0] if at > after)


def _is_beyond(condition: MetricCondition, look: Observed) -> bool:
    value = look.metrics.get(MetricKey(condition.metric, condition.task))
    if value is None:
        return False
    return value > condition.above if condition.above is not None else value < (condition.below or 0)


def _came(condition: EventCondition, looks: Iterable[Observed]) -> list[float]:
    found = []
    for event in (event for look in looks for event in look.events if event.name == condition.event):
        test = condition.where
        value = None if test is None else event.fields.get(test.field)
        if test is None or (
            value is not None
            and (test.above is None or value > test.above)
            and (test.below is None or value < test.below)
            and (test.equals is None or value == test.equals)
        ):
            found.append(event.at)
    return found


def _is_time(clock: ClockTimes, now: float) -> bool:
    local = datetime.fromtimestamp(now, ZoneInfo(clock.zone))
    minute, start, end = local.hour * 60 + local.minute, minute_of(clock.from_), minute_of(clock.to)
    today, yesterday = DAYS[local.weekday()], DAYS[local.weekday() - 1]
    if start <= end:
        return today in clock.days and start <= minute < end
    return (today in clock.days and minute >= start) or (yesterday in clock.days and minute < end)


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
