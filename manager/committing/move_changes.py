"""The changes that a move brings, a method for each turn of its life; how it goes on is told in `moving`.

All other changes of what runs stand on these, because they have to wait for a move, or to put it off.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import bindparam, select, update
from sqlmodel import Session, col

from engine.plan import Plan
from manager.answers import OperationKind
from manager.committing.changing import Changing
from manager.committing.connecting import reading_the_same
from manager.committing.draft import Draft, Ground
from manager.committing.move_plans import MovePlans, emptied, empty
from manager.committing.moving import LIFE, Chosen, Ended, Move, MoveEvent, Phase, Step
from manager.committing.state import State, jobs_of, move_of
from manager.committing.wanted import Moving
from manager.committing.writing import write_jobs
from manager.planning import Delivered, public_id
from manager.problem import Conflict, StateNotReady
from manager.store.tables import DataflowRow, MoveRow, OperationRow, TaskRow, table_of
from merge import Assignment, Home, Instance, JobId, Jobs

PATIENCE = 10.0
"""Seconds that a change waits for a move that cannot be put off any more."""
_TASKS = table_of(TaskRow)
_SET_HOMES = update(_TASKS).where(_TASKS.c.instance == bindparam("moved"))


class MoveChanges(Changing):
    """What is done with moves, and how other changes keep out of their way."""

    def moving(self) -> Moving | None:
        """The move under way, if there is one; none is known where this manager does not lead."""
        with self._lock:
            if not self.leads or (move := self._current().move) is None:
                return None
            state = self._current()
            sources = (state.running.tasks[step.instance] for step in move.steps if not step.works)
            return Moving(
                move=move,
                plans={job: state.plans[job] for job in move.left | move.joined | move.opens.keys()},
                streams=frozenset(state.sources[each.config["source"]].supplied.stream for each in sources),
            )

    def begin_move(self, choose: Callable[[State, Ground], Chosen], *, who: str) -> Move:
        """Begin to move tasks to where they are chosen to be, of the state as it is."""
        with self._committing() as (session, draft):
            state = draft.state
            if state.move is not None:
                raise Conflict("tasks are moved already; ask again once that is over")
            assignment, reason = choose(state, self._ground)
            if not assignment.places:
                raise Conflict("no task would be better off elsewhere; ask again when more has changed")
            steps = _steps(state, assignment)
            _check_calm(state, steps)
            row = MoveRow(
                phase=Phase.PREPARING,
                since=draft.now.timestamp(),
                begun=draft.now.timestamp(),
                who=who,
                reason=reason,
                steps=[(each.instance, each.leaves, each.joins, int(each.works), each.busy) for each in steps],
                opens={str(job): host for job, host in assignment.opens},
                passed={},
            )
            session.add(row)
            session.flush()
            draft.moved = True
            state.move = move = move_of(row)
            draft.opened += sorted(move.opens)
            state.jobs = replace(state.jobs, next_job=JobId(state.jobs.next_job + len(move.opens)))
            rest = {job: emptied(state.jobs.jobs[job], move) for job in move.left}
            plans = _plans(draft, replace(state.jobs, jobs=state.jobs.jobs.update(rest))).until_the_cut()
            for job, host in move.opens.items():
                plans[job] = empty(job, host, term=draft.term, pace=draft.ground.pace)
            _take_up(session, draft, plans)
        self._told()
        return move

    def cut_move(self, move: int) -> None:
        """All are ready: from now on the cut may be taken."""
        with self._committing() as (session, draft):
            row = _turned(session, draft, move, MoveEvent.READY)
            row.cut_at = draft.now.timestamp()
            _note(session, draft, row)
        self._told()

    def take_over(self, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
        """All have passed the cut: what moves has its homes in the jobs that it joins, which bring its states along."""
        with self._committing() as (session, draft):
            row = _turned(session, draft, move, MoveEvent.PASSED)
            row.passed = {str(job): dict(at) for job, at in passed.items()}
            _note(session, draft, row)
            _settle_homes(session, draft)
            _begin_anew(session, draft)
        self._told()

    def go_back(self, move: int, *, why: str) -> None:
        """Something hindered it: the jobs that were left go on, what passed the cut from there."""
        with self._committing() as (session, draft):
            row = _turned(session, draft, move, MoveEvent.HINDERED)
            row.hindrance = why
            _note(session, draft, row)
            _settle_homes(session, draft)
            _begin_anew(session, draft)
        self._told()

    def end_move(self, move: int) -> None:
        """All have begun: it is over."""
        with self._committing() as (session, draft):
            row = _turned(session, draft, move, MoveEvent.BEGUN)
            stood = draft.now.timestamp() - row.cut_at
            told = f"outputs stood still for at most {stood:.1f} s"
            why = "" if row.phase == Phase.DONE else f"went back: {row.hindrance}; "
            _close(session, draft, row, f"{why}{told}", stood=stood)
        self._told()

    def put_off(self, move: int, *, why: str) -> None:
        """Give up a move that is only prepared."""
        with self._lock:
            known = self._current().move
            if known is not None and known.id == move and known.phase is Phase.PREPARING:
                self._put_off(why)

    @contextmanager
    def _calm(self, check: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Nobody changes the state and nothing moves while the context lasts, for whoever decides by it on a change.

        A move that is only prepared gives way, but not to what `check` refuses. Others change the state while one is
        waited for, so that nothing that was decided before is good any more.
        """
        with self._lock:
            if self._current().move is not None:
                check()
            deadline = time.monotonic() + PATIENCE
            while (move := self._current().move) is not None:
                if move.phase is Phase.PREPARING:
                    self._put_off("something else was asked for meanwhile")
                elif not self._over.wait(deadline - time.monotonic()):
                    raise StateNotReady("tasks are being moved from job to job; ask again in a moment", retry_after=1.0)
            yield

    @contextmanager
    def _changing(self) -> Iterator[tuple[Session, Draft]]:
        """One change of what runs: as `_committing`, once nothing moves."""
        with self._calm(), self._committing() as made:
            yield made

    def _put_off(self, why: str) -> None:
        """Have a move that is only prepared make room for another change."""
        state = self._current()
        assert state.move is not None  # noqa: S101 - who calls has looked
        with self._committing() as (session, draft):
            row = _turned(session, draft, state.move.id, MoveEvent.HINDERED)
            _close(session, draft, row, f"given up: {why}")


