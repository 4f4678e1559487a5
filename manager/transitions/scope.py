"""The rule for a change that meets a transition under way: it waits, cancels the transition, or is refused.

Scopes that are disjoint go on side by side. Where they meet, the table decides by who comes and what is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeVar

from manager.transitions.life import HAS_SWITCHED, Phase, TransitionKind
from merge import Instance, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionScope:
    """The part of what runs that a change or a transition is about."""

    jobs: frozenset[JobId] = frozenset()
    """The jobs that may get other plans."""
    instances: frozenset[Instance] = frozenset()
    """The tasks that must stay where they are, or go on together."""
    dataflows: frozenset[str] = frozenset()
    """The dataflows that are reconfigured, by the ids that their tenants have; wherever their tasks are by now."""
    everything: bool = False

    def meets(self, other: "TransitionScope") -> bool:
        """Whether both contain the same job, task or dataflow."""
        if self.everything or other.everything:
            return True
        return not (
            self.jobs.isdisjoint(other.jobs)
            and self.instances.isdisjoint(other.instances)
            and self.dataflows.isdisjoint(other.dataflows)
        )


WHOLE_SCOPE = TransitionScope(everything=True)
"""The scope of a change of which it is not known before what it is about."""


class Resolution(StrEnum):
    """The ways to treat a change that meets a transition."""

    PASS = "pass"  # noqa: S105 - no password
    CANCEL = "cancel"
    """The transition gives way."""
    WAIT = "wait"
    REFUSE = "refuse"


class Comer(StrEnum):
    """The kinds of changes that may meet a transition."""

    CHANGE = "change"
    """Of dataflows, sources or jobs; done in one commit."""
    MOVE = "move"
    DRAIN = "drain"
    RECONFIGURATION = "reconfiguration"
    REPAIR = "repair"
    """The reconfiguration that undoes a failing one; it goes before those that wait."""


class Transition(Protocol):
    """A coordinated change under way."""

    @property
    def kind(self) -> TransitionKind:
        """Its kind."""

    @property
    def phase(self) -> Phase:
        """Its phase."""

    @property
    def scope(self) -> TransitionScope:
        """The jobs and tasks that it is about."""


_GIVES_WAY: Mapping[Phase, Resolution] = {
    Phase.PREPARING: Resolution.CANCEL,
    Phase.CUTTING: Resolution.WAIT,
    Phase.TAKING: Resolution.WAIT,
    Phase.RETURNING: Resolution.WAIT,
}
"""A move that is only prepared has stopped nothing yet. From the cut on tasks stand still, and it has to end."""
_GOES_ON: Mapping[Phase, Resolution] = {
    Phase.WAITING: Resolution.PASS,
    Phase.PREPARING: Resolution.CANCEL,
    Phase.SWITCHING: Resolution.WAIT,
    **dict.fromkeys(HAS_SWITCHED, Resolution.PASS),
}
"""A reconfiguration that is only prepared has changed nothing yet. Once a head may have switched, it has to end."""
MEETINGS: Mapping[tuple[Comer, TransitionKind], Mapping[Phase, Resolution]] = MappingProxyType(
    {
        (Comer.CHANGE, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.DRAIN, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.MOVE, TransitionKind.MOVE): dict.fromkeys(_GIVES_WAY, Resolution.REFUSE),
        (Comer.CHANGE, TransitionKind.DRAIN): {Phase.DRAINING: Resolution.PASS},
        (Comer.DRAIN, TransitionKind.DRAIN): {Phase.DRAINING: Resolution.PASS},
        # Both take cuts through the same streams, and would wait for each other.
        (Comer.MOVE, TransitionKind.DRAIN): {Phase.DRAINING: Resolution.REFUSE},
        (Comer.RECONFIGURATION, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.RECONFIGURATION, TransitionKind.DRAIN): {Phase.DRAINING: Resolution.PASS},
        (Comer.REPAIR, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.REPAIR, TransitionKind.DRAIN): {Phase.DRAINING: Resolution.PASS},
        **dict.fromkeys(((comer, TransitionKind.RECONFIGURATION) for comer in Comer), _GOES_ON),
        # Two that are prepared would cancel each other by turns. They take effect in the order of the requests.
        (Comer.RECONFIGURATION, TransitionKind.RECONFIGURATION): {
            **_GOES_ON,
            Phase.WAITING: Resolution.WAIT,
            Phase.PREPARING: Resolution.WAIT,
        },
        (Comer.REPAIR, TransitionKind.RECONFIGURATION): {**_GOES_ON, Phase.PREPARING: Resolution.WAIT},
    }
)
REASONS: Mapping[TransitionKind, str] = MappingProxyType(
    {
        TransitionKind.MOVE: "tasks are moved already; ask again once that is over",
        TransitionKind.DRAIN: "a dataflow drains; ask again once it is removed",
        TransitionKind.RECONFIGURATION: "tasks are reconfigured already; ask again once that is over",
    }
)
"""The message where a transition is in the way for good."""
AnyTransition = TypeVar("AnyTransition", bound=Transition)


def meeting(
    comer: Comer, scope: TransitionScope, under_way: Iterable[AnyTransition]
) -> tuple[AnyTransition, Resolution] | None:
    """The first transition that does not let a change pass, and what to do about it."""
    for each in under_way:
        verdict = MEETINGS[comer, each.kind][each.phase]
        if verdict is not Resolution.PASS and scope.meets(each.scope):
            return each, verdict
    return None
