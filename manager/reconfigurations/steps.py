"""The steps of a reconfiguration, over transactions: begun, or set to wait, then taken on by events in its life."""

import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from sqlmodel import Session

from braid_client.answers.overview import OperationKind
from braid_client.answers.reconfigurations import ChangedTaskAnswer, ComponentAnswer, ReconfigurationScope, TaskPresence
from bridge.traces import traceparent
from dags import StateFate
from engine.plan import Bridged, Ingress, Plan, Port, Switch
from manager.kernel.committer import OpenChange
from manager.kernel.dataflow_rows import dataflow_of, rewriting
from manager.kernel.draft import Draft, write_down, write_plans
from manager.kernel.state import CommittedState, reconfiguration_of
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent, Turn, turned
from manager.planner import Planner, bridge_stream, public_id
from manager.problem import Conflict
from manager.reconfigurations.decision import ReconfigurationDecision, decide_reconfiguration
from manager.reconfigurations.request import AskedReconfiguration
from manager.store.tables import DataflowRow, ReconfigurationRow, ReconfiguredRow
from merge import Instance, JobId, Submitted
from merge.reconfiguration.alteration import Edit, is_changed


class EditedDataflow(NamedTuple):
    """A dataflow of a reconfiguration, in the open transaction."""

    row: DataflowRow
    document: str
    """The one that it gets."""


AskedChange: TypeAlias = OpenChange[ReconfigurationDecision]
"""A reconfiguration that somebody asked for, while it is begun."""


def begin(change: AskedChange, asked: AskedReconfiguration, edited: Sequence[EditedDataflow]) -> ReconfigurationRow:
    """Begin a reconfiguration, or have it wait until nothing is in its way, by what it would change now.

    It switches at once if no job waits for another; else those that wait are prepared.
    """
    session, draft, decided, is_queued = change
    now, jobs, is_coordinated = draft.now.timestamp(), decided.switches.jobs, decided.switches.is_coordinated
    row = ReconfigurationRow(phase=Phase.WAITING, since=now, begun=now, who=asked.who, undoes=asked.request.undoes)
    if asked.waited is not None:
        known = draft.state.reconfigurations.get(asked.waited)
        if known is None or known.phase is not Phase.WAITING:
            raise Conflict("this reconfiguration is over, or went on meanwhile")
        row = session.get_one(ReconfigurationRow, asked.waited)
    if is_queued:
        row.jobs = sorted(decided.scope.jobs)
        # Others may get the instances that its forks would have had.
        row.instances = sorted(decided.scope.instances & draft.state.running.tasks.keys())
    else:
        by = decided.alteration
        row.phase, row.since = Phase.PREPARING if is_coordinated else Phase.SWITCHING, now
        row.jobs = sorted(jobs)
        row.awaiting = sorted(job for job, switch in jobs.items() if not switch.is_head)
        row.sources = sorted({source for switch in jobs.values() for source in switch.sources})
        row.instances = sorted(decided.scope.instances)
        changed = {task.becomes.instance for task in decided.tasks if task.is_changed}
        row.changed = sorted(changed | by.rewired | {task.instance for task in by.inserted})
        row.watched = sorted({task.instance for task in by.alters} | {fork.task.instance for fork in by.forks})
    row.report = reconfiguration_scope(draft.state, decided).model_dump(mode="json")
    row.request = asked.request.written() if is_queued or is_coordinated else None
    _note(session, draft, row, asked.request.dataflows)
    # There are some already of one that has waited.
    write = session.add if asked.waited is None else session.merge
    for dataflow, document in edited:
        write(
            ReconfiguredRow(
                reconfiguration=row.id or 0,
                dataflow=dataflow.id,
                revision=dataflow.revision + 1,
                before=dataflow.document,
                after=document,
            )
        )
    if not is_queued:
        if is_coordinated:
            _prepare(session, draft, row, decided)
        else:
            _switch(session, draft, row, decided, edited, begun=asked.begun)
    return row


