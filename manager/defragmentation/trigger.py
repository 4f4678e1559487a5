"""Watching: when a defragmentation begins by itself, by schedule and by what is measured.

Whoever leads looks every few seconds and asks `watch`, which keeps what it has to remember in a state of its own. The
rules stand in a table; the first that says something counts. What is measured has to hold for a while, in which no
dataflow comes or goes: else jobs would be moved back and forth with every whim of the load. What somebody asks for
begins without all this; here it is seen only when it has ended, and rested after.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from bridge.machine.back_off import BackOff
from merge import Assignment, Instance

Target: TypeAlias = frozenset[frozenset[Instance]]
"""What an assignment moves together; the same whatever the new jobs are called."""

HORIZON = 3_600.0
"""Seconds within which a defragmentation has to pay: dataflows come and go, and in an hour others may run."""
HOLD = 60.0
"""Seconds for which it has to be worth it: what is measured are means over a minute, so all of it is news by then."""
DEFRAGMENTATION_REST = 300.0
"""Seconds of rest after each: the figures have to settle, and nobody's outputs shall stand still again and again.

Twice as many after each failure in a row, up to an hour, whatever would be moved next.
"""
_RESTS = BackOff.doubling(DEFRAGMENTATION_REST, longest=HORIZON)
_BACK_OFF = BackOff.doubling(600.0, longest=86_400.0)
"""Seconds before a target that failed is tried again: in a day somebody may have mended what was in the way."""


class Act(StrEnum):
    """What to do now: nothing, or begin to consolidate, or to isolate."""

    WAIT = "wait"
    CONSOLIDATE = "consolidate"
    ISOLATE = "isolate"


BEGINS = (Act.CONSOLIDATE, Act.ISOLATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSituation:
    """What there is to see at one moment; made by whoever leads."""

    version: int
    """Counts the changes of what runs for whom."""
    scattered: Target | None = None
    """What consolidation would move, if anything."""
    worth: bool = False
    """Whether that is worth it."""
    overload: Target | None = None
    """What isolation would move, if anything."""
    underway: bool = False
    """Whether one is being carried out."""
    ended: bool | None = None
    """Whether one has ended since the last look: None if not, else whether it came off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """What is remembered from look to look; made by `watch`. Begin with the empty one."""

    version: int | None = None
    worth_since: float | None = None
    """Since when it has been worth it without a break, at the same version."""
    overload_since: float | None = None
    """Since when a job has been overloaded, likewise."""
    rest_until: float | None = None
    due: float | None = None
    """When the next one is to begin by schedule."""
    tried: Target | None = None
    """What was begun last."""
    failures: int = 0
    """How many have failed in a row."""
    retry: float = 0.0
    """When what failed may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecision:
    """What to do, and why; made by `watch`."""

    act: Act
    why: str


def target_of(assignment: Assignment | None) -> Target | None:
    """What an assignment moves; None where it moves nothing."""
    if assignment is None or not assignment.places:
        return None
    return frozenset(
        frozenset(instance for instance, home in assignment.places if home.job == job) for job, _ in assignment.opens
    )


def watch(
    state: TriggerState, look: TriggerSituation, now: float, *, every: float | None = None
) -> tuple[TriggerState, TriggerDecision]:
    """What to remember, and what to do now; `every` so many seconds one begins by schedule, or never."""
    state = _noted(state, look, now, every)
    decision = next(each for rule in RULES if (each := rule(state, look, now)) is not None)
    if decision.act in BEGINS:
        target = look.scattered if decision.act is Act.CONSOLIDATE else look.overload
        state = replace(state, tried=target, rest_until=now + DEFRAGMENTATION_REST)
    if every is not None and (decision.act in BEGINS or _is_due(state, look, now)):
        state = replace(state, due=now + every)
    return state, decision


def _noted(state: TriggerState, look: TriggerSituation, now: float, every: float | None) -> TriggerState:
    """What a look says, beside what it leads to."""
    if look.ended is not None:
        failures = 0 if look.ended else state.failures + 1
        state = replace(
            state,
            failures=failures,
            # The first rest is for one that came off.
            rest_until=now + _RESTS.after(failures + 1),
            retry=now + _BACK_OFF.after(failures),
        )
    same = look.version == state.version
    return replace(
        state,
        version=look.version,
        worth_since=_since(state.worth_since if same else None, look.worth and look.scattered is not None, now),
        overload_since=_since(state.overload_since if same else None, look.overload is not None, now),
        due=None if every is None else now + every if state.due is None else min(state.due, now + every),
    )


def _since(before: float | None, holds: bool, now: float) -> float | None:  # noqa: FBT001 - what is asked about
    if not holds:
        return None
    return now if before is None else before


def _busy(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Nothing by itself while one is under way, and for a while after it."""
    if look.underway:
        return TriggerDecision(act=Act.WAIT, why="one is under way")
    if state.rest_until is not None and now < state.rest_until:
        return TriggerDecision(act=Act.WAIT, why="it rests after the last one")
    return None


def _overloaded(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """A job that cannot keep up comes before what would save something."""
    if look.overload is None or not _held(state.overload_since, now) or _fails(state, look.overload, now):
        return None
    return TriggerDecision(act=Act.ISOLATE, why=f"a job has been overloaded for {HOLD:.0f} s")


def _scheduled(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Without its having held for a while, as far as it is worth it."""
    if not _is_due(state, look, now) or look.scattered is None or not look.worth or _fails(state, look.scattered, now):
        return None
    return TriggerDecision(act=Act.CONSOLIDATE, why="it was due by schedule")


def _worth(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Once it has been worth it for a while."""
    if look.scattered is None or not _held(state.worth_since, now) or _fails(state, look.scattered, now):
        return None
    return TriggerDecision(act=Act.CONSOLIDATE, why=f"it has been worth it for {HOLD:.0f} s")


def _nothing(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Else nothing."""
    if (look.overload or look.scattered) is not None and now < state.retry:
        return TriggerDecision(act=Act.WAIT, why="the last one failed")
    return TriggerDecision(act=Act.WAIT, why="nothing has been worth it for long enough")


RULES: tuple[Callable[[TriggerState, TriggerSituation, float], TriggerDecision | None], ...] = (
    _busy,
    _overloaded,
    _scheduled,
    _worth,
    _nothing,
)


def _held(since: float | None, now: float) -> bool:
    return since is not None and now - since >= HOLD


def _fails(state: TriggerState, target: Target, now: float) -> bool:
    """Whether this is what failed last, not long enough ago."""
    return state.failures > 0 and target == state.tried and now < state.retry


def _is_due(state: TriggerState, look: TriggerSituation, now: float) -> bool:
    """Whether the schedule has its turn now, and whatever it finds."""
    resting = state.rest_until is not None and now < state.rest_until
    return state.due is not None and now >= state.due and not resting and not look.underway
