"""The changes of jobs: fed again what they could not take, rescaled, repaced, and ended; and what is wanted of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete
from sqlmodel import Session, col

from engine.plan import Feed
from manager.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import Draft, write_down, write_loads, write_plans
from manager.kernel.state import CommittedState
from manager.kernel.transitions import WHOLE_SCOPE, TransitionKind, TransitionScope
from manager.kernel.wanted import WantedJob
from manager.problem import Conflict
from manager.store.dead_letters import taken
from manager.store.tables import JobRow
from merge import JobId, Repace, Rescale


class JobChanges:
    """All that is done with jobs."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def wanted(self) -> Mapping[str, WantedJob]:
        """As `Wanting` says."""
        if not self._committer.leads:
            return {}
        with self._committer.looking() as state:
            runs = {str(job): WantedJob(job=str(job), host=plan.host, plan=plan) for job, plan in state.plans.items()}
            ends = {str(job): WantedJob(job=str(job), host=plan.host, plan=None) for job, plan in state.stopped.items()}
            return runs | ends

    def on_change(self, listener: Callable[[], None]) -> None:
        """As `Wanting` says."""
        self._committer.on_change(listener)

    def ended(self, job: str) -> None:
        """Forget a job that was to stop and has stopped, as its host reports."""
        number = JobId(int(job))
        if not self._committer.leads:
            return
        with self._committer.looking() as state:
            if number in state.stopped:
                self._committer.go_on(lambda session, draft: _forget(session, draft, number), quietly=True)

    def feed(
        self, choose: Callable[[Session, CommittedState], Mapping[JobId, Sequence[Feed]]], *, who: str, subject: str
    ) -> None:
        """Have tasks take events again that they could not take, as is chosen within the transaction."""
        begun = time.monotonic()

        def write(session: Session, draft: Draft, _decided: None) -> None:
            draft.feed(choose(session, draft.state))
            write_down(session, draft, OperationKind.REPLAY, who=who, subject=subject, begun=begun)

        # The jobs are known only in the transaction.
        self._committer.commit(_nothing, write, scope=lambda _state, _decided: WHOLE_SCOPE)

    def rescale(self, rescale: Rescale, *, base: int, who: str) -> None:
        """Give a job another number of shards, as was decided on these jobs; refused while it is in a transition."""
        scope = TransitionScope(jobs=frozenset({rescale.job}), instances=frozenset(rescale.busy))

        def take(session: Session, draft: Draft) -> None:
            draft.rescale(rescale)
            write_loads(session, rescale.busy)

        self._change(rescale, take, OperationKind.RESCALE, scope=scope, base=base, who=who)

    def repace(self, repace: Repace, *, base: int, who: str) -> None:
        """Give a job another pace, as was decided on these jobs; refused while it is in a transition."""
        scope = TransitionScope(jobs=frozenset({repace.job}))
        self._change(
            repace, lambda _session, draft: draft.repace(repace), OperationKind.REPACE, scope=scope, base=base, who=who
        )

    def would_repace(self, repace: Repace, *, who: str) -> None:
        """Note in the journal that a job would get another pace."""
        begun = time.monotonic()

        def write(session: Session, draft: Draft, _decided: None) -> None:
            kind, note = OperationKind.WOULD_REPACE, repace.why
            write_down(session, draft, kind, who=who, subject=str(repace.job), begun=begun, note=note)

        self._committer.commit(_nothing, write, scope=lambda _state, _decided: TransitionScope())

    def _change(  # noqa: PLR0913 - what, how, on what ground, and for the journal
        self,
        change: Rescale | Repace,
        take: Callable[[Session, Draft], None],
        kind: OperationKind,
        *,
        scope: TransitionScope,
        base: int,
        who: str,
    ) -> None:
        begun = time.monotonic()

        def check(state: CommittedState, _now: datetime) -> None:
            if state.jobs.version != base:
                raise Conflict("the jobs have changed since that was decided")
            # Else one that is only prepared would be given up for it.
            if any(scope.meets(each.scope) for each in state.transitions if each.kind is not TransitionKind.DRAIN):
                raise Conflict(f"job {change.job} is in a transition")

        def write(session: Session, draft: Draft, _decided: None) -> None:
            take(session, draft)
            write_down(session, draft, kind, who=who, subject=str(change.job), begun=begun, note=change.why)

        self._committer.commit(check, write, scope=lambda _state, _decided: scope, waits=False)

    def fed(self, job: str, version: int) -> None:
        """Note that a job has run its plan of a version, as its host reports: the next feeds none of that again."""
        number = JobId(int(job))
        if not self._committer.leads:
            return
        with self._committer.looking() as state:
            plan = state.plans.get(number)
            if plan is None or plan.version != version or not plan.feeds:
                return

            def write(session: Session, draft: Draft, _decided: None) -> None:
                draft.feed_no_more(number)
                taken(session, [each.id for each in plan.feeds])
                write_plans(session, draft)

            self._committer.commit(
                _nothing, write, scope=lambda _state, _decided: TransitionScope(jobs=frozenset({number}))
            )


def _nothing(_state: CommittedState, _now: datetime) -> None:
    """There is nothing to decide."""


def _forget(session: Session, draft: Draft, job: JobId) -> None:
    session.execute(delete(JobRow).where(col(JobRow.id) == job, col(JobRow.stopped)))
    draft.end(job)
