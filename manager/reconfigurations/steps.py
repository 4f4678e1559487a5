"""The steps of a reconfiguration, each a function over a transaction, in the order of its phases."""

import time
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from sqlmodel import Session, col, select

from dags import StateFate
from engine.plan import Forward, Plan, Port, StateChange, Switch
from manager.answers.overview import OperationKind
from manager.answers.reconfigurations import ChangedTaskAnswer, ComponentAnswer, ReconfigurationScope, TaskPresence
from manager.kernel.draft import Draft, write_down, write_jobs, write_plans
from manager.kernel.state import CommittedState, reconfiguration_of
from manager.kernel.transitions import (
    LIVES,
    Phase,
    Prepared,
    Reconfiguration,
    TransitionEvent,
    TransitionKind,
    switch_marker,
)
from manager.planner import Planner, public_id
from manager.problem import Conflict
from manager.reconfigurations.decision import ReconfigurationDecision, state_changes
from manager.reconfigurations.request import ReconfigurationRequest
from manager.store.tables import DataflowRow, ReconfigurationRow, ReconfiguredRow
from merge import Instance, JobId, Jobs, Submitted
from merge.reconfiguration.alteration import Edit, is_changed
from merge.reconfiguration.switches import JobSwitch, StreamEnd, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlans:
    """Makes the plans of a reconfiguration; made by the committer."""

    marker: str
    switches: Switches
    changes: Mapping[Instance, StateChange]
    """The changes of states, by instance."""
    jobs: Jobs
    """The jobs after the switch."""
    streams: Mapping[Instance, str]
    """The raw streams of the sources that carry the marker."""

    def plan(self, job: JobId, made: Plan, before: Plan) -> Plan:
        """The plan of a job that switches, from the one that the planner has made and the one before."""
        switch = self.switches.jobs[job]
        announced = tuple(sorted(Port(*end) for end in switch.announces))
        forwarded = {each.origin for each in made.forwards}
        # A stream that nobody reads any more carries the marker too.
        ending = tuple(each for each in before.forwards if each.origin in set(announced) - forwarded)
        return replace(
            made,
            pace=before.pace,
            feeds=before.feeds,
            forwards=(*made.forwards, *ending),
            changes=tuple(change for instance, change in sorted(self.changes.items()) if self._is_in(instance, job)),
            switch=self._switch(switch, announced) if switch.announces or not switch.is_head else None,
        )

    def _is_in(self, instance: Instance, job: JobId) -> bool:
        return self.jobs.homes[instance].job == job

    def _switch(self, switch: JobSwitch, announced: tuple[Port, ...]) -> Switch:
        awaited = [bridge_name(end) for end in switch.awaits] + [self.streams[source] for source in switch.sources]
        return Switch(marker=self.marker, awaits=tuple(sorted(awaited)), announces=announced)


def bridge_name(end: StreamEnd) -> str:
    """The name of the spool of a stream between jobs."""
    return f"bridge/{end.instance}:{end.port}"


def lingers(plan: Plan, needed: Plan) -> bool:
    """Whether a plan forwards a stream only for the marker; `needed` is what the planner would make now."""
    return _forwarded(plan.forwards) != _forwarded(needed.forwards)


def _forwarded(forwards: tuple[Forward, ...]) -> frozenset[Port]:
    return frozenset(each.origin for each in forwards)


_DROPPED = "dropped"
"""The fate of the state of a task that is taken out."""


def reconfiguration_scope(state: CommittedState, decided: ReconfigurationDecision) -> ReconfigurationScope:
    """The scope of a decision, by the names that tasks have in its dataflows."""
    names: dict[Instance, str] = {}
    for old, new in decided.alteration.swaps:
        for dataflow in (old, new):
            for task, instance in dataflow.places.items():
                names.setdefault(instance, task)
    agreed = {old.id for old, _ in decided.alteration.swaps}
    homes = decided.settled.between.homes
    tasks = [
        ChangedTaskAnswer(
            dataflow=public_id(new.id),
            task=task,
            in_place=not each.is_forked,
            shared=not agreed.issuperset(state.running.users[each.was.instance]),
            changed=each.is_changed,
            state=str(each.fate or StateFate.FRESH),
            job=str(homes[each.becomes.instance].job),
        )
        for _, new in decided.alteration.swaps
        for task, instance in sorted(new.places.items())
        for each in decided.tasks
        if each.becomes.instance == instance
    ]
    tasks += _joined(state, decided)
    tasks += _come_and_gone(state, decided)
    switching = decided.switches
    waiting = tuple(str(job) for job, each in switching.jobs.items() if not each.is_head)
    pace = max((state.plans[job].pace for job in switching.jobs if job in state.plans), default=0.0)
    return ReconfigurationScope(
        tasks=tuple(tasks),
        components=tuple(
            ComponentAnswer(
                tasks=tuple(sorted(names.get(Instance(int(each)), each) for each in component.scope)),
                heads=tuple(sorted(names.get(Instance(int(each)), each) for each in component.heads)),
            )
            for component in switching.components
        ),
        jobs=tuple(map(str, switching.jobs)),
        waiting=waiting,
        # A head switches within a pace, and each job that waits for another needs a batch more at most.
        delay_seconds=pace * (1 + len(waiting)),
    )


def _joined(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that become one with equal ones."""
    running = state.running.tasks
    for old, new in decided.alteration.swaps:
        for task, instance in new.places.items():
            if task in old.places and old.places[task] != instance and instance in running and running[instance].inputs:
                yield ChangedTaskAnswer(
                    dataflow=public_id(new.id),
                    task=task,
                    in_place=False,
                    shared=True,
                    changed=is_changed(running[old.places[task]], running[instance]),
                    state=str(StateFate.KEPT),
                    job=str(state.jobs.homes[instance].job),
                )


def _come_and_gone(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that are inserted, and those that are taken out."""
    homes = decided.settled.between.homes
    for old, new in decided.alteration.swaps:
        for presence, here, there, fate in (
            (TaskPresence.INSERTED, new, old, str(StateFate.FRESH)),
            (TaskPresence.REMOVED, old, new, _DROPPED),
        ):
            for task, instance in here.places.items():
                if task not in there.task_ids:
                    yield ChangedTaskAnswer(
                        dataflow=public_id(new.id),
                        task=task,
                        in_place=False,
                        presence=presence,
                        shared=len(state.running.users.get(instance, ())) > 1,
                        changed=False,
                        state=fate,
                        job=str(homes[instance].job),
                    )


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