def take(session: Session, draft: Draft, turn: Turn) -> None:
    """Take a reconfiguration on by an event in its life."""
    known, phase = turned(turn, draft.state.reconfigurations)
    decided = None
    if turn.event is TransitionEvent.READY and (decided := _decided_anew(draft, known)) is None:
        turn = turn._replace(event=TransitionEvent.HINDERED, why="what runs has changed meanwhile")
        known, phase = turned(turn, draft.state.reconfigurations)
    row = session.get_one(ReconfigurationRow, known.id)
    row.phase, row.since = phase, draft.now.timestamp()
    match turn.event:
        case TransitionEvent.READY if decided is not None:
            # All that wait know the marker.
            row.request = None
            _note(session, draft, row, known.dataflows)
            edited = [
                EditedDataflow(
                    dataflow_of(session, dataflow), session.get_one(ReconfiguredRow, (row.id, dataflow)).after
                )
                for dataflow in (public_id(new.id) for _, new in decided.alteration.swaps)
            ]
            _switch(session, draft, row, decided, edited, begun=time.monotonic())
        case TransitionEvent.BEGUN:
            # All jobs run the new plans.
            row.switched = row.since
            _end_markers(draft, row)
            _note(session, draft, row, known.dataflows)
            write_plans(session, draft)
        case TransitionEvent.INTERRUPTED:
            # Nobody has acted on its plans, so they go.
            draft.touched |= known.awaiting
            row.awaiting = []
            _note(session, draft, row, known.dataflows)
            write_plans(session, draft)
        case TransitionEvent.FAILED:
            # Another one undoes it. Older events may still be under way.
            row.outcome = f"undone, because {turn.why}"
            _note(session, draft, row, known.dataflows)
        case _:
            if turn.event is TransitionEvent.HINDERED:
                row.outcome = f"given up, because {turn.why}"
                draft.touched |= known.awaiting
            row.ended, row.request = row.since, None
            session.add(row)
            draft.moved = True
            del draft.state.reconfigurations[known.id]
            write_plans(session, draft)


def keep(session: Session, draft: Draft, reconfiguration: int, why: str) -> None:
    """A changed task fails, and nothing can be taken back: it goes on as it is."""
    known = draft.state.reconfigurations.get(reconfiguration)
    if known is None:
        raise Conflict("this reconfiguration is over, or went on meanwhile")
    row = session.get_one(ReconfigurationRow, reconfiguration)
    row.outcome = f"kept, although {why}"
    _note(session, draft, row, known.dataflows)


def _decided_anew(draft: Draft, known: Reconfiguration) -> ReconfigurationDecision | None:
    """Decide again by the state as it is now; None if the waiting jobs know another decision."""
    if known.prepared is None:
        raise Conflict("this reconfiguration is over, or has to be prepared again")
    decided = decide_reconfiguration(draft.state.running, draft.state.jobs, known.prepared.asked, draft.now)
    return decided if _outcome(decided) == _outcome(known.prepared) else None


def _outcome(decided: ReconfigurationDecision) -> object:
    by = decided.alteration
    return (
        {task.instance: task.key for task in by.alters},
        {fork.task.instance: (fork.task.key, fork.origin) for fork in by.forks},
        {task.instance for task in by.stops},
        decided.switches,
    )


def _end_markers(draft: Draft, row: ReconfigurationRow) -> None:
    """Have jobs get other plans that forward a stream for the marker only."""
    planner = draft.planner(draft.state.jobs)
    for job in map(JobId, row.jobs):
        if (plan := draft.state.plans.get(job)) is not None:
            needed = draft.next_plan(planner, job)
            if {sent.origin for sent in plan.forwards} != {sent.origin for sent in needed.forwards}:
                draft.touched.add(job)


def _prepare(session: Session, draft: Draft, row: ReconfigurationRow, decided: ReconfigurationDecision) -> None:
    """Give the jobs that wait for markers their plans, and reserve the instances of the forks."""
    state = draft.state
    state.reconfigurations[row.id or 0] = replace(state.reconfigurations[row.id or 0], prepared=decided)
    state.running.next_instance = max(state.running.next_instance, decided.alteration.next_instance)
    planner = draft.planner(decided.settled.jobs, after=decided.alteration)
    waiting = frozenset(map(JobId, row.awaiting))
    draft.take_up(_plans(draft, planner, row, decided, _raw_streams(draft, row), waiting))
    write_plans(session, draft)


