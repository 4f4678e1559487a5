"""Moves: tasks that go from job to job together, with their states, at one cut.

The phases of a move, and why in this order:

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
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from manager.transitions.life import Phase, TransitionKind
from manager.transitions.scope import TransitionScope
from merge import Assignment, Instance, JobId


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
    """A move under way; made by the committer."""

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

    @property
    def kind(self) -> TransitionKind:
        """As `Transition` says."""
        return TransitionKind.MOVE

    @property
    def scope(self) -> TransitionScope:
        """As `Transition` says: all jobs that get plans because of it, and all tasks that the cut passes."""
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
    """The outcome of the last move; made by the committer."""

    move: int
    phase: Phase
    opened: int
    """The jobs that it started."""
    interruption: float
    """Seconds for which outputs stood still at most."""


MOVE_CUTS = "move-"
"""The beginning of the names of cuts that moves take, and of no others."""
