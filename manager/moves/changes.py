"""The changes that moves bring: begun on request, then taken on by the events that the reconciler sees.

Running DAGs that are connected because they read the same sources, as where one was submitted fresh. A job reads
a raw stream once for all, so a cut passes all of them at the same place, and only when each of their streams has
come there.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import bindparam, select, update
from sqlmodel import Session, col

from engine.plan import Bridged, Ingress, Plan, StateImport
from manager.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import DecisionGround, Draft, write_jobs
from manager.kernel.state import CommittedState, jobs_of, move_of
from manager.kernel.transitions import (
    LIVES,
    Chosen,
    Comer,
    Ended,
    Move,
    MoveStep,
    Phase,
    TransitionEvent,
    TransitionKind,
    TransitionScope,
)
from manager.kernel.wanted import Moving
from manager.planner import Delivered, Planner, public_id
from manager.problem import Conflict
from manager.store.tables import DataflowRow, MoveRow, OperationRow, TaskRow, table_of
from merge import Assignment, DagId, Home, Instance, Job, JobId, Jobs, RunningGraph


def reading_the_same(running: RunningGraph, dags: Iterable[DagId]) -> frozenset[DagId]:
    """The given running DAGs, and all that read a source with one of them, directly or over others."""
    of_source = running.running_dags.of_source
    reads: dict[DagId, set[str]] = {}
    readers: dict[str, set[DagId]] = {}
    for instance, dag in of_source.items():
        source = running.tasks[instance].config["source"]
        reads.setdefault(dag, set()).add(source)
        readers.setdefault(source, set()).add(dag)
    found, left = set[DagId](), set(dags)
    while left:
        dag = left.pop()
        found.add(dag)
        left |= {other for source in reads[dag] for other in readers[source]} - found
    return frozenset(found)


def empty(job: JobId, host: str, *, term: int, pace: float, shards: int = 1, workers: str = "") -> Plan:  # noqa: PLR0913 - what a plan begins with
    """The plan with which a new job warms up."""
    return Plan(job=str(job), host=host, version=1, term=term, pace=pace, shards=shards, workers=workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlans:
    """Makes the plans of one step of a move; made by the committer."""

    move: Move
    planner: Planner
    """Of the jobs as they are to be from this step on."""
    plans: Mapping[JobId, Plan]
    """The newest ones."""
    term: int

    def until_the_cut(self) -> dict[JobId, Plan]:
        """For each job that is left its plan from the cut on; the planner does not know of what moves."""
        return {job: replace(plan, at_cut=self.move.cut) for job, plan in self._next(self.move.left)}

    def after_all(self, jobs: Iterable[JobId]) -> dict[JobId, Plan]:
        """For jobs that go on a plan that knows of no move: the states are theirs, and the cut is to be released."""
        return dict(self._next(jobs))

    def from_the_cut(self) -> dict[JobId, Plan]:
        """For each job that takes something, or takes it back, a plan with the states and positions of the cut."""
        return {job: self._with_states(job, plan) for job, plan in self._next(self.move.begins)}

    def _with_states(self, job: JobId, plan: Plan) -> Plan:
        returns = self.move.phase is Phase.RETURNING
        # A source has no state, and no slot.
        brought = [each for each in self.move.steps if each.works and job == (each.leaves if returns else each.joins)]
        plan = replace(
            plan,
            imports=tuple(
                StateImport(instance=each.instance, job=str(each.leaves), cut=self.move.cut) for each in brought
            ),
        )
        # A job that takes back knows its own place in its streams.
        return plan if returns else replace(plan, ingress=tuple(self._from_cut(job, each) for each in plan.ingress))

    def _from_cut(self, job: JobId, entering: Ingress) -> Ingress:
        """A stream that enters, from where the cut lies in it, if it does."""
        passed = self.move.passed
        at = passed.get(job, {}).get(entering.stream)
        if at is None and not isinstance(entering.supply, Bridged):
            # A cut lies at one position in a raw stream for all readers of one root, which tasks do not leave. That of
            # a bridge is its reader's own, and a new reader begins at its head.
            left = {step.leaves for step in self.move.steps if step.joins == job}
            at = next((passed[each][entering.stream] for each in left if entering.stream in passed.get(each, {})), None)
        return entering if at is None else replace(entering, start=at, since=None)

    def _next(self, jobs: Iterable[JobId]) -> Iterator[tuple[JobId, Plan]]:
        for job in sorted(jobs):
            before = self.plans[job]
            plan = self.planner.plan(job, version=before.version + 1, term=self.term, before=before)
            yield job, replace(plan, pace=before.pace)


def emptied(job: Job, move: Move) -> Job:
    """A job without what moves."""
    return replace(job, active=job.active - {step.instance for step in move.steps})


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


class MoveChanges:
    """All that is done with moves."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        committer.cancel_with(TransitionKind.MOVE, abandon)

    def under_way(self) -> tuple[Moving, ...]:
        """The moves under way; none is known where this manager does not lead."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            return tuple(_moving(state, move) for move in state.moves.values())

    def begin(self, choose: Callable[[CommittedState, DecisionGround], Chosen], *, who: str) -> Move:
        """Begin to move tasks to the places that are chosen by the state as it is."""

        def decide(state: CommittedState, _now: object) -> tuple[Chosen, tuple[MoveStep, ...]]:
            chosen = choose(state, self._committer.ground)
            return chosen, _steps(state, chosen.assignment)

        def scope(_state: CommittedState, decided: tuple[Chosen, tuple[MoveStep, ...]]) -> TransitionScope:
            _, steps = decided
            return TransitionScope(
                jobs=frozenset({each.leaves for each in steps} | {each.joins for each in steps}),
                instances=frozenset(each.instance for each in steps),
            )

        return self._committer.commit(
            decide,
            lambda session, draft, decided: begin(session, draft, *decided, who),
            scope=scope,
            comer=Comer.MOVE,
        )

    def cut(self, move: int) -> None:
        """All are ready: from now on the cut may be taken."""
        self._committer.go_on(lambda session, draft: cut(session, draft, move))

    def take_over(self, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
        """All have passed the cut, each of the jobs at these places in its streams."""
        self._committer.go_on(lambda session, draft: take_over(session, draft, move, passed))

    def go_back(self, move: int, *, why: str) -> None:
        """Something hindered it once the cut may have been taken."""
        self._committer.go_on(lambda session, draft: go_back(session, draft, move, why))

    def end(self, move: int) -> None:
        """All have begun."""
        self._committer.go_on(lambda session, draft: end(session, draft, move))

    def put_off(self, move: int, *, why: str) -> None:
        """Something hindered it before the cut could be taken."""
        self._committer.go_on(lambda session, draft: abandon(session, draft, move, why=why))


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
