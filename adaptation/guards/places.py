"""The places of a guard's conditions in its JSON."""

from collections.abc import Iterator

from adaptation.guards.conditions import (
    AllCondition,
    AnyCondition,
    Condition,
    Guard,
    NotCondition,
    SequenceCondition,
)

Place = tuple[str | int, ...]

_JOINING = {AllCondition: "all", AnyCondition: "any", SequenceCondition: "sequence"}


def conditions_of(guard: Guard, at: Place) -> Iterator[tuple[Place, Condition]]:
    """Every condition of a guard at some place, with its own place."""
    yield from _inside(guard.activate, (*at, "activate"))
    if guard.deactivate is not None:
        yield from _inside(guard.deactivate, (*at, "deactivate"))


def _inside(condition: Condition, at: Place) -> Iterator[tuple[Place, Condition]]:
    yield at, condition
    if isinstance(condition, NotCondition):
        yield from _inside(condition.part, (*at, "not"))
    elif isinstance(condition, AllCondition | AnyCondition | SequenceCondition):
        for number, part in enumerate(condition.parts):
            yield from _inside(part, (*at, _JOINING[type(condition)], number))
