"""A draft: one change of the committed state while it is made, and the rows that are written of it.

It moves the state on in place, because a copy would cost as much as all that runs. If the change is not
committed in the end, the committer drops the state and loads it anew.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, update
from sqlmodel import Session

from braid_client.answers.overview import OperationKind
from bridge.traces import traceparent
from dags import Dataflow
from engine.plan import Feed, Limits, Plan
from engine.plan_messages import written_plan
from manager.kernel.registered_sources import Registered
from manager.kernel.retired_topics import RetiredTopic, retired_by
from manager.kernel.state import CommittedState, stands_apart
from manager.kernel.transitions import Phase
from manager.planner import NO_OTHER_LIMITS, Delivered, Planner, public_id
from manager.store.dead_letters import given_back
from manager.store.tables import DataflowRow, IdempotencyRow, JobRow, OperationRow, RetiredTopicRow, TaskRow, table_of
from merge import (
    Change,
    Conditions,
    Home,
    Host,
    Image,
    Instance,
    JobId,
    Jobs,
    MeasuredCosts,
    RunningTask,
    Step,
    as_registered,
)
from merge.reconfiguration.alteration import Alteration, alter, altered
from merge.step import Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionGround:
    """The ground that decisions stand on: hosts, settings, and what was measured."""

    hosts: Callable[[], tuple[Host, ...]]
    """Those that were seen, with their own tags."""
    strategy: str = "pack"
    pace: float = 1.0
    limits: Limits = NO_OTHER_LIMITS
    measured: Callable[[], MeasuredCosts] = MeasuredCosts
    order: Callable[[Collection[frozenset[str]], Iterable[Image]], str] = lambda _lacking, _images: ""
    """Has machines started that offer sets of tags which no host offers, and says which are; nothing if there are none
    to start for all of them."""

    def conditions(self, state: CommittedState, now: datetime) -> Conditions:
        """The conditions of a decision now. Jobs in which tasks stand still, or soon will, take no others."""
        still = (move.concerned for move in state.moves.values() if move.phase is not Phase.PREPARING)
        return Conditions(
            now=now,
            hosts=self.offering(state),
            images=tuple(state.images[name] for name in sorted(state.images)),
            strategy=self.strategy,
            pace=self.pace,
            apart=frozenset(state.apart.union(*still)),
            quarantined=state.own_jobs(now.timestamp()),
            measured=self.measured(),
        )

    def offering(self, state: CommittedState) -> tuple[Host, ...]:
        """The hosts with all that they offer, as their images are registered."""
        return as_registered(self.hosts(), state.images)


@dataclass(kw_only=True)
class Draft:
    """One change while it is made; the committer makes a draft for each."""

    state: CommittedState
    ground: DecisionGround
    term: int
    now: datetime
    begun: float = 0.0
    """When the change was asked for, by the monotonic clock."""
    moved: bool = False
    """Whether the state is ahead of what is committed."""
    added: dict[Instance, RunningTask] = field(default_factory=dict)
    altered: dict[Instance, RunningTask] = field(default_factory=dict)
    """The tasks that keep their instances and change otherwise."""
    gone: set[Instance] = field(default_factory=set)
    reused: int = 0
    touched: set[JobId] = field(default_factory=set)
    """The jobs that may get a new plan."""
    opened: list[JobId] = field(default_factory=list)
    closed: list[JobId] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    paces: dict[JobId, float] = field(default_factory=dict)
    """The paces of jobs, where the decision has chosen one."""
    fed: dict[JobId, tuple[Feed, ...]] = field(default_factory=dict)
    """The events that jobs get with their next plans, beside those of before that they have not taken yet."""
    taken: set[JobId] = field(default_factory=set)
    """The jobs that have taken all that they were fed."""
    retired: list[RetiredTopic] = field(default_factory=list)
    """The topics on which nothing is retained any more."""
    made: dict[JobId, Plan] = field(default_factory=dict)
    """The new plans."""
    state_bounds: Mapping[JobId, Mapping[int, int]] = field(default_factory=dict)
    """The bounds of states in jobs where they change."""

    def take(self, step: Step, *, from_earliest: bool = False) -> None:
        """Go on by a decision."""
        state, change = self.state, step.change
        self.moved = True
        retired = [*retired_by(change, state.stopped, state.plans)]
        self.retired += retired
        state.retired |= {topic.id: topic for topic in retired}
        if (removed := change.removed) is not None:
            self._stop_reading(removed.id)
            state.needed.pop(removed.id, None)
            state.drains.pop(removed.id, None)
            for sink in removed.sinks:
                state.epochs.pop(Delivered(removed.id, sink), None)
        state.running.advance(change)
        state.jobs = step.jobs
        if (submitted := change.submitted) is not None:
            if from_earliest:
                state.earliest[public_id(submitted.id)] = submitted.tenant
            self._begin_reading(submitted.id)
        self.added |= {task.instance: task for task in change.starts}
        self._stop(change.stops)
        self.reused += len(change.reuses)
        self.touched |= step.touches
        self.paces |= step.paces
        self.opened += step.opens
        self.closed += step.released.stops

    def alter(self, by: Alteration, settled: Settled, switching: AbstractSet[JobId]) -> None:
        """Go on by a reconfiguration. The plans of the jobs that are switching are its own."""
        state = self.state
        self.moved = True
        for old, new in by.swaps:
            self._stop_reading(old.id)
            state.needed.pop(old.id, None)
            renamed = {sink: state.epochs.pop(Delivered(old.id, sink), None) for sink in old.sinks}
            state.epochs |= {Delivered(new.id, sink): epoch for sink, epoch in renamed.items() if epoch is not None}
        alter(state.running, by)
        state.jobs = settled.jobs
        for _, new in by.swaps:
            self._begin_reading(new.id)
        self.added |= {fork.task.instance: fork.task for fork in by.forks}
        self.altered |= {task.instance: task for task in by.alters}
        self._stop(by.stops)
        self.touched |= settled.touches - switching
        self.closed += settled.released.stops

    def plans(self) -> dict[JobId, Plan]:
        """The new plans, the state's from now on; a job whose plan would be as it was keeps that."""
        state = self.state
        for job in self.closed:
            if (last := state.plans.pop(job, None)) is not None:
                state.stopped[job] = last
        planner = self.planner(state.jobs)
        for job in sorted(self.touched - set(self.closed)):
            before = state.plans.get(job)
            version = before.version + 1 if before else 1
            waiting = before.feeds if before and job not in self.taken else ()
            planned = planner.plan(job, version=version, term=self.term, before=before)
            plan = replace(
                planned,
                pace=self.paces.get(job, before.pace if before else self.ground.pace),
                feeds=(*waiting, *self.fed.get(job, ())),
                state_bounds=self.state_bounds.get(job, planned.state_bounds),
                trace=traceparent(),
            )
            if before is None or plan != replace(before, version=version, term=self.term):
                self.made[job] = state.plans[job] = plan
                if stands_apart(state, plan):
                    state.apart.add(job)
        for dataflow in self.submitted:
            state.needed[dataflow] = {job: state.plans[job].version for job in state.jobs_of(dataflow)}
        return self.made

    def planner(self, jobs: Jobs, after: Alteration | None = None) -> Planner:
        """The maker of plans for jobs as they are, or as they would be, also after a reconfiguration."""
        state = self.state
        running, epochs, slots = state.running, state.epochs, state.slots
        if after is not None:
            renamed = {
                Delivered(new.id, sink): epochs[Delivered(old.id, sink)]
                for old, new in after.swaps
                for sink in old.sinks
                if Delivered(old.id, sink) in epochs
            }
            running, epochs, slots = altered(running, after), epochs | renamed, {}
        return Planner(
            running,
            jobs,
            lambda source: state.sources[source].supplied,
            epochs,
            slots,
            begins=state.begins,
            moves=state.moved,
            limits=self.ground.limits,
            quarantined=state.in_quarantine(self.now.timestamp()),
        )

    def next_plan(self, planner: Planner, job: JobId) -> Plan:
        """The next plan of a job that goes on, as a planner makes it, at the pace that it has."""
        before = self.state.plans[job]
        plan = planner.plan(job, version=before.version + 1, term=self.term, before=before)
        return replace(plan, pace=before.pace)

    def take_up(self, plans: Mapping[JobId, Plan]) -> None:
        """Go on with plans that were made for a transition."""
        self.moved, trace = True, traceparent()
        traced = {job: replace(plan, trace=trace) for job, plan in plans.items()}
        self.state.plans |= traced
        self.made |= traced

    def know(self, source: Registered) -> None:
        """Take up a source, new or changed."""
        self.moved = True
        self.state.sources = self.state.sources.insert(source.source.name, source)

    def forget(self, source: str) -> None:
        """Let a source go that nothing reads any more."""
        self.moved = True
        self.state.sources = self.state.sources.remove(source)

    def _stop(self, tasks: Iterable[RunningTask]) -> None:
        for task in tasks:
            self.state.slots.pop(task.instance, None)
            self.state.moved.pop(task.instance, None)
            if self.added.pop(task.instance, None) is None:
                self.gone.add(task.instance)

    def _begin_reading(self, dataflow: str) -> None:
        for source in self.state.read_by(dataflow):
            self.state.readers.setdefault(source, set()).add(dataflow)
        self.submitted.append(dataflow)

    def _stop_reading(self, dataflow: str) -> None:
        readers = self.state.readers
        for source in self.state.read_by(dataflow):
            readers[source].remove(dataflow)
            if not readers[source]:
                del readers[source]


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
_SET_JOBS = update(_JOBS).where(_JOBS.c.id == bindparam("job"))
_ADD_RETIRED = insert(table_of(RetiredTopicRow))
_ADD_OPERATION = insert(table_of(OperationRow))
_IDEMPOTENCY = table_of(IdempotencyRow)
_ADD_IDEMPOTENCY = insert(_IDEMPOTENCY)
_FORGET_IDEMPOTENCY = delete(_IDEMPOTENCY).where(
    _IDEMPOTENCY.c.tenant == bindparam("of"), _IDEMPOTENCY.c.at < bindparam("before")
)