def _switch(  # noqa: PLR0913 - a transaction, and what is written in it
    session: Session,
    draft: Draft,
    row: ReconfigurationRow,
    decided: ReconfigurationDecision,
    edited: Sequence[EditedDataflow],
    *,
    begun: float,
) -> None:
    """Change the tasks in the committed state, and give the heads their plans."""
    switching, swaps = decided.switches.jobs.keys(), decided.alteration.swaps
    streams = _raw_streams(draft, row)
    draft.alter(decided.alteration, decided.settled, switching)
    # The others that switch have their plans already.
    heads = switching - set(map(JobId, row.awaiting))
    draft.take_up(_plans(draft, draft.planner(draft.state.jobs), row, decided, streams, heads))
    for dataflow, edit, (_, new) in zip(edited, decided.asked.edits, swaps, strict=True):
        _rewrite(session, draft, dataflow, edit, new)
    names = [public_id(new.id) for _, new in swaps]
    write_down(session, draft, OperationKind.RECONFIGURE, who=row.who, subject=", ".join(names), begun=begun)


def _rewrite(session: Session, draft: Draft, edited: EditedDataflow, edit: Edit, new: Submitted) -> None:
    """Have the row of a dataflow say what runs for it now."""
    row, by = edited.row, edit.by
    row.revision += 1
    with rewriting(session, row):
        row.name, row.document = new.name, edited.document
    row.task_ids, row.instances = list(new.task_ids), list(new.instances)
    row.tasks, row.streams = len(set(new.instances)), by.streams
    row.started = sorted((set(row.started) | draft.added.keys()).intersection(new.instances))
    row.parts = [list(part) for part in new.parts]
    row.sources = sorted(draft.state.read_by(new.id))
    scopes = {task: by.tasks[by.places[task]].key.scope for task in edit.affected}
    kept = {task: scope for task, scope in (row.histories or {}).items() if task not in edit.affected}
    histories = kept | {task: list(scope) for task, scope in scopes.items() if scope is not None}
    row.histories = {task: scope for task, scope in histories.items() if task in by.places}
    session.add(row)


def _raw_streams(draft: Draft, row: ReconfigurationRow) -> Mapping[Instance, str]:
    """The raw streams of the sources that carry the marker."""
    tasks, sources = draft.state.running.tasks, draft.state.sources
    return {source: sources[tasks[source].config["source"]].supplied.stream for source in map(Instance, row.sources)}


def _plans(  # noqa: PLR0913, PLR0917 - what switches, how, and by which planner
    draft: Draft,
    planner: Planner,
    row: ReconfigurationRow,
    decided: ReconfigurationDecision,
    streams: Mapping[Instance, str],
    jobs: AbstractSet[JobId],
) -> dict[JobId, Plan]:
    """The plans with which jobs switch; the planner is that of what runs afterwards."""
    state, homes = draft.state, decided.settled.jobs.homes
    marker = state.reconfigurations[row.id or 0].marker
    changes = sorted((task.change for task in decided.tasks if task.change is not None), key=attrgetter("instance"))
    plans: dict[JobId, Plan] = {}
    for job in sorted(jobs):
        before, made, switch = state.plans[job], draft.next_plan(planner, job), decided.switches.jobs[job]
        announced = tuple(sorted(Port(*end) for end in switch.announces))
        awaited = [bridge_stream(end.instance, end.port) for end in switch.awaits]
        awaited += [streams[source] for source in switch.sources]
        # A stream that nobody reads any more carries the marker too.
        ending = set(announced) - {sent.origin for sent in made.forwards}
        plans[job] = replace(
            made,
            ingress=tuple(_begun(ingress, before, row.begun) for ingress in made.ingress),
            feeds=before.feeds,
            forwards=(*made.forwards, *(sent for sent in before.forwards if sent.origin in ending)),
            changes=tuple(change for change in changes if homes[Instance(change.instance)].job == job),
            switch=Switch(marker=marker, awaits=tuple(sorted(awaited)), announces=announced)
            if switch.announces or not switch.is_head
            else None,
        )
    return plans


