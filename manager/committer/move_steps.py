"""The steps of a move, each a function over a transaction; `manager.transitions.move` says why in this order."""

import time
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import bindparam, select, update
from sqlmodel import Session, col

from engine.plan import Plan
from manager.answers import OperationKind
from manager.committed.state_load import jobs_of, move_of
from manager.committer.draft import Draft
from manager.committer.rows import write_jobs
from manager.planner import Delivered, public_id
from manager.problem import Conflict
from manager.store.tables import DataflowRow, MoveRow, OperationRow, TaskRow, table_of
from manager.transitions.life import LIVES, Phase, TransitionEvent
from manager.transitions.move import Chosen, Ended, Move, MoveStep
from manager.transitions.move_plans import MovePlans, emptied, empty
from merge import Home, Instance, JobId, Jobs

_TASKS = table_of(TaskRow)
_SET_HOMES = update(_TASKS).where(_TASKS.c.instance == bindparam("moved"))


def begin(session: Session, draft: Draft, chosen: Chosen, steps: tuple[MoveStep, ...], who: str) -> Move:
    """Open the new jobs, and have those that are left stop what moves at the cut."""
    state, assignment = draft.state, chosen.assignment
    row = MoveRow(
        phase=Phase.PREPARING,
        since=draft.now.timestamp(),
        begun=draft.now.timestamp(),
        who=who,
        reason=chosen.reason,
        steps=[(each.instance, each.leaves, each.joins, int(each.works), each.busy) for each in steps],
        opens={str(job): host for job, host in assignment.opens},
        passed={},
    )
    move = _note(session, draft, row)
    draft.opened += sorted(move.opens)
    state.jobs = replace(state.jobs, next_job=JobId(state.jobs.next_job + len(move.opens)))
    rest = {job: emptied(state.jobs.jobs[job], move) for job in move.left}
    plans = _plans(draft, move, replace(state.jobs, jobs=state.jobs.jobs.update(rest))).until_the_cut()
    shards = {job: many for job, many, _ in assignment.shards}
    planner = draft.planner(state.jobs)
    for job, host in move.opens.items():
        workers = planner.workers(each.instance for each in steps if each.joins == job)
        plans[job] = empty(
            job, host, term=draft.term, pace=draft.ground.pace, shards=shards.get(job, 1), workers=workers
        )
    _take_up(session, draft, plans)
    return move


def cut(session: Session, draft: Draft, move: int) -> None:
    """All are ready: from now on the cut may be taken."""
    row = _turned(session, draft, move, TransitionEvent.READY, frozenset({Phase.CUTTING}))
    row.cut_at = draft.now.timestamp()
    _note(session, draft, row)


