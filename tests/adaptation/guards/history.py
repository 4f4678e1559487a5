"""Conditions straight from their definitions, over the whole history: slow, and the oracle of evaluation."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from pydantic import TypeAdapter

from adaptation.guard_states import DomainEvent, Observed
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
    minute_of,
)
from tests.adaptation.drawn import conditions

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
