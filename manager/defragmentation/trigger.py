"""The trigger: when a defragmentation starts by itself, by schedule or by measurements.

The leading manager calls `watch` every few seconds with the state that the last call returned. The rules are in a
table; the first that returns a decision counts. Measurements must hold for a while during which no dataflow comes or
goes, otherwise jobs would be moved back and forth as the load changes. A defragmentation on request bypasses all this;
only its end is noticed, and a rest follows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from bridge.machine.back_off import BackOff
from merge import Assignment, Instance

Target: TypeAlias = frozenset[frozenset[Instance]]
"""The instances that an assignment moves together, independent of the ids of the new jobs."""

HORIZON = 3_600.0
"""Seconds within which a defragmentation has to pay off; in an hour, other dataflows may run."""
HOLD = 60.0
"""Seconds for which it has to be worth it. Figures are means over a minute, so by then all of them are new."""
DEFRAGMENTATION_REST = 300.0
"""Seconds of rest after each, so that figures settle and outputs do not stand still again and again.

Doubled with each failure in a row, up to an hour, for any target.
"""
_RESTS = BackOff.doubling(DEFRAGMENTATION_REST, longest=HORIZON)
_BACK_OFF = BackOff.doubling(600.0, longest=86_400.0)
"""Seconds before a target that failed is tried again: in a day the cause may have been fixed."""


class Act(StrEnum):
    """The action to take now."""

    WAIT = "wait"
    CONSOLIDATE = "consolidate"
    ISOLATE = "isolate"
    SEPARATE = "separate"


BEGINS = (Act.CONSOLIDATE, Act.ISOLATE, Act.SEPARATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSituation:
    """The situation at one moment; made by the watcher."""

    version: int
    """The version of the running graph."""
    scattered: Target | None = None
    """The instances that consolidation would move, if any."""
    worth: bool = False
    """Consolidation is worth it."""
    overload: Target | None = None
    """The instances that isolation would move, if any."""
    shared: Target | None = None
    """The instances in quarantine that separation would move out of jobs of others, if any."""
    underway: bool = False
    """A defragmentation is under way."""
    ended: bool | None = None
    """The outcome of a defragmentation that has ended since the last look; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """The state from one look to the next; made by `watch`. Start with the empty one."""

    version: int | None = None
    worth_since: float | None = None
    """The time since when it has been worth it without a break, at the same version."""
    overload_since: float | None = None
    """The time since when a job has been overloaded without a break, at the same version."""
    rest_until: float | None = None
    due: float | None = None
    """The time of the next one by schedule."""
    tried: Target | None = None
    """The target of the last one."""
    failures: int = 0
    """The number of failures in a row."""
    retry: float = 0.0
    """The time from which a failed target may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecision:
    """An action with its reason; made by `watch`."""

    act: Act
    why: str


def target_of(assignment: Assignment | None) -> Target | None:
    """Return the target of an assignment; None if it moves nothing."""
    if assignment is None or not assignment.places:
        return None
    return frozenset(
        frozenset(instance for instance, home in assignment.places if home.job == job) for job, _ in assignment.opens
    )


def watch(
    state: TriggerState, look: TriggerSituation, now: float, *, every: float | None = None
) -> tuple[TriggerState, TriggerDecision]:
    """Decide what to do now, and return the state for the next call.

    `every` is the period of the schedule in seconds; None is no schedule.
    """
    state = _updated(state, look, now, every)
    decision = next(each for rule in RULES if (each := rule(state, look, now)) is not None)
    if decision.act in BEGINS:
        target = {Act.CONSOLIDATE: look.scattered, Act.ISOLATE: look.overload, Act.SEPARATE: look.shared}[decision.act]
        state = replace(state, tried=target, rest_until=now + DEFRAGMENTATION_REST)
    if every is not None and (decision.act in BEGINS or _is_due(state, look, now)):
        state = replace(state, due=now + every)
    return state, decision


def _updated(state: TriggerState, look: TriggerSituation, now: float, every: float | None) -> TriggerState:
    """Return the state with the news of a look, before the rules apply."""
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


def _since(before: float | None, holds: bool, now: float) -> float | None:  # noqa: FBT001 - the condition itself
    if not holds:
        return None
    return now if before is None else before


def _busy(_state: TriggerState, look: TriggerSituation, _now: float) -> TriggerDecision | None:
    """Wait while one is under way."""
    return TriggerDecision(act=Act.WAIT, why="one is under way") if look.underway else None


def _quarantined(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Separate at once: others may suffer meanwhile."""
    if look.shared is None or _fails(state, look.shared, now):
        return None
    return TriggerDecision(act=Act.SEPARATE, why="tasks of a tenant in quarantine share a job with those of others")


def _resting(state: TriggerState, _look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Rest after the last one."""
    if state.rest_until is not None and now < state.rest_until:
        return TriggerDecision(act=Act.WAIT, why="it rests after the last one")
    return None


def _overloaded(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Isolate first: a job that cannot keep up is more urgent than savings."""
    if look.overload is None or not _held(state.overload_since, now) or _fails(state, look.overload, now):
        return None
    return TriggerDecision(act=Act.ISOLATE, why=f"a job has been overloaded for {HOLD:.0f} s")


def _scheduled(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Consolidate by schedule if it is worth it, even if only since now."""
    if not _is_due(state, look, now) or look.scattered is None or not look.worth or _fails(state, look.scattered, now):
        return None
    return TriggerDecision(act=Act.CONSOLIDATE, why="it was due by schedule")


def _worth(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Consolidate once it has been worth it for a while."""
    if look.scattered is None or not _held(state.worth_since, now) or _fails(state, look.scattered, now):
        return None
    return TriggerDecision(act=Act.CONSOLIDATE, why=f"it has been worth it for {HOLD:.0f} s")


def _nothing(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision | None:
    """Wait, because no other rule applies."""
    if (look.overload or look.scattered) is not None and now < state.retry:
        return TriggerDecision(act=Act.WAIT, why="the last one failed")
    return TriggerDecision(act=Act.WAIT, why="nothing has been worth it for long enough")


RULES: tuple[Callable[[TriggerState, TriggerSituation, float], TriggerDecision | None], ...] = (
    _busy,
    _quarantined,
    _resting,
    _overloaded,
    _scheduled,
    _worth,
    _nothing,
)


def _held(since: float | None, now: float) -> bool:
    return since is not None and now - since >= HOLD


def _fails(state: TriggerState, target: Target, now: float) -> bool:
    """Return true if this target failed last, and its back-off has not passed."""
    return state.failures > 0 and target == state.tried and now < state.retry


def _is_due(state: TriggerState, look: TriggerSituation, now: float) -> bool:
    """Return true if the schedule is due now, even if there is nothing to consolidate."""
    resting = state.rest_until is not None and now < state.rest_until
    return state.due is not None and now >= state.due and not resting and not look.underway
