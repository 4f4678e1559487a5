"""Evaluation of conditions, look by look, with what each remembers of earlier looks.

- A metric's bound holds while the metric is beyond it; with `for`, once it has been so at every look for that long.
- An event's condition holds at the look at which such an event came; with `within`, for so long after it.
- A sequence holds if its parts held one after the other, the first of them at most `within` seconds ago. An event has
  its own moment; anything else has that of the look at which it holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from adaptation.guards.cases import MetricKey
from adaptation.guards.conditions import (
    MINUTES_OF_DAY,
    AllCondition,
    AnyCondition,
    ClockCondition,
    ClockTimes,
    Condition,
    EventCondition,
    MetricCondition,
    NotCondition,
    SequenceCondition,
    minutes_of,
    parts_of,
)
from adaptation.guards.observed import Observed


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
    kept = ConditionMemory(parts=tuple(each.memory for each in parts))
    match condition:
        case AllCondition():
            return _at_look(all(each.holds for each in parts), observed, kept)
        case AnyCondition():
            moments = sorted({moment for each in parts for moment in each.moments})
            return Evaluated(any(each.holds for each in parts), tuple(moments), kept)
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
            each.at
            for each in observed.events
            if each.name == condition.event and (where is None or where.passes(each.fields.get(where.field)))
        )
    )
    if condition.within is None:
        return Evaluated(bool(moments), moments, NO_MEMORY)
    (newest,) = memory.times or (None,)
    newest = max((each for each in (newest, *moments) if each is not None), default=None)
    holds = newest is not None and observed.now - newest <= condition.within
    return Evaluated(holds, moments, ConditionMemory(times=(newest,)))


def _starts(starts: Sequence[float | None], parts: Sequence[Evaluated]) -> tuple[float | None, ...]:
    """The latest start of the first part, of the first two, and so on, after these moments too."""
    found = list(starts)
    for moment in sorted({each for part in parts for each in part.moments}):
        # From the last part on, so that one moment does not count for two.
        for at in reversed(range(len(parts))):
            if moment in parts[at].moments:
                start = moment if at == 0 else found[at - 1]
                known = found[at]
                found[at] = start if known is None or (start is not None and start > known) else known
    return tuple(found)