def _steps(state: State, assignment: Assignment) -> tuple[Step, ...]:
    """What moves by an assignment: all of each running DAG that it touches, and of those that read the same sources.

    Else a job could read a stream on for one of them while another stands still in it.
    """
    homes, dag_of = state.jobs.homes, state.running.dag_of
    new = {instance: home for instance, home in assignment.places if home.job != homes[instance].job}
    dags = reading_the_same(state.running, map(dag_of, new))
    return tuple(
        Step(
            instance=instance,
            leaves=homes[instance].job,
            joins=new.get(instance, homes[instance]).job,
            works=bool(task.inputs),
            busy=new.get(instance, homes[instance]).busy,
        )
        for instance, task in sorted(state.running.tasks.items())
        if dag_of(instance) in dags
    )


def _check_calm(state: State, steps: Iterable[Step]) -> None:
    """Refuse to move what something else is under way with."""
    if state.draining:
        raise Conflict("a dataflow drains; ask again once it is removed")
    if any(plan.feeds for plan in state.plans.values()):
        raise Conflict("dead letters are replayed; ask again once they are")
    if {step.leaves for step in steps} & state.apart:
        raise Conflict("a dataflow that began at the earliest events has not caught up; ask again later")


def _turned(session: Session, draft: Draft, move: int, event: MoveEvent) -> MoveRow:
    """The row of a move, in the phase that an event brings; refused where it is not the one under way."""
    state = draft.state
    if state.move is None or state.move.id != move or event not in LIFE[state.move.phase]:
        raise Conflict("this move is over, or went on meanwhile")
    row = session.get_one(MoveRow, move)
    row.phase, row.since = LIFE[state.move.phase][event], draft.now.timestamp()
    draft.moved = True
    return row


