"""The states of guards: which are active, and what they remember. `advance` is the one step from look to look."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from adaptation.guards.conditions import Guard, ValueGuard
from adaptation.guards.evaluation import NO_MEMORY, ConditionMemory, evaluated
from adaptation.guards.observed import Observed


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
    wanted = {(each.event, each.field) for each in values}
    numbers = {key: number for key, number in states.numbers.items() if key in wanted}
    for event in sorted(observed.events, key=lambda each: each.at):
        for name, number in event.fields.items():
            if (event.name, name) in wanted and isinstance(number, int | float) and not isinstance(number, bool):
                numbers[event.name, name] = float(number)
    return GuardStates(
        guards={each: advanced(each, states.guards.get(each, GuardState()), observed) for each in guards},
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
