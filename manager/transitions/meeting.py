"""The rule for a change that meets a transition under way: it waits, cancels the transition, or is refused.

Scopes that are disjoint go on side by side. Where they meet, the table decides by who comes and what is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeVar

from manager.transitions.life import Phase, TransitionKind
from merge import Instance, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of what runs that a change or a transition is about."""

    jobs: frozenset[JobId] = frozenset()
    """The jobs that may get other plans."""
    instances: frozenset[Instance] = frozenset()
    """The tasks that must stay where they are, or go on together."""
    everything: bool = False

    def meets(self, other: "Scope") -> bool:
        """Whether both are about something that is the same."""
        if self.everything or other.everything:
            return True
        return not (self.jobs.isdisjoint(other.jobs) and self.instances.isdisjoint(other.instances))


EVERYTHING = Scope(everything=True)
"""The scope of a change of which it is not known before what it is about."""


class Verdict(StrEnum):
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


class Transition(Protocol):
    """A coordinated change under way."""

    @property
    def kind(self) -> TransitionKind:
        """Its kind."""

    @property
    def phase(self) -> Phase:
        """Its phase."""

    @property
    def scope(self) -> Scope:
        """What it is about."""


_GIVES_WAY: Mapping[Phase, Verdict] = {
    Phase.PREPARING: Verdict.CANCEL,
    Phase.CUTTING: Verdict.WAIT,
    Phase.TAKING: Verdict.WAIT,
    Phase.RETURNING: Verdict.WAIT,
}
"""A move that is only prepared has stopped nothing yet. From the cut on tasks stand still, and it has to end."""
MEETINGS: Mapping[tuple[Comer, TransitionKind], Mapping[Phase, Verdict]] = MappingProxyType(
    {
        (Comer.CHANGE, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.DRAIN, TransitionKind.MOVE): _GIVES_WAY,
        (Comer.MOVE, TransitionKind.MOVE): dict.fromkeys(_GIVES_WAY, Verdict.REFUSE),
        (Comer.CHANGE, TransitionKind.DRAIN): {Phase.DRAINING: Verdict.PASS},
        (Comer.DRAIN, TransitionKind.DRAIN): {Phase.DRAINING: Verdict.PASS},
        # Both take cuts through the same streams, and would wait for each other.
        (Comer.MOVE, TransitionKind.DRAIN): {Phase.DRAINING: Verdict.REFUSE},
    }
)
REASONS: Mapping[TransitionKind, str] = MappingProxyType(
    {
        TransitionKind.MOVE: "tasks are moved already; ask again once that is over",
        TransitionKind.DRAIN: "a dataflow drains; ask again once it is removed",
    }
)
"""The message where a transition is in the way for good."""
AnyTransition = TypeVar("AnyTransition", bound=Transition)


def meeting(comer: Comer, scope: Scope, under_way: Iterable[AnyTransition]) -> tuple[AnyTransition, Verdict] | None:
    """The first transition that does not let a change pass, and what to do about it."""
    for each in under_way:
        verdict = MEETINGS[comer, each.kind][each.phase]
        if verdict is not Verdict.PASS and scope.meets(each.scope):
            return each, verdict
    return None
