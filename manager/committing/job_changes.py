"""The changes that jobs bring: what is wanted of them, what they are fed again, and that they have ended."""

import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import delete
from sqlmodel import Session, col

from engine.plan import Feed
from manager.answers import OperationKind
from manager.committing.move_changes import MoveChanges
from manager.committing.state import State
from manager.committing.wanted import WantedJob
from manager.committing.writing import write_down, write_plans
from manager.store.dead_letters import taken
from manager.store.tables import JobRow
from merge import JobId


class JobChanges(MoveChanges):
    """What is done with jobs."""

    def wanted(self) -> Mapping[str, WantedJob]:
        """As `Wanting` says."""
        with self._lock:
            if not self.leads:
                return {}
            state = self._current()
            runs = {str(job): WantedJob(job=str(job), host=plan.host, plan=plan) for job, plan in state.plans.items()}
            ends = {str(job): WantedJob(job=str(job), host=plan.host, plan=None) for job, plan in state.stopped.items()}
            return runs | ends

    def ended(self, job: str) -> None:
        """A job that was to stop has stopped, as its host says: forget it."""
        with self._lock:
            if not self.leads or JobId(int(job)) not in self._current().stopped:
                return
            with self._committing() as (session, draft):
                session.execute(delete(JobRow).where(col(JobRow.id) == int(job), col(JobRow.stopped)))
                draft.end(JobId(int(job)))

    def feed(
        self, choose: Callable[[Session, State], Mapping[JobId, Sequence[Feed]]], *, who: str, subject: str
    ) -> None:
        """Have tasks take events again that they could not take, as is chosen within the transaction."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            draft.feed(choose(session, draft.state))
            write_down(session, draft, OperationKind.REPLAY, who=who, subject=subject, begun=begun)
        self._told()

    def fed(self, job: str, version: int) -> None:
        """A job has run its plan of a version, as its host says: what that feeds is not to be fed by the next."""
        with self._lock:
            plan = self._current().plans.get(JobId(int(job))) if self.leads else None
            if plan is None or plan.version != version or not plan.feeds:
                return
            with self._changing() as (session, draft):
                draft.feed_no_more(JobId(int(job)))
                taken(session, [each.id for each in plan.feeds])
                write_plans(session, draft)
        self._told()