def write_down(  # noqa: PLR0913 - who did what, when, and what came of it
    session: Session,
    draft: Draft,
    kind: OperationKind,
    *,
    who: str,
    subject: str,
    begun: float | None = None,
    note: str = "",
) -> None:
    """Write down the running tasks and jobs after a change, and the change in the journal.

    `begun` is when the request came, by the monotonic clock, if that was before the committer was asked.
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
    homes = draft.state.jobs.homes
    gone = sorted(draft.gone)
    for start in range(0, len(gone), _MOST_AT_ONCE):
        session.execute(_DROP_TASKS, {"instances": gone[start : start + _MOST_AT_ONCE]})
    if draft.added:
        session.execute(_ADD_TASKS, [_task(task, homes[task.instance]) for task in draft.added.values()])
    if draft.altered:
        rows = [{"altered": task.instance, **_task(task, homes[task.instance])} for task in draft.altered.values()]
        session.execute(_SET_TASKS, rows)
    if draft.retired:
        since = draft.now.timestamp()
        session.execute(_ADD_RETIRED, [{**asdict(retired), "since": since} for retired in draft.retired])
    write_plans(session, draft)
    # What a job that is to stop was fed, and is not known to have taken, are dead letters again.
    ended = (plan for job in draft.closed if (plan := draft.state.stopped.get(job)) is not None)
    if feeds := [feed.id for plan in ended for feed in plan.feeds]:
        given_back(session, feeds)


def write_operation(  # noqa: PLR0913 - who did what, when, and what came of it
    session: Session,
    draft: Draft,
    kind: OperationKind,
    *,
    who: str,
    subject: str,
    begun: float | None = None,
    **outcome: object,
) -> None:
    """Write an entry into the journal."""
    entry = {"at": draft.now.timestamp(), "kind": kind, "who": who, "subject": subject}
    nothing = {"started": 0, "reused": 0, "paused": 0, "jobs_started": [], "jobs_stopped": [], "note": ""}
    seconds = time.monotonic() - (draft.begun if begun is None else begun)
    session.execute(_ADD_OPERATION, {**entry, **nothing, **outcome, "seconds": seconds})


def write_idempotency(  # noqa: PLR0913, PLR0917 - what was sent, and what came of it
    session: Session, draft: Draft, row: DataflowRow, key: str, digest: str, reconfiguration: int | None = None
) -> None:
    """Write down what came of a request under an idempotency key, and forget the tenant's oldest ones."""
    now = draft.now.timestamp()
    session.execute(_FORGET_IDEMPOTENCY, {"of": row.tenant, "before": now - IDEMPOTENCY_KEPT})
    outcome = {"digest": digest, "dataflow": row.id, "reconfiguration": reconfiguration, "at": now}
    session.execute(_ADD_IDEMPOTENCY, {"tenant": row.tenant, "key": key, **outcome})


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
        outputs={sink: settings.model_dump(mode="json") for sink, settings in submitted.outputs.items()} or None,
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
        "inputs": [list(edge) for edge in task.inputs],
        "json_fields": [list(json_field) for json_field in task.json_fields],
        "since": task.since.timestamp(),
        "tags": sorted(task.tags),
        "job": home.job,
        "busy": home.busy,
    }


def write_plans(session: Session, draft: Draft) -> None:
    """Write down the new plans, and which jobs are to stop."""
    rows = {
        job: {"host": plan.host, "version": plan.version, "plan": written_plan(plan).decode(), "stopped": False}
        for job, plan in draft.plans().items()
    }
    if made := [{"id": job, **row} for job, row in rows.items() if job in draft.opened]:
        session.execute(_ADD_JOBS, made)
    if changed := [{"job": job, **row} for job, row in rows.items() if job not in draft.opened]:
        session.execute(_SET_JOBS, changed)
    if closed := [{"job": job, "stopped": True} for job in draft.closed]:
        session.execute(_SET_JOBS, closed)
