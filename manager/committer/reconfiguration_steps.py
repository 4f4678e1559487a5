"""The steps of a reconfiguration, each a function over a transaction, in the order of its phases."""

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from sqlmodel import Session, col, select

from engine.plan import Plan
from manager.answers import OperationKind
from manager.committed.state_load import reconfiguration_of
from manager.committer.draft import Draft
from manager.committer.rows import write_down, write_jobs, write_plans
from manager.planner import Planner, public_id
from manager.problem import Conflict
from manager.store.tables import DataflowRow, ReconfigurationRow, ReconfiguredRow
from manager.submissions.reconfiguration_scope import reconfiguration_scope
from manager.transitions.life import LIVES, Phase, TransitionEvent, TransitionKind
from manager.transitions.reconfiguration import Prepared, Reconfiguration, switch_marker
from manager.transitions.reconfiguration_decision import ReconfigurationDecision
from manager.transitions.reconfiguration_plans import SwitchPlans, lingers
from manager.transitions.reconfiguration_request import ReconfigurationRequest
from manager.transitions.state_fates import state_changes
from merge import Instance, JobId, Submitted
from merge.reconfiguration.alteration import Edit


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReconfiguration:
    """A reconfiguration that somebody asked for, with the documents as they would be; made by the committer."""

    request: ReconfigurationRequest
    documents: Mapping[str, str]
    """The edited documents, by dataflow."""
    who: str
    begun: float
    """When the request came, by the monotonic clock."""
    waited: int | None = None
    """Its number, if it has waited."""


def begin(
    session: Session, draft: Draft, decided: ReconfigurationDecision, asked: AskedReconfiguration
) -> ReconfigurationRow:
    """Begin a reconfiguration: switch at once if no job waits for another, else prepare those that wait."""
    switching = decided.switches
    row = _asked(session, draft, asked)
    if row.phase == Phase.WAITING:
        row.phase, row.since = _following(row, TransitionEvent.CLEARED), draft.now.timestamp()
    if not switching.is_coordinated:
        row.phase = _following(row, TransitionEvent.READY)
    row.jobs = sorted(switching.jobs)
    row.awaiting = sorted(job for job, each in switching.jobs.items() if not each.is_head)
    row.sources = sorted({source for each in switching.jobs.values() for source in each.sources})
    row.instances = sorted(decided.scope.instances)
    row.changed = sorted(decided.changed)
    row.watched = sorted(decided.watched)
    _keep(session, draft, row, decided, asked)
    if switching.is_coordinated:
        _prepare(session, draft, row, decided, asked.request.fresh)
    else:
        _switch(session, draft, row, decided, begun=asked.begun)
    return row


def wait(
    session: Session, draft: Draft, decided: ReconfigurationDecision, asked: AskedReconfiguration
) -> ReconfigurationRow:
    """Have a reconfiguration wait until nothing is in its way, by what it would change now."""
    row = _asked(session, draft, asked)
    row.phase = Phase.WAITING
    row.jobs = sorted(decided.scope.jobs)
    # Others may get the instances that its forks would have had.
    row.instances = sorted(decided.scope.instances & draft.state.running.tasks.keys())
    _keep(session, draft, row, decided, asked)
    _note(session, draft, row)
    return row


def interrupt(session: Session, draft: Draft, reconfiguration: int) -> None:
    """Have one wait again that a manager prepared which is gone: nobody has acted on its plans, so they go."""
    row = _turned(session, draft, reconfiguration, TransitionEvent.INTERRUPTED)
    draft.touched |= draft.state.reconfigurations[reconfiguration].awaiting
    row.awaiting = []
    _note(session, draft, row)
    write_plans(session, draft)


def switch(session: Session, draft: Draft, prepared: Reconfiguration, decided: ReconfigurationDecision) -> None:
    """All that wait know the marker: change the tasks, and let the heads switch."""
    row = _turned(session, draft, prepared.id, TransitionEvent.READY)
    _switch(session, draft, row, decided, begun=time.monotonic())


def prove(session: Session, draft: Draft, reconfiguration: int) -> None:
    """All jobs run the new plans: end the streams that carried markers only."""
    row = _turned(session, draft, reconfiguration, TransitionEvent.BEGUN)
    row.switched = draft.now.timestamp()
    state = draft.state
    planner = draft.planner(state.jobs)
    for job in map(JobId, row.jobs):
        if (plan := state.plans.get(job)) is not None and lingers(plan, _made(draft, planner, job, plan)):
            draft.touched.add(job)
    _note(session, draft, row)
    write_plans(session, draft)


