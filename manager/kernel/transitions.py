"""Transitions: changes of what runs that take several steps. Their lives as a table, their records, and who gives way.

A phase is committed before anybody acts on it, so a manager that dies leaves to the next one where it was. A change
that meets a transition under way waits, cancels it, or is refused; scopes that are disjoint go on side by side.

Moves: tasks that go from job to job together, with their states, at one cut. The phases, and why in this order:

1. *Preparing.* The new jobs begin with empty plans, so that they are warm when they are needed. The jobs that are left
   get plans without what moves, which take effect at the cut. Nothing stands still yet, and a change of the same jobs
   cancels the move.
2. *Cutting.* All have what they need, so the cut is wished for. From here on it may be taken at any moment, in one job
   after the other, and changes of the same jobs wait. What has passed the cut stands still.
3. *Taking.* Every job has passed, so nothing of what moves is under way between them. It gets new homes, in one commit;
   the jobs there bring the states along and begin where the cut lies, in the next epoch. Only where all of them have
   refused can it go back: any other may have begun.
4. *Returning*, instead, where something hindered the cut or was refused. The old jobs bring the states along from
   themselves. What has passed the cut goes on from there, and what has not goes on as it is.

When all have begun, the cut is released, and jobs that hold nothing any more are stopped.

Reconfigurations: tasks get new configs, types or versions while they run, and keep their states. The phases, and
why in this order:

0. *Waiting*, only if another transition is in its way when it is asked for. What was asked for is read again, and
   decided on, once nothing is in its way.
1. *Preparing*, only if jobs switch one after the other. Those that wait for markers log their plans, so that they know
   the marker when it comes. Nothing has changed yet, and a change of the same jobs cancels the reconfiguration.
   If the manager dies, the next one does not know what was decided: it withdraws the plans, and has it wait again.
2. *Switching.* The tasks are changed in the committed state. The jobs of the heads get their plans, switch at their
   next batch, and send the markers. From here on it goes on to its end.
3. *Proving.* All jobs run the new plans. If a changed task fails within a while, the reconfiguration is undone by
   another one, and *reverted*. Either way it is under way, and covered by those that come after it, until all events
   from before its switch are gone (`manager.kernel.older_events`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar

from manager.problem import Conflict
from merge import Assignment, Instance, JobId

if TYPE_CHECKING:
    from manager.reconfigurations.decision import ReconfigurationDecision


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
        """Tell whether both contain the same job, task or dataflow."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A drain under way."""

    dataflow: str
    """By the id that the running graph has."""
    since: float
    """When it was asked for, in seconds since 1970."""
    instances: frozenset[Instance]
    """The tasks of the dataflow."""

    kind: ClassVar = TransitionKind.DRAIN
    phase: ClassVar = Phase.DRAINING

    @property
    def scope(self) -> TransitionScope:
        """Return its tasks; it changes no plan."""
        return TransitionScope(instances=self.instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """One instance that moves; from a job to the same one, where others of its running DAG go elsewhere."""

    instance: Instance
    leaves: JobId
    joins: JobId
    works: bool
    """Whether it has a slot and states; a source has neither, and only its home changes."""
    busy: float = 0.0
    """Its estimated share of a core in its new home."""


class Chosen(NamedTuple):
    """The places where tasks are to run, decided by the state as it is."""

    assignment: Assignment
    reason: str
    """For the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move under way."""

    id: int
    phase: Phase
    since: float
    """When it came into its phase, in seconds since 1970."""
    steps: tuple[MoveStep, ...]
    """All tasks of the running DAGs of which something moves."""
    opens: Mapping[JobId, str]
    """The new jobs, with their hosts."""
    passed: Mapping[JobId, Mapping[str, int]] = field(default_factory=dict)
    """For each job that is left where the cut lies in its streams; known from when all had passed it."""
    trace: str = field(default="", compare=False)
    """The traceparent of what it was begun by, in the memory of the manager that has begun it."""

    kind: ClassVar = TransitionKind.MOVE

    @property
    def scope(self) -> TransitionScope:
        """All jobs that get plans because of it, and all tasks that the cut passes."""
        return TransitionScope(jobs=self.concerned, instances=frozenset(step.instance for step in self.steps))

    @property
    def cut(self) -> str:
        """The name of its cut."""
        return f"{MOVE_CUTS}{self.id}"

    @property
    def left(self) -> frozenset[JobId]:
        """The jobs in which what moves works until the cut."""
        return frozenset(step.leaves for step in self.steps if step.works)

    @property
    def joined(self) -> frozenset[JobId]:
        """The jobs in which it runs after that."""
        return frozenset(step.joins for step in self.steps)

    @property
    def concerned(self) -> frozenset[JobId]:
        """All jobs that are part in it."""
        return frozenset(step.leaves for step in self.steps) | self.joined | self.opens.keys()

    @property
    def begins(self) -> frozenset[JobId]:
        """The jobs that have to begin before it is over: those that take, or that take back."""
        return self.left if self.phase is Phase.RETURNING else self.joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The outcome of the last move."""

    move: int
    phase: Phase
    opened: int
    """The jobs that it started."""
    interruption: float
    """Seconds for which outputs stood still at most."""


MOVE_CUTS = "move-"
"""The beginning of the names of cuts that moves take, and of no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """A reconfiguration under way."""

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
    prepared: "ReconfigurationDecision | None" = None
    """What was decided, in the memory of the manager that has prepared it; else None."""
    trace: str = field(default="", compare=False)
    """The traceparent of what it was asked for by, likewise."""

    kind: ClassVar = TransitionKind.RECONFIGURATION

    @property
    def scope(self) -> TransitionScope:
        """The jobs that switch, and all tasks of its dataflows."""
        return TransitionScope(jobs=self.jobs, instances=self.instances, dataflows=frozenset(self.dataflows))

    @property
    def marker(self) -> str:
        """The name of its marker."""
        return f"switch-{self.id}"


Transition: TypeAlias = Drain | Move | Reconfiguration


def meeting(
    comer: Comer, scope: TransitionScope, under_way: Iterable[Transition]
) -> tuple[Transition, Resolution] | None:
    """The first transition that does not let a change pass, and what to do about it."""
    for transition in under_way:
        verdict = MEETINGS[comer, transition.kind][transition.phase]
        if verdict is not Resolution.PASS and scope.meets(transition.scope):
            return transition, verdict
    return None


class Turn(NamedTuple):
    """An event in the life of a move or a reconfiguration, for the committer."""

    transition: Move | Reconfiguration
    """As it is when the event is observed."""
    event: TransitionEvent
    why: str = ""
    passed: Mapping[JobId, Mapping[str, int]] = MappingProxyType({})
    """The cut's positions in the streams of each job that has passed it."""


AnyTransition = TypeVar("AnyTransition", Move, Reconfiguration)


def turned(turn: Turn, under_way: Mapping[int, AnyTransition]) -> tuple[AnyTransition, Phase]:
    """The transition of a turn, and the phase to which it leads; refused unless it is known as it was observed."""
    seen, known = turn.transition, under_way.get(turn.transition.id)
    following = LIVES[seen.kind][seen.phase].get(turn.event)
    if known is None or known != seen or following is None:
        raise Conflict(f"this {seen.kind} is over, or went on meanwhile")
    return known, following
