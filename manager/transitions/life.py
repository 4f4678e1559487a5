"""The life of each kind of transition, as a table: its phases, and the event that leads from one to the next.

A phase is committed before anybody acts on it, so a manager that dies leaves to the next one where it was. A new kind
is a line here, the verdicts of `meeting` on it, its record, and its plans.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class TransitionKind(StrEnum):
    """The kinds of coordinated changes."""

    MOVE = "move"
    """Tasks go from job to job, with their states."""
    DRAIN = "drain"
    """A dataflow works off what its sources had sent, and is removed."""
    RECONFIGURATION = "reconfiguration"
    """Tasks get new configs, types or versions, and keep their states."""


class Phase(StrEnum):
    """The stages in the life of a transition."""

    WAITING = "waiting"
    """Behind others in the queue; nothing was done yet."""
    PREPARING = "preparing"
    CUTTING = "cutting"
    TAKING = "taking"
    RETURNING = "returning"
    DRAINING = "draining"
    SWITCHING = "switching"
    PROVING = "proving"
    DONE = "done"
    RETURNED = "returned"
    ABANDONED = "abandoned"
    REVERTED = "reverted"


class TransitionEvent(StrEnum):
    """The events that end a phase."""

    CLEARED = "cleared"
    """Nothing is in its way any more."""
    INTERRUPTED = "interrupted"
    """Another manager took over, which does not know what was decided."""
    READY = "ready"
    PASSED = "passed"
    BEGUN = "begun"
    HINDERED = "hindered"
    DRAINED = "drained"
    WITHDRAWN = "withdrawn"
    """The dataflow was removed at once."""
    PROVEN = "proven"
    """It works, and all events from before it are gone."""
    FAILED = "failed"
    """What is new does not work."""


_LAST: Mapping[Phase, Mapping[TransitionEvent, Phase]] = {
    Phase.DONE: {},
    Phase.RETURNED: {},
    Phase.ABANDONED: {},
    Phase.REVERTED: {},
}
LIVES: Mapping[TransitionKind, Mapping[Phase, Mapping[TransitionEvent, Phase]]] = MappingProxyType(
    {
        TransitionKind.MOVE: {
            Phase.PREPARING: {TransitionEvent.READY: Phase.CUTTING, TransitionEvent.HINDERED: Phase.ABANDONED},
            Phase.CUTTING: {TransitionEvent.PASSED: Phase.TAKING, TransitionEvent.HINDERED: Phase.RETURNING},
            Phase.TAKING: {TransitionEvent.BEGUN: Phase.DONE, TransitionEvent.HINDERED: Phase.RETURNING},
            Phase.RETURNING: {TransitionEvent.BEGUN: Phase.RETURNED},
            **_LAST,
        },
        TransitionKind.DRAIN: {
            Phase.DRAINING: {TransitionEvent.DRAINED: Phase.DONE, TransitionEvent.WITHDRAWN: Phase.ABANDONED},
            **_LAST,
        },
        TransitionKind.RECONFIGURATION: {
            Phase.WAITING: {TransitionEvent.CLEARED: Phase.PREPARING, TransitionEvent.HINDERED: Phase.ABANDONED},
            Phase.PREPARING: {
                TransitionEvent.READY: Phase.SWITCHING,
                TransitionEvent.INTERRUPTED: Phase.WAITING,
                TransitionEvent.HINDERED: Phase.ABANDONED,
            },
            Phase.SWITCHING: {TransitionEvent.BEGUN: Phase.PROVING},
            Phase.PROVING: {TransitionEvent.PROVEN: Phase.DONE, TransitionEvent.FAILED: Phase.REVERTED},
            **_LAST,
            Phase.REVERTED: {TransitionEvent.PROVEN: Phase.REVERTED},
        },
    }
)


HAS_SWITCHED = frozenset({Phase.PROVING, Phase.REVERTED})
"""The phases of a reconfiguration whose jobs have all switched, while older events may still be under way."""


def _events_of(kind: TransitionKind) -> tuple[TransitionEvent, ...]:
    return tuple(event for event in TransitionEvent if any(event in turns for turns in LIVES[kind].values()))


MOVE_EVENTS = _events_of(TransitionKind.MOVE)
"""The events in the life of a move."""
RECONFIGURATION_EVENTS = _events_of(TransitionKind.RECONFIGURATION)
"""The events in the life of a reconfiguration."""