def end(session: Session, draft: Draft, reconfiguration: int) -> None:
    """It has proven itself, or is undone, and all events from before its switch are gone."""
    _close(session, draft, _turned(session, draft, reconfiguration, TransitionEvent.PROVEN))


def revert(session: Session, draft: Draft, reconfiguration: int, why: str) -> None:
    """A changed task fails: it is undone by a reconfiguration of its own. Older events may still be under way."""
    row = _turned(session, draft, reconfiguration, TransitionEvent.FAILED)
    row.outcome = f"undone, because {why}"
    _note(session, draft, row)


def keep(session: Session, draft: Draft, reconfiguration: int, why: str) -> None:
    """A changed task fails, and nothing can be taken back: it goes on as it is."""
    row = session.get_one(ReconfigurationRow, reconfiguration)
    row.outcome = f"kept, although {why}"
    _note(session, draft, row)


def give_up(session: Session, draft: Draft, reconfiguration: int, *, why: str) -> None:
    """Abandon a reconfiguration that waits or is only prepared."""
    row = _turned(session, draft, reconfiguration, TransitionEvent.HINDERED)
    row.outcome = f"given up, because {why}"
    draft.touched |= draft.state.reconfigurations[reconfiguration].awaiting
    _close(session, draft, row)
    write_plans(session, draft)


def _prepare(
    session: Session, draft: Draft, row: ReconfigurationRow, decided: ReconfigurationDecision, fresh: frozenset[str]
) -> None:
    """Give the jobs that wait for markers their plans, and reserve the instances of the forks."""
    state = draft.state
    _note(session, draft, row, Prepared(decision=decided, fresh=fresh))
    state.running.next_instance = max(state.running.next_instance, decided.alteration.next_instance)
    planner = draft.planner_after(decided.alteration, decided.settled.jobs)
    making = _switch_plans(draft, row, decided)
    _take_up(session, draft, _plans(draft, planner, making, frozenset(map(JobId, row.awaiting))))


def _switch(
    session: Session, draft: Draft, row: ReconfigurationRow, decided: ReconfigurationDecision, *, begun: float
) -> None:
    """Change the tasks in the committed state, and give the heads their plans."""
    making = _switch_plans(draft, row, decided)
    draft.alter(decided.alteration, decided.settled)
    heads = decided.switches.jobs.keys() - set(map(JobId, row.awaiting))
    _take_up(session, draft, _plans(draft, draft.planner(draft.state.jobs), making, heads))
    # The others that switch have their plans already.
    draft.touched -= decided.switches.jobs.keys()
    row.request = None
    for edit, (_, new) in zip(decided.edits, decided.alteration.swaps, strict=True):
        _rewrite(session, draft, row, edit, new)
    _note(session, draft, row)
    names = ", ".join(public_id(new.id) for _, new in decided.alteration.swaps)
    write_down(session, draft, OperationKind.RECONFIGURE, who=row.who, subject=names, begun=begun)


def _rewrite(session: Session, draft: Draft, row: ReconfigurationRow, edit: Edit, new: Submitted) -> None:
    """Have the row of a dataflow say what runs for it now."""
    of = _dataflow(session, public_id(new.id))
    edited = session.get_one(ReconfiguredRow, (row.id, of.id))
    of.revision += 1
    of.name, of.document = new.name, edited.after
    of.task_ids, of.instances = list(new.task_ids), list(new.instances)
    of.tasks, of.streams = len(set(new.instances)), edit.by.streams
    of.started = sorted((set(of.started) | draft.added.keys()).intersection(new.instances))
    of.parts = [list(part) for part in new.parts]
    of.sources = sorted(draft.state.read_by(new.id))
    scopes = {task: edit.by.tasks[edit.by.places[task]].key.scope for task in edit.affected}
    kept = {task: scope for task, scope in (of.histories or {}).items() if task not in edit.affected}
    histories = kept | {task: list(scope) for task, scope in scopes.items() if scope is not None}
    of.histories = {task: scope for task, scope in histories.items() if task in edit.by.places}
    session.add(of)


