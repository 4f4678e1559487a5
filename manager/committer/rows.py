"""The rows of a change: what a draft has moved in memory, written in the transaction of its change."""

import time
from collections.abc import Iterator, Mapping

from sqlalchemy import bindparam, delete, insert, update
from sqlmodel import Session

from dags import Dataflow
from engine.plan import Plan
from engine.plan_messages import written_plan
from manager.answers import OperationKind
from manager.committer.draft import Draft
from manager.store.dead_letters import given_back
from manager.store.tables import DataflowRow, IdempotencyRow, JobRow, OperationRow, TaskRow, table_of
from merge import Change, Home, Instance, JobId, RunningTask

OPERATOR = "operator"
"""The name of an operator in the journal; no tenant may have it."""
SERVICE = "the service"
"""The name in the journal of what Braid does by itself; no tenant's name has a space."""
UNBOUNDED = frozenset({OPERATOR, SERVICE})
"""Those whose changes no tenant's rate or quota holds back."""
_MOST_AT_ONCE = 10_000
"""Values in one statement; databases take some tens of thousands."""
IDEMPOTENCY_KEPT = 86_400.0
"""Seconds that an idempotency key is known, at least."""
_TASKS, _JOBS = table_of(TaskRow), table_of(JobRow)
_ADD_TASKS, _ADD_JOBS = insert(_TASKS), insert(_JOBS)
_DROP_TASKS = delete(_TASKS).where(_TASKS.c.instance.in_(bindparam("instances", expanding=True)))
_SET_TASKS = update(_TASKS).where(_TASKS.c.instance == bindparam("altered"))
_SET_LOADS = update(_TASKS).where(_TASKS.c.instance == bindparam("loaded"))
_SET_JOBS = update(_JOBS).where(_JOBS.c.id == bindparam("job"))
_ADD_OPERATION = insert(table_of(OperationRow))
_ADD_DATAFLOW = insert(table_of(DataflowRow))
_IDEMPOTENCY = table_of(IdempotencyRow)
_ADD_IDEMPOTENCY = insert(_IDEMPOTENCY)
_FORGET_IDEMPOTENCY = delete(_IDEMPOTENCY).where(
    _IDEMPOTENCY.c.tenant == bindparam("of"), _IDEMPOTENCY.c.at < bindparam("before")
)


def write_down(  # noqa: PLR0913 - who did what, when, and what came of it
    session: Session, draft: Draft, kind: OperationKind, *, who: str, subject: str, begun: float, note: str = ""
) -> None:
    """Write down the running tasks and jobs after a change, and the change in the journal.

    `begun` is when the request came, by the monotonic clock.
    """
    write_running(session, draft)
    write_operation(
        session,
        draft,
        kind,
        who=who,
        subject=subject,
        begun=begun,
        started=len(draft.added),
        reused=draft.reused,
        paused=len(draft.gone),
        jobs_started=[str(job) for job in draft.opened],
        jobs_stopped=[str(job) for job in draft.closed],
        note=note,
    )


def write_running(session: Session, draft: Draft) -> None:
    """Write down the running tasks and jobs after a change."""
    plans = draft.plans()
    homes = draft.state.jobs.homes
    for part in _parts(sorted(draft.gone)):
        session.execute(_DROP_TASKS, {"instances": part})
    if draft.added:
        session.execute(_ADD_TASKS, [_task(task, homes[task.instance]) for task in draft.added.values()])
    if draft.altered:
        rows = [{"altered": task.instance, **_task(task, homes[task.instance])} for task in draft.altered.values()]
        session.execute(_SET_TASKS, rows)
    write_jobs(session, draft, plans)
    _give_back(session, draft)


def write_operation(  # noqa: PLR0913 - who did what, when, and what came of it
    session: Session, draft: Draft, kind: OperationKind, *, who: str, subject: str, begun: float, **outcome: object
) -> None:
    """Write an entry into the journal."""
    entry = {"at": draft.now.timestamp(), "kind": kind, "who": who, "subject": subject}
    nothing = {"started": 0, "reused": 0, "paused": 0, "jobs_started": [], "jobs_stopped": [], "note": ""}
    session.execute(_ADD_OPERATION, {**entry, **nothing, **outcome, "seconds": time.monotonic() - begun})


