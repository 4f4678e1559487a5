"""Writing down: what a draft has moved in memory, as rows, in the transaction of its change."""

import time
from collections.abc import Iterator

from sqlalchemy import delete, insert, update
from sqlmodel import Session, col

from dags import Dataflow
from engine.plan import Plan, written_plan
from manager.answers import OperationKind
from manager.committing.draft import Draft
from manager.store.tables import DataflowRow, JobRow, OperationRow, TaskRow
from merge import Change, Home, Instance, JobId, RunningTask

_MOST_AT_ONCE = 10_000
"""Values in one statement; databases take some tens of thousands."""


def write_down(  # noqa: PLR0913 - who did what, when, and what came of it
    session: Session, draft: Draft, kind: OperationKind, *, who: str, subject: str, begun: float
) -> None:
    """Write down what became of the running tasks and the jobs, and the change in the journal.

    `begun` is when the request came, by the monotonic clock.
    """
    plans = draft.plans()
    homes = draft.state.jobs.homes
    for part in _parts(sorted(draft.gone)):
        session.execute(delete(TaskRow).where(col(TaskRow.instance).in_(part)))
    if draft.added:
        session.execute(insert(TaskRow), [_task(task, homes[task.instance]) for task in draft.added.values()])
    opened = draft.opened
    if made := [_job(job, plan) for job, plan in plans.items() if job in opened]:
        session.execute(insert(JobRow), made)
    if changed := [_job(job, plan) for job, plan in plans.items() if job not in opened]:
        session.execute(update(JobRow), changed)
    if closed := [{"id": job, "stopped": True} for job in draft.closed]:
        session.execute(update(JobRow), closed)
    session.add(
        OperationRow(
            at=draft.now.timestamp(),
            kind=kind,
            who=who,
            subject=subject,
            started=len(draft.added),
            reused=draft.reused,
            paused=len(draft.gone),
            jobs_started=[str(job) for job in draft.opened],
            jobs_stopped=[str(job) for job in draft.closed],
            seconds=time.monotonic() - begun,
        )
    )


def dataflow_row(draft: Draft, dataflow: Dataflow, change: Change, raw: bytes) -> DataflowRow:
    """A dataflow that was submitted, as the first revision of a row."""
    told = change.submitted
    assert told is not None  # noqa: S101 - a merge always submits
    return DataflowRow(
        id=dataflow.id,
        tenant=dataflow.tenant,
        name=told.name,
        submitted=draft.now.timestamp(),
        document=raw.decode(),
        tasks=len(dataflow.tasks),
        task_ids=list(told.task_ids),
        instances=list(told.instances),
        started=list(change.residue),
        sinks=list(told.sinks),
        parts=[list(part) for part in told.parts],
        sources=sorted(draft.state.read_by(told.id)),
        epochs={},
    )


def _task(task: RunningTask, home: Home) -> dict[str, object]:
    return {
        "instance": task.instance,
        "signature": task.key.signature,
        "scope_dataflow": task.key.scope.dataflow if task.key.scope else None,
        "scope_task": task.key.scope.task if task.key.scope else None,
        "text": task.text,
        "type": task.type.name,
        "version": task.type.version,
        "inputs": [list(each) for each in task.inputs],
        "since": task.since.timestamp(),
        "job": home.job,
        "busy": home.busy,
    }


def _job(job: JobId, plan: Plan) -> dict[str, object]:
    return {
        "id": job,
        "host": plan.host,
        "version": plan.version,
        "plan": written_plan(plan).decode(),
        "stopped": False,
    }


def _parts(instances: list[Instance]) -> Iterator[list[Instance]]:
    for start in range(0, len(instances), _MOST_AT_ONCE):
        yield instances[start : start + _MOST_AT_ONCE]
