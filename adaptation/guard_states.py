"""The states of guards: which are active, and what they remember. `advance` is the one step from look to look.

- A metric's bound holds while the metric is beyond it; with `for`, once it has been so at every look for that long.
- An event's condition holds at the look at which such an event came; with `within`, for so long after it.
- A sequence holds if its parts held one after the other, the first of them at most `within` seconds ago. An event has
  its own moment; anything else has that of the look at which it holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from adaptation.guards import (
    MINUTES_OF_DAY,
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
    ValueGuard,
    minutes_of,
    parts_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainEvent:
    """An event that a policy names; made by who reads its output."""

    name: str
    at: float
    """When it came, in seconds since 1970."""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look: made by who observes, at most a few a second."""

    now: float
    """Seconds since 1970."""
    metrics: Mapping[MetricKey, float] = field(default_factory=dict)
    """Those that were measured. A bound on one that was not does not hold."""
    events: tuple[DomainEvent, ...] = ()
    """Those that came since the look before."""


@dataclass(frozen=True, slots=True)
class ConditionMemory:
    """What a condition remembers of earlier looks; made by `evaluated`."""

    times: tuple[float | None, ...] = ()
    """Since when a bound has held; when the newest event came; or for each length, the latest start of a sequence."""
    parts: tuple["ConditionMemory", ...] = ()


class Evaluated(NamedTuple):
    """A condition at one look."""

    holds: bool
    moments: tuple[float, ...]
    """The moments since the look before at which it came true, in order."""
    memory: ConditionMemory


NO_MEMORY = ConditionMemory()


def evaluated(condition: Condition, memory: ConditionMemory, observed: Observed) -> Evaluated:
    """A condition at a look, given what it remembers."""
    match condition:
        case MetricCondition():
            return _metric(condition, memory, observed)
        case EventCondition():
            return _event(condition, memory, observed)
        case ClockCondition():
            return _at_look(is_within(condition.clock, observed.now), observed)
        case _:
            return _joined(condition, memory, observed)


def is_within(clock: ClockTimes, now: float) -> bool:
    """Whether a moment is within some times of the clock."""
    local = datetime.fromtimestamp(now, ZoneInfo(clock.zone))
    return local.weekday() * MINUTES_OF_DAY + local.hour * 60 + local.minute in minutes_of(clock)


def _joined(
    condition: AllCondition | AnyCondition | NotCondition | SequenceCondition,
    memory: ConditionMemory,
    observed: Observed,
) -> Evaluated:
    memories = memory.parts or (NO_MEMORY,) * len(parts_of(condition))
    parts = [evaluated(part, kept, observed) for part, kept in zip(parts_of(condition), memories, strict=True)]
    kept = ConditionMemory(parts=tuple(part.memory for part in parts))
    match condition:
        case AllCondition():
            return _at_look(all(part.holds for part in parts), observed, kept)
        case AnyCondition():
            moments = sorted({moment for part in parts for moment in part.moments})
            return Evaluated(any(part.holds for part in parts), tuple(moments), kept)
        case NotCondition():
            return _at_look(not parts[0].holds, observed, kept)
        case SequenceCondition():
            starts = _starts(memory.times or (None,) * len(parts), parts)
            last = starts[-1]
            holds = last is not None and observed.now - last <= condition.within
            return _at_look(holds, observed, ConditionMemory(times=starts, parts=kept.parts))


def _at_look(holds: bool, observed: Observed, memory: ConditionMemory = NO_MEMORY) -> Evaluated:  # noqa: FBT001 - it is the value
    return Evaluated(holds, (observed.now,) if holds else (), memory)


def _metric(condition: MetricCondition, memory: ConditionMemory, observed: Observed) -> Evaluated:
    value = observed.metrics.get(MetricKey(condition.metric, condition.task))
    if condition.above is not None:
        is_beyond = value is not None and value > condition.above
    else:
        is_beyond = value is not None and condition.below is not None and value < condition.below
    if condition.for_s is None:
        return _at_look(is_beyond, observed)
    (since,) = memory.times or (None,)
    since = (observed.now if since is None else since) if is_beyond else None
    holds = since is not None and observed.now - since >= condition.for_s
    return _at_look(holds, observed, ConditionMemory(times=(since,)))


def _event(condition: EventCondition, memory: ConditionMemory, observed: Observed) -> Evaluated:
    where = condition.where
    moments = tuple(
        sorted(
            event.at
            for event in observed.events
            if event.name == condition.event and (where is None or where.passes(event.fields.get(where.field)))
        )
    )
    if condition.within is None:
        return Evaluated(bool(moments), moments, NO_MEMORY)
    (newest,) = memory.times or (None,)
    newest = max((moment for moment in (newest, *moments) if moment is not None), default=None)
    holds = newest is not None and observed.now - newest <= condition.within
    return Evaluated(holds, moments, ConditionMemory(times=(newest,)))


def _starts(starts: Sequence[float | None], parts: Sequence[Evaluated]) -> tuple[float | None, ...]:
    """The latest start of the first part, of the first two, and so on, after these moments too."""
    latest = list(starts)
    for moment in sorted({moment for part in parts for moment in part.moments}):
        # From the last part on, so that one moment does not count for two.
        for at in reversed(range(len(parts))):
            if moment in parts[at].moments:
                start = moment if at == 0 else latest[at - 1]
                known = latest[at]
                latest[at] = start if known is None or (start is not None and start > known) else known
    return tuple(latest)


class GuardState(NamedTuple):
    """Whether a guard is active, and what its conditions remember."""

    is_active: bool = False
    activate: ConditionMemory = NO_MEMORY
    deactivate: ConditionMemory = NO_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStates:
    """The states of all guards of a dataflow, by guard: equal guards are in the same state."""

    guards: Mapping[Guard, GuardState] = field(default_factory=dict)
    numbers: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """The newest numbers for value guards, by event and field."""

    def is_active(self, guard: Guard | None) -> bool:
        """Whether a guard is active. What has none is always so."""
        return guard is None or (guard in self.guards and self.guards[guard].is_active)


BEFORE_ANY_LOOK = GuardStates()


def advance(
    guards: Iterable[Guard], values: Iterable[ValueGuard], states: GuardStates, observed: Observed
) -> GuardStates:
    """The states after a look. A guard that is new begins inactive; one that is gone is forgotten."""
    wanted = {(value.event, value.field) for value in values}
    numbers = {key: number for key, number in states.numbers.items() if key in wanted}
    for event in sorted(observed.events, key=lambda event: event.at):
        for name, number in event.fields.items():
            if (event.name, name) in wanted and isinstance(number, int | float) and not isinstance(number, bool):
                numbers[event.name, name] = float(number)
    return GuardStates(
        guards={guard: advanced(guard, states.guards.get(guard, GuardState()), observed) for guard in guards},
        numbers=numbers,
    )


def advanced(guard: Guard, state: GuardState, observed: Observed) -> GuardState:
    """The state of one guard after a look."""
    on = evaluated(guard.activate, state.activate, observed)
    if guard.deactivate is None:
        return GuardState(on.holds, on.memory)
    off = evaluated(guard.deactivate, state.deactivate, observed)
    if on.holds and off.holds:
        # Of two events that came between two looks, the later one counts.
        is_active = max(on.moments, default=0.0) > max(off.moments, default=0.0)
    else:
        is_active = on.holds or (state.is_active and not off.holds)
    return GuardState(is_active, on.memory, off.memory)