def take_over(session: Session, draft: Draft, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
    """All have passed the cut: what moves has its homes in the jobs that it joins, which bring its states along."""
    row = _turned(session, draft, move, TransitionEvent.PASSED, frozenset({Phase.TAKING}))
    row.passed = {str(job): dict(at) for job, at in passed.items()}
    _begin_anew(session, draft, _note(session, draft, row))


def go_back(session: Session, draft: Draft, move: int, why: str) -> None:
    """Something hindered it: the jobs that were left go on, from the cut where they had passed it."""
    row = _turned(session, draft, move, TransitionEvent.HINDERED, frozenset({Phase.RETURNING}))
    row.hindrance = why
    _begin_anew(session, draft, _note(session, draft, row))


def end(session: Session, draft: Draft, move: int) -> None:
    """All have begun: it is over."""
    row = _turned(session, draft, move, TransitionEvent.BEGUN, frozenset({Phase.DONE, Phase.RETURNED}))
    stood = draft.now.timestamp() - row.cut_at
    why = "" if row.phase == Phase.DONE else f"went back: {row.hindrance}; "
    _close(session, draft, row, f"{why}outputs stood still for at most {stood:.1f} s", stood=stood)


def abandon(session: Session, draft: Draft, move: int, *, why: str) -> None:
    """Give up a move that is only prepared."""
    row = _turned(session, draft, move, TransitionEvent.HINDERED, frozenset({Phase.ABANDONED}))
    _close(session, draft, row, f"given up: {why}")


def _turned(session: Session, draft: Draft, move: int, event: TransitionEvent, to: frozenset[Phase]) -> MoveRow:
    """The row of a move, in the phase that an event brings; refused where it does not bring it there."""
    known = draft.state.moves.get(move)
    following = None if known is None else LIVES[known.kind][known.phase].get(event)
    if following not in to:
        raise Conflict("this move is over, or went on meanwhile")
    row = session.get_one(MoveRow, move)
    row.phase, row.since = following, draft.now.timestamp()
    return row


def _note(session: Session, draft: Draft, row: MoveRow) -> Move:
    """Write down where a move is, and know it."""
    session.add(row)
    session.flush()
    draft.moved = True
    move = move_of(row)
    draft.state.moves[move.id] = move
    return move


def _plans(draft: Draft, move: Move, jobs: Jobs) -> MovePlans:
    return MovePlans(move=move, planner=draft.planner(jobs), plans=draft.state.plans, term=draft.term)


def _take_up(session: Session, draft: Draft, plans: Mapping[JobId, Plan]) -> None:
    draft.state.plans |= plans
    write_jobs(session, draft, plans)


def _begin_anew(session: Session, draft: Draft, move: Move) -> None:
    """Have what moves begin in the jobs that take it, or take it back."""
    _set_homes(session, draft, move)
    _take_up(session, draft, _plans(draft, move, draft.state.jobs).from_the_cut())


def _set_homes(session: Session, draft: Draft, move: Move) -> None:
    """Give what moves its homes, in the next epoch: where it goes, or where it was."""
    state = draft.state
    returns = move.phase is Phase.RETURNING
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
    _raise_epochs(session, draft, move)


def _raise_epochs(session: Session, draft: Draft, move: Move) -> None:
    """Have outputs go on in the next epoch: another job counts its starts anew."""
    state = draft.state
    moved = frozenset(step.instance for step in move.steps)
    needed = dict.fromkeys(move.begins, 0)
    sinks: list[Instance] = [each for each in moved if state.running.tasks[each].type.is_sink]
    for dataflow in sorted({each for instance in sinks for each in state.running.serves(instance)}):
        # It runs, here or there.
        state.needed[dataflow] = needed
        raised = {
            sink: state.epochs.get(Delivered(dataflow, sink), 1) + 1
            for sink, instance in state.running.produced(dataflow).items()
            if instance in moved
        }
        state.epochs |= {Delivered(dataflow, sink): epoch for sink, epoch in raised.items()}
        row = session.scalars(select(DataflowRow).where(col(DataflowRow.id) == public_id(dataflow))).one()
        row.epochs = row.epochs | raised
        session.add(row)


def _close(session: Session, draft: Draft, row: MoveRow, outcome: str, *, stood: float = 0.0) -> None:
    """Forget a move, stop the jobs that hold nothing, and write the outcome into the journal."""
    state = draft.state
    move = move_of(row)
    draft.moved = True
    idle = sorted(job for job in move.concerned if job not in state.jobs.jobs)
    draft.closed += idle
    for job in idle:
        state.stopped[job] = state.plans.pop(job)
    _take_up(session, draft, _plans(draft, move, state.jobs).after_all(move.concerned - set(idle)))
    session.add(
        OperationRow(
            at=draft.now.timestamp(),
            kind=OperationKind.MOVE,
            who=row.who,
            subject=move.cut,
            jobs_started=[str(job) for job in sorted(move.opens) if job in state.jobs.jobs],
            jobs_stopped=[str(job) for job in idle],
            seconds=time.time() - row.begun,
            note=f"{row.reason}; {outcome}",
        )
    )
    state.ended = Ended(move=move.id, phase=Phase(row.phase), opened=len(move.opens), interruption=stood)
    session.delete(row)
    del state.moves[move.id]
