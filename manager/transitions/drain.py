"""Drains: a dataflow is removed once what its sources had sent is worked off. Meanwhile it runs on as it is."""

from dataclasses import dataclass

from manager.transitions.life import Phase, TransitionKind
from manager.transitions.scope import TransitionScope
from merge import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A drain under way; made by the committer."""

    dataflow: str
    """By the id that the running graph has."""
    since: float
    """When it was asked for, in seconds since 1970."""
    instances: frozenset[Instance]
    """The tasks of the dataflow."""

    @property
    def kind(self) -> TransitionKind:
        """As `Transition` says."""
        return TransitionKind.DRAIN

    @property
    def phase(self) -> Phase:
        """As `Transition` says; it has but one."""
        return Phase.DRAINING

    @property
    def scope(self) -> TransitionScope:
        """As `Transition` says. It changes no plan."""
        return TransitionScope(instances=self.instances)