def write_loads(session: Session, loads: Mapping[Instance, float]) -> None:
    """Write down how busy running tasks are."""
    session.execute(_SET_LOADS, [{"loaded": instance, "busy": busy} for instance, busy in loads.items()])


def write_plans(session: Session, draft: Draft) -> None:
    """Write down new plans, of a change that nobody asked for."""
    write_jobs(session, draft, draft.plans())


def write_dataflow(session: Session, row: DataflowRow) -> None:
    """Write down a dataflow that was submitted."""
    session.execute(_ADD_DATAFLOW, row.model_dump(exclude={"number"}))


def write_idempotency(  # noqa: PLR0913, PLR0917 - what was sent, and what came of it
    session: Session, draft: Draft, row: DataflowRow, key: str, digest: str, reconfiguration: int | None = None
) -> None:
    """Write down what came of a request under an idempotency key, and forget the tenant's oldest ones."""
    oldest = {"of": row.tenant, "before": draft.now.timestamp() - IDEMPOTENCY_KEPT}
    session.execute(_FORGET_IDEMPOTENCY, oldest)
    known = {
        "tenant": row.tenant,
        "key": key,
        "digest": digest,
        "dataflow": row.id,
        "reconfiguration": reconfiguration,
        "at": draft.now.timestamp(),
    }
    session.execute(_ADD_IDEMPOTENCY, known)


def dataflow_row(draft: Draft, dataflow: Dataflow, change: Change, raw: bytes) -> DataflowRow:
    """A dataflow that was submitted, as the first revision of a row."""
    submitted = change.submitted
    assert submitted is not None  # noqa: S101 - a merge always submits
    return DataflowRow(
        id=dataflow.id,
        tenant=dataflow.tenant,
        name=submitted.name,
        submitted=draft.now.timestamp(),
        document=raw.decode(),
        tasks=len(dataflow.tasks),
        streams=dataflow.streams,
        task_ids=list(submitted.task_ids),
        instances=list(submitted.instances),
        started=list(change.residue),
        sinks=list(submitted.sinks),
        parts=[list(part) for part in submitted.parts],
        sources=sorted(draft.state.read_by(submitted.id)),
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
        "json_fields": [list(each) for each in task.json_fields],
        "since": task.since.timestamp(),
        "tags": sorted(task.tags),
        "job": home.job,
        "busy": home.busy,
    }


def write_jobs(session: Session, draft: Draft, plans: Mapping[JobId, Plan]) -> None:
    """Write down plans that were made, of jobs that were opened or not, and which jobs are to stop."""
    opened = draft.opened
    if made := [{"id": job, **_job(plan)} for job, plan in plans.items() if job in opened]:
        session.execute(_ADD_JOBS, made)
    if changed := [{"job": job, **_job(plan)} for job, plan in plans.items() if job not in opened]:
        session.execute(_SET_JOBS, changed)
    if closed := [{"job": job, "stopped": True} for job in draft.closed]:
        session.execute(_SET_JOBS, closed)


def _give_back(session: Session, draft: Draft) -> None:
    """Make dead letters again of what a job that is to stop was fed and is not known to have taken."""
    ended = (plan for job in draft.closed if (plan := draft.state.stopped.get(job)) is not None)
    if feeds := [each.id for plan in ended for each in plan.feeds]:
        given_back(session, feeds)


def _job(plan: Plan) -> dict[str, object]:
    return {
        "host": plan.host,
        "version": plan.version,
        "plan": written_plan(plan).decode(),
        "stopped": False,
    }


def _parts(instances: list[Instance]) -> Iterator[list[Instance]]:
    for start in range(0, len(instances), _MOST_AT_ONCE):
        yield instances[start : start + _MOST_AT_ONCE]
