"""Faults of guards: those that never become active, that are active for a moment only, or that can oscillate."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from adaptation.guards.cases import TooManyCases, cases_of
from adaptation.guards.conditions import (
    FEEDBACK,
    AllCondition,
    AnyCondition,
    Condition,
    EventCondition,
    Guard,
    MetricCondition,
)
from adaptation.guards.places import conditions_of

_LESS, _MORE = 0.8, 1.25


class Fault(NamedTuple):
    """What is wrong with a guard; made by `faults_of`."""

    at: str
    """`activate` or `deactivate`."""
    code: str
    message: str
    remedy: str


def faults_of(guard: Guard) -> Iterator[Fault]:
    """What can be said against a guard before anything is observed."""
    try:
        activates = cases_of(guard.activate)
        deactivates = cases_of(guard.deactivate) if guard.deactivate is not None else ()
    except TooManyCases:
        yield Fault("activate", "too-many-cases", "the conditions have too many cases to be checked", "simplify them")
        return
    if not activates:
        message = "the condition can never hold: its bounds exclude each other, or no time is left"
        yield Fault("activate", "never-fires", message, "change its bounds, or remove what it guards")
    if guard.deactivate is not None and not deactivates:
        message = "the condition can never hold, so it would stay active for ever"
        yield Fault("deactivate", "never-fires", message, "change its bounds, or leave 'deactivate' out")
    if guard.deactivate is None:
        if is_momentary(guard.activate):
            message = "it would be active only for the moment at which the event comes"
            yield Fault("activate", "momentary", message, "give the event 'within', or give 'deactivate'")
        if any(each.feeds_back for each in activates):
            yield _oscillation(guard, "it follows a metric that its own effect changes, so it can switch to and fro")
    elif any(
        one.feeds_back and other.feeds_back and not one.is_apart(other) for one in activates for other in deactivates
    ):
        yield _oscillation(guard, "'activate' and 'deactivate' leave no gap between them, so it can switch to and fro")


def is_momentary(condition: Condition) -> bool:
    """Whether a condition holds only at the moment at which an event comes."""
    match condition:
        case EventCondition():
            return condition.within is None
        case AllCondition():
            return any(map(is_momentary, condition.parts))
        case AnyCondition():
            return all(map(is_momentary, condition.parts))
        case _:
            return False


def shadows(earlier: Guard, later: Guard) -> bool:
    """Whether one is active whenever another is, as far as can be known."""
    if earlier == later:
        return True
    if earlier.deactivate is not None or later.deactivate is not None:
        return False
    try:
        wide, narrow = cases_of(earlier.activate), cases_of(later.activate)
    except TooManyCases:
        return False
    return bool(narrow) and all(any(each.covers(case) for each in wide) for case in narrow)


def _oscillation(guard: Guard, message: str) -> Fault:
    return Fault("activate", "oscillates", message, _gap(_feedback_in(guard)))


def _feedback_in(guard: Guard) -> Sequence[MetricCondition]:
    return [
        each
        for at, each in conditions_of(guard, ())
        if at[0] == "activate" and isinstance(each, MetricCondition) and each.metric in FEEDBACK
    ]


def _gap(found: Sequence[MetricCondition]) -> str:
    if not found:
        return "leave a gap between the bounds of 'activate' and 'deactivate'"
    bound, metric = found[0], found[0].metric
    if bound.above is not None:
        lower = bound.above * _LESS
        return f'let it deactivate at a lower bound, such as {{"metric": "{metric}", "below": {lower:g}}}'
    higher = (bound.below or 0) * _MORE
    return f'let it deactivate at a higher bound, such as {{"metric": "{metric}", "above": {higher:g}}}'
