"""The changes that moves bring: begun on request, then taken on by the events that the reconciler sees."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, update
from sqlmodel import Session

from braid_client.answers.overview import OperationKind
from bridge.traces import traceparent
from engine.plan import Bridged, Ingress, Plan, StateImport
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import dataflow_of
from manager.kernel.draft import DecisionGround, Draft, write_plans
from manager.kernel.state import CommittedState, jobs_of, move_of
from manager.kernel.transitions import (
    Chosen,
    Comer,
    Ended,
    Move,
    MoveStep,
    Phase,
    TransitionKind,
    TransitionScope,
    Turn,
    turned,
)
from manager.kernel.wanted import Moving
from manager.planner import Delivered, public_id
from manager.problem import Conflict
from manager.store.tables import MoveRow, OperationRow, TaskRow, table_of
from merge import Assignment, DagId, Home, Instance, JobId, RunningGraph


def reading_the_same(running: RunningGraph, dags: Iterable[DagId]) -> frozenset[DagId]:
    """The given running DAGs, and all that read a source with one of them, directly or over others.

    A job reads a raw stream once for all, so a cut passes all of them at the same place, and only when each of their
    streams has come there.
    """
    reads: defaultdict[DagId, set[str]] = defaultdict(set)
    readers: defaultdict[str, set[DagId]] = defaultdict(set)
    for instance, dag in running.running_dags.of_source.items():
        source = running.tasks[instance].config["source"]
        reads[dag].add(source)
        readers[source].add(dag)
    reached, left = set[DagId](), set(dags)
    while left:
        dag = left.pop()
        reached.add(dag)
        left |= {other for source in reads[dag] for other in readers[source]} - reached
    return frozenset(reached)


_TASKS = table_of(TaskRow)
_SET_HOMES = update(_TASKS).where(_TASKS.c.instance == bindparam("moved"))


class MoveChanges:
    """All that is done with moves."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        committer.cancel_with(TransitionKind.MOVE, take)

    def under_way(self) -> tuple[Moving, ...]:
        """The moves under way; none is known where this manager does not lead."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            return tuple(_moving(state, move) for move in state.moves.values())

    def begin(self, choose: Callable[[CommittedState, DecisionGround], Chosen], *, who: str) -> Move:
        """Begin to move tasks to the places that are chosen by the state as it is."""

        def decide(
            state: CommittedState, _now: datetime
        ) -> tuple[TransitionScope, tuple[Chosen, tuple[MoveStep, ...]]]:
            chosen = choose(state, self._committer.ground)
            steps = _steps(state, chosen.assignment)
            scope = TransitionScope(
                jobs=frozenset(job for step in steps for job in (step.leaves, step.joins)),
                instances=frozenset(step.instance for step in steps),
            )
            return scope, (chosen, steps)

        with self._committer.changing(decide, comer=Comer.MOVE) as change:
            return _begin(change.session, change.draft, *change.decided, who)

    def take(self, turn: Turn) -> None:
        """Take a move on by an event in its life."""
        with self._committer.writing() as (session, draft):
            take(session, draft, turn)


def _moving(state: CommittedState, move: Move) -> Moving:
    return Moving(
        move=move,
        plans={job: state.plans[job] for job in move.left | move.joined | move.opens.keys()},
        streams=state.streams_of(frozenset(step.instance for step in move.steps if not step.works)),
    )


def _steps(state: CommittedState, assignment: Assignment) -> tuple[MoveStep, ...]:
    """All tasks of each running DAG that an assignment touches, and of those that read the same sources.

    Else a job could read a stream on for one of them while another stands still in it.
    """
    if not assignment.places:
        raise Conflict("no task would be better off elsewhere; ask again when more has changed")
    homes, dag_of = state.jobs.homes, state.running.dag_of
    new = {instance: home for instance, home in assignment.places if home.job != homes[instance].job}
    dags = reading_the_same(state.running, map(dag_of, new))
    steps = tuple(
        MoveStep(
            instance=instance,
            leaves=homes[instance].job,
            joins=new.get(instance, homes[instance]).job,
            works=bool(task.inputs),
            busy=new.get(instance, homes[instance]).busy,
        )
        for instance, task in sorted(state.running.tasks.items())
        if dag_of(instance) in dags
    )
    left = {step.leaves for step in steps}
    if any(state.plans[job].feeds for job in left):
        raise Conflict("dead letters are replayed; ask again once they are")
    if left & state.apart:
        raise Conflict("a dataflow that began at the earliest events has not caught up; ask again later")
    return steps


def _begin(session: Session, draft: Draft, chosen: Chosen, steps: tuple[MoveStep, ...], who: str) -> Move:
    """Open the new jobs with empty plans, and have those that are left stop what moves at the cut."""
    state, assignment, now = draft.state, chosen.assignment, draft.now.timestamp()
    row = MoveRow(
        phase=Phase.PREPARING,
        since=now,
        begun=now,
        who=who,
        reason=chosen.reason,
        steps=[(step.instance, step.leaves, step.joins, int(step.works), step.busy) for step in steps],
        opens={str(job): host for job, host in assignment.opens},
        passed={},
    )
    move = _note(session, draft, row)
    draft.opened += sorted(move.opens)
    state.jobs = replace(state.jobs, next_job=JobId(state.jobs.next_job + len(move.opens)))
    moving = {step.instance for step in steps}
    rest = {job: replace(state.jobs.jobs[job], active=state.jobs.jobs[job].active - moving) for job in move.left}
    # The planner does not know of what moves.
    remaining = draft.planner(replace(state.jobs, jobs=state.jobs.jobs.update(rest)))
    plans = {job: replace(draft.next_plan(remaining, job), at_cut=move.cut) for job in sorted(move.left)}
    shards = {job: number for job, number, _ in assignment.shards}
    planner = draft.planner(state.jobs)
    for job, host in move.opens.items():
        plans[job] = Plan(
            job=str(job),
            host=host,
            version=1,
            term=draft.term,
            pace=draft.ground.pace,
            shards=shards.get(job, 1),
            workers=planner.workers(step.instance for step in steps if step.joins == job),
        )
    draft.take_up(plans)
    write_plans(session, draft)
    return move


def take(session: Session, draft: Draft, turn: Turn) -> None:
    """Take a move on by an event in its life."""
    move, phase = turned(turn, draft.state.moves)
    row = session.get_one(MoveRow, move.id)
    row.phase, row.since = phase, draft.now.timestamp()
    match phase:
        case Phase.CUTTING:
            # From now on the cut may be taken.
            row.cut_at = row.since
            _note(session, draft, row)
        case Phase.TAKING:
            # All have passed the cut: the jobs that what moves joins bring its states along.
            row.passed = {str(job): dict(at) for job, at in turn.passed.items()}
            _begin_anew(session, draft, _note(session, draft, row))
        case Phase.RETURNING:
            # The jobs that were left go on, from the cut where they had passed it.
            row.hindrance = turn.why
            _begin_anew(session, draft, _note(session, draft, row))
        case _:
            _close(session, draft, row, turn.why)


def _note(session: Session, draft: Draft, row: MoveRow) -> Move:
    """Write down where a move is, and know it."""
    session.add(row)
    session.flush()
    draft.moved = True
    known = draft.state.moves.get(row.id or 0)
    move = replace(move_of(row), trace=known.trace if known else traceparent())
    draft.state.moves[move.id] = move
    return move


def _begin_anew(session: Session, draft: Draft, move: Move) -> None:
    """Have what moves begin in the jobs that take it, or take it back, with the states and positions of the cut."""
    _set_homes(session, draft, move)
    planner, returns = draft.planner(draft.state.jobs), move.phase is Phase.RETURNING
    plans: dict[JobId, Plan] = {}
    for job in sorted(move.begins):
        plan = draft.next_plan(planner, job)
        imports = tuple(
            StateImport(instance=step.instance, job=str(step.leaves), cut=move.cut)
            for step in move.steps
            # A source has no state, and no slot.
            if step.works and job == (step.leaves if returns else step.joins)
        )
        # A job that takes back knows its own place in its streams.
        ingress = plan.ingress if returns else tuple(_from_cut(move, job, entering) for entering in plan.ingress)
        plans[job] = replace(plan, imports=imports, ingress=ingress)
    draft.take_up(plans)
    write_plans(session, draft)


def _from_cut(move: Move, job: JobId, entering: Ingress) -> Ingress:
    """A stream that enters, from where the cut lies in it, if it does."""
    at = move.passed.get(job, {}).get(entering.stream)
    if at is None and not isinstance(entering.supply, Bridged):
        # A cut lies at one position in a raw stream for all readers of one root, which tasks do not leave. That of
        # a bridge is its reader's own, and a new reader begins at its head.
        left = {step.leaves for step in move.steps if step.joins == job}
        passed = (move.passed.get(other, {}).get(entering.stream) for other in left)
        at = next((position for position in passed if position is not None), None)
    return entering if at is None else replace(entering, start=at, since=None)


def _set_homes(session: Session, draft: Draft, move: Move) -> None:
    """Give what moves its homes, in the next epoch: where it goes, or where it was."""
    state, returns = draft.state, move.phase is Phase.RETURNING
    homes = dict(state.jobs.homes.items())
    rows = []
    for step in move.steps:
        job = step.leaves if returns else step.joins
        homes[step.instance] = Home(job, step.busy)
        state.moved[step.instance] = state.moved.get(step.instance, 0) + 1
        rows.append({"moved": step.instance, "job": job, "busy": step.busy, "moves": state.moved[step.instance]})
    session.execute(_SET_HOMES, rows)
    placed = {home.job for home in homes.values()}
    plans = {job: plan for job, plan in state.plans.items() if job in placed}
    jobs = jobs_of(plans, state.running.tasks, homes, state.jobs.next_job)
    # Nothing that was decided on the jobs as they were fits these.
    state.jobs = replace(jobs, version=state.jobs.version + 1)
    # Outputs go on in the next epoch: another job counts its starts anew.
    moved = frozenset(step.instance for step in move.steps)
    needed = dict.fromkeys(move.begins, 0)
    sinks: list[Instance] = [instance for instance in moved if state.running.tasks[instance].type.is_sink]
    for dataflow in sorted({user for instance in sinks for user in state.running.serves(instance)}):
        # It runs, here or there.
        state.needed[dataflow] = needed
        raised = {
            sink: state.epochs.get(Delivered(dataflow, sink), 1) + 1
            for sink, instance in state.running.produced(dataflow).items()
            if instance in moved
        }
        state.epochs |= {Delivered(dataflow, sink): epoch for sink, epoch in raised.items()}
        row = dataflow_of(session, public_id(dataflow))
        row.epochs = row.epochs | raised
        session.add(row)


def _close(session: Session, draft: Draft, row: MoveRow, why: str) -> None:
    """Forget a move, stop the jobs that hold nothing, and write the outcome into the journal."""
    state, now, move = draft.state, draft.now.timestamp(), move_of(row)
    stood = 0.0 if move.phase is Phase.ABANDONED else now - row.cut_at
    outcome = f"outputs stood still for at most {stood:.1f} s"
    if move.phase is not Phase.DONE:
        outcome = f"went back: {row.hindrance}; {outcome}" if move.phase is Phase.RETURNED else f"given up: {why}"
    draft.moved = True
    idle = sorted(job for job in move.concerned if job not in state.jobs.jobs)
    draft.closed += idle
    for job in idle:
        state.stopped[job] = state.plans.pop(job)
    planner = draft.planner(state.jobs)
    # The states are theirs by now, and the cut is to be released.
    draft.take_up({job: draft.next_plan(planner, job) for job in sorted(move.concerned - set(idle))})
    write_plans(session, draft)
    session.add(
        OperationRow(
            at=now,
            kind=OperationKind.MOVE,
            who=row.who,
            subject=move.cut,
            jobs_started=[str(job) for job in sorted(move.opens) if job in state.jobs.jobs],
            jobs_stopped=[str(job) for job in idle],
            seconds=time.time() - row.begun,
            note=f"{row.reason}; {outcome}",
        )
    )
    state.ended = Ended(move=move.id, phase=move.phase, opened=len(move.opens), interruption=stood)
    session.delete(row)
    del state.moves[move.id]