def _begun(ingress: Ingress, before: Plan, moment: float) -> Ingress:
    """A stream that enters; a source that takes the place of another begins at the same event in all jobs."""
    is_new = ingress.stream not in before.streams and not isinstance(ingress.supply, Bridged)
    return replace(ingress, since=moment) if is_new and ingress.since is None else ingress


def _note(session: Session, draft: Draft, row: ReconfigurationRow, dataflows: Sequence[str]) -> None:
    """Write down where a reconfiguration is, and know it."""
    session.add(row)
    session.flush()
    draft.moved = True
    known = reconfiguration_of(row, sorted(dataflows))
    before = draft.state.reconfigurations.get(known.id)
    trace = before.trace if before else traceparent()
    draft.state.reconfigurations[known.id] = replace(known, trace=trace)


def reconfiguration_scope(state: CommittedState, decided: ReconfigurationDecision) -> ReconfigurationScope:
    """The scope of a decision, by the names that tasks have in its dataflows."""
    names: dict[Instance, str] = {}
    for old, new in decided.alteration.swaps:
        for dataflow in (old, new):
            for task, instance in dataflow.places.items():
                names.setdefault(instance, task)
    switching = decided.switches
    waiting = tuple(str(job) for job, switch in switching.jobs.items() if not switch.is_head)
    pace = max((state.plans[job].pace for job in switching.jobs if job in state.plans), default=0.0)
    return ReconfigurationScope(
        tasks=(*_changed_tasks(state, decided), *_joined_and_gone(state, decided)),
        components=tuple(
            ComponentAnswer(
                tasks=tuple(sorted(names.get(Instance(int(member)), member) for member in component.scope)),
                heads=tuple(sorted(names.get(Instance(int(head)), head) for head in component.heads)),
            )
            for component in switching.components
        ),
        jobs=tuple(map(str, switching.jobs)),
        waiting=waiting,
        # A head switches within a pace, and each job that waits for another needs a batch more at most.
        delay_seconds=pace * (1 + len(waiting)),
    )


def _changed_tasks(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that change, are forked or fed otherwise."""
    swaps, homes = decided.alteration.swaps, decided.settled.between.homes
    agreed = {old.id for old, _ in swaps}
    for _, new in swaps:
        for task, instance in sorted(new.places.items()):
            for reconfigured in decided.tasks:
                if reconfigured.becomes.instance == instance:
                    yield ChangedTaskAnswer(
                        dataflow=public_id(new.id),
                        task=task,
                        in_place=not reconfigured.is_forked,
                        shared=not agreed.issuperset(state.running.users[reconfigured.was.instance]),
                        changed=reconfigured.is_changed,
                        state=str(reconfigured.fate or StateFate.FRESH),
                        job=str(homes[instance].job),
                    )


def _joined_and_gone(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that become one with equal ones, and those that come and go."""
    swaps, running, homes = decided.alteration.swaps, state.running, decided.settled.between.homes
    for old, new in swaps:
        for task, instance in new.places.items():
            before, now = old.places.get(task), running.tasks.get(instance)
            if before is not None and before != instance and now is not None and now.inputs:
                yield ChangedTaskAnswer(
                    dataflow=public_id(new.id),
                    task=task,
                    in_place=False,
                    shared=True,
                    changed=is_changed(running.tasks[before], now),
                    state=str(StateFate.KEPT),
                    job=str(state.jobs.homes[instance].job),
                )
    for old, new in swaps:
        for presence, here, there, fate in (
            (TaskPresence.INSERTED, new, old, str(StateFate.FRESH)),
            (TaskPresence.REMOVED, old, new, "dropped"),
        ):
            for task, instance in here.places.items():
                if task not in there.task_ids:
                    yield ChangedTaskAnswer(
                        dataflow=public_id(new.id),
                        task=task,
                        in_place=False,
                        presence=presence,
                        shared=len(running.users.get(instance, ())) > 1,
                        changed=False,
                        state=fate,
                        job=str(homes[instance].job),
                    )