def _note(session: Session, draft: Draft, row: MoveRow) -> None:
    """Write down where a move is, and know it."""
    session.add(row)
    session.flush()
    draft.state.move = move_of(row)


def _plans(draft: Draft, jobs: Jobs) -> MovePlans:
    state = draft.state
    assert state.move is not None  # noqa: S101 - there is one, or nobody would ask
    return MovePlans(move=state.move, planner=draft.planner(jobs), plans=state.plans, term=draft.term)


def _take_up(session: Session, draft: Draft, plans: Mapping[JobId, Plan]) -> None:
    draft.state.plans |= plans
    write_jobs(session, draft, plans)


def _begin_anew(session: Session, draft: Draft) -> None:
    """What moves begins in the jobs that take it, or take it back."""
    _take_up(session, draft, _plans(draft, draft.state.jobs).from_the_cut())


def _settle_homes(session: Session, draft: Draft) -> None:
    """Give what moves its homes, in the next epoch: where it goes, or where it was."""
    state = draft.state
    move = state.move
    assert move is not None  # noqa: S101 - as above
    returns = move.phase is Phase.RETURNING
    homes = dict(state.jobs.homes.items())
    rows = []
    for step in move.steps:
        job = step.leaves if returns else step.joins
        homes[step.instance] = Home(job, step.busy)
        state.moves[step.instance] = state.moves.get(step.instance, 0) + 1
        rows.append({"moved": step.instance, "job": job, "busy": step.busy, "moves": state.moves[step.instance]})
    session.execute(_SET_HOMES, rows)
    placed = {home.job for home in homes.values()}
    plans = {job: plan for job, plan in state.plans.items() if job in placed}
    jobs = jobs_of(plans, state.running.tasks, homes, state.jobs.next_job)
    # Nothing that was decided on the jobs as they were fits these.
    state.jobs = replace(jobs, version=state.jobs.version + 1)
    _raise_epochs(session, state, frozenset(step.instance for step in move.steps))


def _raise_epochs(session: Session, state: State, moved: frozenset[Instance]) -> None:
    """Have outputs go on in the next epoch: another job's starts are counted anew."""
    assert state.move is not None  # noqa: S101 - as above
    needed = dict.fromkeys(state.move.begins, 0)
    sinks = [instance for instance in moved if state.running.tasks[instance].type.is_sink]
    for dataflow in sorted({each for instance in sinks for each in state.running.serves(instance)}):
        # It runs, be it here or there.
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


def _close(session: Session, draft: Draft, row: MoveRow, told: str, *, stood: float = 0.0) -> None:
    """Forget a move, stop the jobs that hold nothing, and write down what came of it."""
    state = draft.state
    move = state.move
    assert move is not None  # noqa: S101 - as above
    concerned = {step.leaves for step in move.steps} | move.joined | move.opens.keys()
    idle = sorted(job for job in concerned if job not in state.jobs.jobs)
    draft.closed += idle
    for job in idle:
        state.stopped[job] = state.plans.pop(job)
    _take_up(session, draft, _plans(draft, state.jobs).after_all(concerned - set(idle)))
    session.add(
        OperationRow(
            at=draft.now.timestamp(),
            kind=OperationKind.MOVE,
            who=row.who,
            subject=move.cut,
            jobs_started=[str(job) for job in sorted(move.opens) if job in state.jobs.jobs],
            jobs_stopped=[str(job) for job in idle],
            seconds=time.time() - row.begun,
            note=f"{row.reason}; {told}",
        )
    )
    state.ended = Ended(move=move.id, phase=Phase(row.phase), opened=len(move.opens), interruption=stood)
    session.delete(row)
    state.move = None
