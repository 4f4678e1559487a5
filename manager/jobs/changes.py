"""The changes of jobs: fed again what they could not take, rescaled, repaced, and ended; and what is wanted of them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, update
from sqlmodel import Session, col

from braid_client.answers.overview import OperationKind
from engine.plan import Feed
from manager.kernel.committer import Committer, OpenChange
from manager.kernel.draft import write_down, write_plans
from manager.kernel.state import CommittedState
from manager.kernel.transitions import WHOLE_SCOPE, TransitionKind, TransitionScope
from manager.kernel.wanted import WantedJob
from manager.problem import Conflict
from manager.store.dead_letters import taken
from manager.store.tables import JobRow, TaskRow, table_of
from merge import JobId, Repace, Rescale

_TASKS = table_of(TaskRow)
_SET_LOADS = update(_TASKS).where(_TASKS.c.instance == bindparam("loaded"))


class JobChanges:
    """All that is done with jobs."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def wanted(self) -> Mapping[str, WantedJob]:
        """Every job that shall run, and every one that was stopped until its host has confirmed it."""
        if not self._committer.leads:
            return {}
        with self._committer.looking() as state:
            runs = {str(job): WantedJob(job=str(job), host=plan.host, plan=plan) for job, plan in state.plans.items()}
            ends = {str(job): WantedJob(job=str(job), host=plan.host, plan=None) for job, plan in state.stopped.items()}
            return runs | ends

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a listener called after each commit; from any thread."""
        self._committer.on_change(listener)

    def ended(self, job: str) -> None:
        """Forget a job that was to stop and has stopped, as its host reports."""
        number = JobId(int(job))
        if not self._committer.leads:
            return
        with self._committer.looking() as state:
            if number in state.stopped:
                with self._committer.writing() as (session, draft):
                    session.execute(delete(JobRow).where(col(JobRow.id) == number, col(JobRow.stopped)))
                    draft.moved = True
                    del state.stopped[number]

    def fed(self, job: str, version: int) -> None:
        """Note that a job has run its plan of a version, as its host reports: the next feeds none of that again."""
        number = JobId(int(job))
        if not self._committer.leads:
            return
        with self._committer.looking() as state:
            plan = state.plans.get(number)
            if plan is None or plan.version != version or not plan.feeds:
                return
            scope = TransitionScope(jobs=frozenset({number}))
            with self._committer.changing(lambda _state, _now: (scope, None)) as (session, draft, *_):
                draft.moved = True
                draft.taken.add(number)
                draft.touched.add(number)
                taken(session, [feed.id for feed in plan.feeds])
                write_plans(session, draft)

    def feed(
        self, choose: Callable[[Session, CommittedState], Mapping[JobId, Sequence[Feed]]], *, who: str, subject: str
    ) -> None:
        """Have tasks take events again that they could not take, as is chosen within the transaction."""
        # The jobs are known only in the transaction.
        with self._committer.changing(lambda _state, _now: (WHOLE_SCOPE, None)) as (session, draft, *_):
            feeds = choose(session, draft.state)
            draft.moved = True
            draft.fed = {job: tuple(events) for job, events in feeds.items()}
            draft.touched |= feeds.keys()
            write_down(session, draft, OperationKind.REPLAY, who=who, subject=subject)

    def rescale(self, rescale: Rescale, *, base: int, who: str) -> None:
        """Give a job another number of shards, as was decided on these jobs; refused while it is in a transition."""

        def take(change: OpenChange[None]) -> None:
            jobs = change.draft.state.jobs
            change.draft.state.jobs = jobs.apply(rescale.assignment(jobs))
            loads = [{"loaded": instance, "busy": busy} for instance, busy in rescale.busy.items()]
            change.session.execute(_SET_LOADS, loads)

        self._change(rescale, take, OperationKind.RESCALE, base=base, who=who)

    def repace(self, repace: Repace, *, base: int, who: str) -> None:
        """Give a job another pace, as was decided on these jobs; refused while it is in a transition."""

        def take(change: OpenChange[None]) -> None:
            change.draft.paces[repace.job] = repace.pace

        self._change(repace, take, OperationKind.REPACE, base=base, who=who)

    def would_repace(self, repace: Repace, *, who: str) -> None:
        """Note in the journal that a job would get another pace."""
        with self._committer.writing() as (session, draft):
            kind = OperationKind.WOULD_REPACE
            write_down(session, draft, kind, who=who, subject=str(repace.job), note=repace.why)

    def _change(
        self,
        change: Rescale | Repace,
        take: Callable[[OpenChange[None]], None],
        kind: OperationKind,
        *,
        base: int,
        who: str,
    ) -> None:
        busy = change.busy if isinstance(change, Rescale) else ()
        scope = TransitionScope(jobs=frozenset({change.job}), instances=frozenset(busy))

        def check(state: CommittedState, _now: datetime) -> tuple[TransitionScope, None]:
            if state.jobs.version != base:
                raise Conflict("the jobs have changed since that was decided")
            # Else one that is only prepared would be given up for it.
            if any(
                scope.meets(transition.scope)
                for transition in state.transitions
                if transition.kind is not TransitionKind.DRAIN
            ):
                raise Conflict(f"job {change.job} is in a transition")
            return scope, None

        with self._committer.changing(check, waits=False) as opened:
            opened.draft.moved = True
            opened.draft.touched.add(change.job)
            take(opened)
            write_down(opened.session, opened.draft, kind, who=who, subject=str(change.job), note=change.why)