def _switch_plans(draft: Draft, row: ReconfigurationRow, decided: ReconfigurationDecision) -> SwitchPlans:
    return SwitchPlans(
        marker=switch_marker(row.id or 0),
        switches=decided.switches,
        changes=state_changes(decided.tasks),
        jobs=decided.settled.jobs,
        streams={
            source: draft.state.sources[draft.state.running.tasks[source].config["source"]].supplied.stream
            for source in map(Instance, row.sources)
        },
    )


def _plans(draft: Draft, planner: Planner, making: SwitchPlans, jobs: AbstractSet[JobId]) -> dict[JobId, Plan]:
    plans = draft.state.plans
    return {job: making.plan(job, _made(draft, planner, job, plans[job]), plans[job]) for job in sorted(jobs)}


def _made(draft: Draft, planner: Planner, job: JobId, before: Plan) -> Plan:
    return planner.plan(job, version=before.version + 1, term=draft.term, before=before)


def _take_up(session: Session, draft: Draft, plans: dict[JobId, Plan]) -> None:
    draft.moved = True
    draft.state.plans |= plans
    write_jobs(session, draft, plans)


def _turned(session: Session, draft: Draft, reconfiguration: int, event: TransitionEvent) -> ReconfigurationRow:
    """The row of a reconfiguration, in the phase that an event brings."""
    known = draft.state.reconfigurations.get(reconfiguration)
    following = None if known is None else LIVES[known.kind][known.phase].get(event)
    if following is None:
        raise Conflict("this reconfiguration is over, or went on meanwhile")
    row = session.get_one(ReconfigurationRow, reconfiguration)
    row.phase, row.since = following, draft.now.timestamp()
    return row


def _following(row: ReconfigurationRow, event: TransitionEvent) -> Phase:
    return LIVES[TransitionKind.RECONFIGURATION][Phase(row.phase)][event]


def _asked(session: Session, draft: Draft, asked: AskedReconfiguration) -> ReconfigurationRow:
    """The row of what was asked for: the one that has waited, or a new one, which nothing is in the way of so far."""
    if asked.waited is None:
        return ReconfigurationRow(
            phase=Phase.PREPARING,
            since=draft.now.timestamp(),
            begun=draft.now.timestamp(),
            who=asked.who,
            jobs=[],
            awaiting=[],
            sources=[],
            instances=[],
            changed=[],
            watched=[],
            undoes=asked.request.undoes,
            report={},
        )
    known = draft.state.reconfigurations.get(asked.waited)
    if known is None or known.phase is not Phase.WAITING:
        raise Conflict("this reconfiguration is over, or went on meanwhile")
    return session.get_one(ReconfigurationRow, asked.waited)


def _keep(
    session: Session,
    draft: Draft,
    row: ReconfigurationRow,
    decided: ReconfigurationDecision,
    asked: AskedReconfiguration,
) -> None:
    """Write down what was asked for, with its preview and its documents as they are by now."""
    row.report = reconfiguration_scope(draft.state, decided).model_dump(mode="json")
    row.request = asked.request.written()
    session.add(row)
    session.flush()
    assert row.id is not None  # noqa: S101 - it was written
    for name, document in asked.documents.items():
        dataflow = _dataflow(session, name)
        session.merge(
            ReconfiguredRow(
                reconfiguration=row.id,
                dataflow=name,
                revision=dataflow.revision + 1,
                before=dataflow.document,
                after=document,
            )
        )
    session.flush()


def _note(session: Session, draft: Draft, row: ReconfigurationRow, prepared: Prepared | None = None) -> None:
    session.add(row)
    session.flush()
    draft.moved = True
    named = select(ReconfiguredRow).where(col(ReconfiguredRow.reconfiguration) == row.id)
    each = reconfiguration_of(row, sorted(one.dataflow for one in session.exec(named)))
    draft.state.reconfigurations[each.id] = replace(each, prepared=prepared)


def _close(session: Session, draft: Draft, row: ReconfigurationRow) -> None:
    row.ended, row.request = draft.now.timestamp(), None
    session.add(row)
    draft.moved = True
    del draft.state.reconfigurations[row.id or 0]


def _dataflow(session: Session, name: str) -> DataflowRow:
    return session.exec(select(DataflowRow).where(col(DataflowRow.id) == name)).one()
