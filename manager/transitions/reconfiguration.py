"""Reconfigurations: tasks get new configs, types or versions while they run, and keep their states.

The phases, and why in this order:

0. *Waiting*, only if another transition is in its way when it is asked for. Nothing is decided yet but that it waits;
   what was asked for is read again, and decided on, once nothing is in its way.
1. *Preparing*, only if jobs switch one after the other. Those that wait for markers log their plans, so that they know
   the marker when it comes. Nothing has changed yet, and a change of the same jobs cancels the reconfiguration.
   If the manager dies, the next one does not know what was decided: it withdraws the plans, and has it wait again.
2. *Switching.* The tasks are changed in the committed state. The jobs of the heads get their plans, switch at their
   next batch, and send the markers. From here on it goes on to its end.
3. *Proving.* All jobs run the new plans. If a changed task fails within a while, the reconfiguration is undone by
   another one, and *reverted*. Either way it is under way, and covered by those that come after it, until all events
   from before its switch are gone (`manager.reconciler.older_events`).
"""

from dataclasses import dataclass

from manager.transitions.life import Phase, TransitionKind
from manager.transitions.reconfiguration_decision import ReconfigurationDecision
from manager.transitions.scope import TransitionScope
from merge import Instance, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The decision of a reconfiguration that is prepared, in the memory of the manager that made it."""

    decision: ReconfigurationDecision
    fresh: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """A reconfiguration under way; made by the committer."""

    id: int
    phase: Phase
    since: float
    """When it entered its phase, in seconds since 1970."""
    begun: float
    """When it was asked for."""
    dataflows: tuple[str, ...]
    """By the ids that their tenants have."""
    jobs: frozenset[JobId]
    """The jobs that switch; while it waits, those that would have when this was looked at last."""
    awaiting: frozenset[JobId]
    """Those that wait for markers."""
    sources: frozenset[Instance]
    """The sources that carry the marker."""
    instances: frozenset[Instance]
    """The tasks that must stay where they are meanwhile."""
    changed: frozenset[Instance]
    """The changed instances, forks among them, as they are after the switch."""
    watched: frozenset[Instance]
    """These, and all below them."""
    undoes: int | None = None
    """The reconfiguration that it undoes; such a one is not undone by itself."""
    outcome: str = ""
    """What came of it if it did not simply go on; it is not undone by itself twice."""
    prepared: Prepared | None = None
    """None while it waits, from the switch on, and after another manager took over."""

    @property
    def kind(self) -> TransitionKind:
        """As `Transition` says."""
        return TransitionKind.RECONFIGURATION

    @property
    def scope(self) -> TransitionScope:
        """As `Transition` says."""
        return TransitionScope(jobs=self.jobs, instances=self.instances, dataflows=frozenset(self.dataflows))

    @property
    def marker(self) -> str:
        """The name of its marker."""
        return switch_marker(self.id)


def switch_marker(reconfiguration: int) -> str:
    """The name of a reconfiguration's marker."""
    return f"switch-{reconfiguration}"
