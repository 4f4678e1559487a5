"""The committed state in memory, as the leader has it, and how it is loaded from its rows.

Rows hold signatures and instances, so no document is parsed again,
and a running task keeps its instance even where its type has a newer version by now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial

from rpds import HashTrieMap
from sqlalchemy import select
from sqlmodel import Session, col

from braid_client.answers.dataflows import Start
from dags import AnyTaskType, Catalogue, Config, Input, JsonField, Key, NamesSource, Scope, TaskType
from dags.outputs import OutputSettings
from engine.plan import Plan, SlotState
from engine.plan_messages import read_plan
from manager.kernel.registered_sources import Registered, registered
from manager.kernel.retired_topics import RetiredTopic
from manager.kernel.transitions import Drain, Ended, Move, MoveStep, Phase, Reconfiguration, Transition
from manager.planner import Delivered, Made
from manager.store.tables import (
    DataflowRow,
    ImageRow,
    JobRow,
    Leadership,
    MoveRow,
    ReconfigurationRow,
    ReconfiguredRow,
    RetiredTopicRow,
    SourceRow,
    TaskRow,
    TenantRow,
    table_of,
)
from merge import Home, Image, Instance, Job, JobId, Jobs, RunningDags, RunningGraph, RunningTask, Submitted
from merge.jobs import crossings
from merge.running_graph import with_user

# rpds's classes take no parameters at run time.


@dataclass(slots=True, kw_only=True)
class CommittedState:
    """All that the next decision goes by; changed only by the committer."""

    version: int
    running: RunningGraph
    jobs: Jobs
    plans: dict[JobId, Plan]
    """The newest plan of each job that runs."""
    stopped: dict[JobId, Plan]
    """The last plan of each job that was stopped, until its host has said that it is."""
    sources: HashTrieMap[str, Registered] = field(default_factory=HashTrieMap)
    """The registered sources by name. Persistent, so that documents are read against a snapshot."""
    images: HashTrieMap[str, Image] = field(default_factory=HashTrieMap)
    """The registered images by name. Persistent, so that what was decided by them can be compared."""
    readers: dict[str, set[str]] = field(default_factory=dict)
    """For each source that is read the dataflows that read it, by the running graph's ids."""
    epochs: dict[Delivered, int] = field(default_factory=dict)
    """For each sink whose numbers began anew the epoch in which they are."""
    slots: dict[Instance, Made] = field(default_factory=dict)
    """The slots that were made of running tasks, for the next plans."""
    earliest: dict[str, str] = field(default_factory=dict)
    """For each dataflow that began at the earliest events that were kept its tenant; by the id that its tenant has."""
    apart: set[JobId] = field(default_factory=set)
    """The jobs that began so, and stand elsewhere in their streams than others: nothing else is placed there."""
    quarantined: dict[str, float] = field(default_factory=dict)
    """For each tenant that is or was in quarantine the moment at which that ends."""
    moved: dict[Instance, int] = field(default_factory=dict)
    """For each task that went from job to job how often it did."""
    moves: dict[int, Move] = field(default_factory=dict)
    """The moves under way, by id."""
    drains: dict[str, Drain] = field(default_factory=dict)
    """The drains under way, by the dataflow."""
    reconfigurations: dict[int, Reconfiguration] = field(default_factory=dict)
    """The reconfigurations under way, by id."""
    retired: dict[str, RetiredTopic] = field(default_factory=dict)
    """The topics that are to be cleared, by id, the oldest first."""
    ended: Ended | None = None
    """The outcome of the last move since this was loaded."""
    needed: dict[str, dict[JobId, int]] = field(default_factory=dict)
    """For each dataflow that was submitted since this was loaded the plans that brought its tasks; else the newest."""

    def snapshot(self) -> CommittedState:
        """Return a copy for a preview, which commits do not change."""
        return replace(self, running=self.running.snapshot(), plans=dict(self.plans))

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """All that is under way."""
        return (*self.moves.values(), *self.drains.values(), *self.reconfigurations.values())

    def begins(self, source: RunningTask) -> float | None:
        """The moment from which a source has its events of those that are kept; None where it has them as it runs."""
        tenant = self.earliest.get(source.key.scope.dataflow) if source.key.scope else None
        return None if tenant is None else self.sources[source.config["source"]].since(tenant)

    def in_quarantine(self, now: float) -> frozenset[str]:
        """The tenants that are in quarantine."""
        return frozenset(tenant for tenant, until in self.quarantined.items() if now < until)

    def own_jobs(self, now: float) -> Mapping[str, frozenset[JobId]]:
        """For each tenant in quarantine the jobs whose workers run nothing else."""
        tenants = self.in_quarantine(now)
        if not tenants:
            return {}
        own: defaultdict[str, set[JobId]] = defaultdict(set)
        for job, plan in self.plans.items():
            own[plan.workers].add(job)
        return {tenant: frozenset(own[tenant]) for tenant in tenants}

    def read_by(self, dataflow: str) -> frozenset[str]:
        """The sources that a dataflow reads."""
        parts = self.running.dataflow(dataflow).parts
        return frozenset(self.running.tasks[source].config["source"] for part in parts for source in part)

    def jobs_of(self, dataflow: str) -> frozenset[JobId]:
        """The jobs that run a dataflow's tasks."""
        homes = self.jobs.homes
        return frozenset(homes[instance].job for instance in self.running.dataflow(dataflow).instances)

    def streams_of(self, sources: Mapping[Instance, object] | frozenset[Instance]) -> frozenset[str]:
        """The raw streams of running sources."""
        tasks = self.running.tasks
        return frozenset(self.sources[tasks[source].config["source"]].supplied.stream for source in sources)


def stands_apart(state: CommittedState, plan: Plan) -> bool:
    """Tell whether a job began at the earliest events that were kept."""
    entering = (state.running.tasks.get(Instance(ingress.instance)) for ingress in plan.ingress)
    return any(not task.inputs and state.begins(task) is not None for task in entering if task is not None)


def running_id(dataflow: str, revision: int) -> str:
    """The running graph's id of a dataflow, one for each revision, so that two of them can run for a moment.

    >>> running_id("d-1", 1), running_id("d-1", 2)
    ('d-1', 'd-1~2')
    """
    return dataflow if revision == 1 else f"{dataflow}~{revision}"


_TENANTS = table_of(TenantRow).c
_QUARANTINED = select(_TENANTS.name, _TENANTS.quarantined_until).where(_TENANTS.quarantined_until.is_not(None))


def load(session: Session, catalogue: Catalogue) -> CommittedState:
    """The state in the database."""
    leadership = session.get_one(Leadership, 1)
    tasks, homes, moved = _tasks(session, catalogue)
    running = RunningGraph(
        tasks=tasks,
        index={task.key: instance for instance, task in tasks.items()},
        next_instance=Instance(leadership.next_instance),
    )
    rows = session.scalars(select(JobRow)).all()
    plans = {JobId(row.id): read_plan(row.plan.encode()) for row in rows}
    alive = {JobId(row.id) for row in rows if not row.stopped}
    # In the course of a move a job may run that has nothing yet, or nothing any more.
    placed = alive & {home.job for home in homes.values()}
    state = CommittedState(
        version=leadership.version,
        running=running,
        jobs=jobs_of({job: plans[job] for job in placed}, tasks, homes, JobId(leadership.next_job)),
        plans={job: plans[job] for job in alive},
        stopped={job: plan for job, plan in plans.items() if job not in alive},
        sources=HashTrieMap({row.name: registered(row) for row in session.scalars(select(SourceRow))}),
        images=HashTrieMap({row.name: image_of(row) for row in session.scalars(select(ImageRow))}),
        quarantined={row.name: row.quarantined_until for row in session.execute(_QUARANTINED)},
        moved=moved,
        moves={move.id: move for move in map(move_of, session.scalars(select(MoveRow).order_by(col(MoveRow.id))))},
        retired={
            row.id: RetiredTopic(**row.model_dump(exclude={"since"}))
            for row in session.scalars(select(RetiredTopicRow).order_by(col(RetiredTopicRow.since)))
        },
    )
    _load_dataflows(session, state)
    state.apart |= {job for job, plan in state.plans.items() if stands_apart(state, plan)}
    _load_reconfigurations(session, state)
    return state


def _tasks(
    session: Session, catalogue: Catalogue
) -> tuple[dict[Instance, RunningTask], dict[Instance, Home], dict[Instance, int]]:
    type_of = cache(partial(_type_of, catalogue))
    moved: dict[Instance, int] = {}
    tasks: dict[Instance, RunningTask] = {}
    homes: dict[Instance, Home] = {}
    wanted = table_of(TaskRow).c
    # Columns rather than rows: there may be a hundred thousand.
    rows = session.execute(select(*wanted).order_by(wanted.instance)).all()
    feeding = {parent for row in rows for _, parent, *_ in row.inputs}
    for row in rows:
        instance = Instance(row.instance)
        kind = type_of(row.type, row.version, bool(row.inputs), instance in feeding)
        tasks[instance] = RunningTask(
            instance=instance,
            key=Key(row.signature, None if row.scope_task is None else Scope(row.scope_dataflow, row.scope_task)),
            text=row.text,
            type=kind,
            inputs=tuple(Input(*edge) for edge in row.inputs),
            json_fields=tuple(JsonField(*json_field) for json_field in row.json_fields or ()),
            since=datetime.fromtimestamp(row.since, UTC),
            # In rows of old, those of the type are not written down.
            tags=kind.tags.union(row.tags or ()),
        )
        homes[instance] = Home(JobId(row.job), row.busy)
        if row.moves:
            moved[instance] = row.moves
    return tasks, homes, moved


def image_of(row: ImageRow) -> Image:
    """The image of a row."""
    return Image(**row.model_dump() | {"tags": frozenset(row.tags)})


def move_of(row: MoveRow) -> Move:
    """The move of a row."""
    return Move(
        id=row.id or 0,
        phase=Phase(row.phase),
        since=row.since,
        steps=tuple(
            MoveStep(
                instance=Instance(instance), leaves=JobId(leaves), joins=JobId(joins), works=bool(works), busy=busy
            )
            for instance, leaves, joins, works, busy in row.steps
        ),
        opens={JobId(int(job)): host for job, host in row.opens.items()},
        passed={JobId(int(job)): at for job, at in row.passed.items()},
    )


def _load_dataflows(session: Session, state: CommittedState) -> None:
    running = state.running
    dags = RunningDags()
    every = table_of(DataflowRow).c
    facts = ("id", "revision", "tenant", "name", "start", "draining")
    lists = ("task_ids", "instances", "sinks", "parts", "sources", "epochs", "outputs")
    wanted = select(*(every[name] for name in facts + lists)).where(every.removed.is_(None))
    for row in session.execute(wanted.order_by(every.number)):
        submitted = Submitted(
            id=running_id(row.id, row.revision),
            tenant=row.tenant,
            name=row.name,
            task_ids=tuple(row.task_ids),
            instances=tuple(row.instances),
            sinks=tuple(row.sinks),
            parts=tuple(map(tuple, row.parts)),
            outputs={
                sink: OutputSettings.model_validate(settings, strict=False)
                for sink, settings in (row.outputs or {}).items()
            },
        )
        running.dataflows[submitted.id] = submitted
        for instance in set(submitted.instances):
            running.users[instance] = with_user(running.users.get(instance, ()), submitted.id)
        dags = dags.join(submitted.parts)
        for source in row.sources:
            state.readers.setdefault(source, set()).add(submitted.id)
        if row.start == Start.EARLIEST:
            state.earliest[row.id] = row.tenant
        if row.draining is not None:
            state.drains[submitted.id] = Drain(
                dataflow=submitted.id, since=row.draining, instances=frozenset(submitted.instances)
            )
        state.epochs |= {Delivered(submitted.id, sink): row.epochs[sink] for sink in row.sinks if sink in row.epochs}
    running.running_dags = dags


def _load_reconfigurations(session: Session, state: CommittedState) -> None:
    under_way = select(ReconfigurationRow).where(col(ReconfigurationRow.ended).is_(None))
    for row in session.scalars(under_way.order_by(col(ReconfigurationRow.id))):
        named = select(col(ReconfiguredRow.dataflow)).where(col(ReconfiguredRow.reconfiguration) == row.id)
        known = reconfiguration_of(row, sorted(session.scalars(named)))
        state.reconfigurations[known.id] = known


def reconfiguration_of(row: ReconfigurationRow, dataflows: Iterable[str]) -> Reconfiguration:
    """The reconfiguration of a row, without what was decided for it."""
    return Reconfiguration(
        id=row.id or 0,
        phase=Phase(row.phase),
        since=row.since,
        begun=row.begun,
        dataflows=tuple(dataflows),
        jobs=frozenset(map(JobId, row.jobs)),
        awaiting=frozenset(map(JobId, row.awaiting)),
        instances=frozenset(map(Instance, row.instances)),
        changed=frozenset(map(Instance, row.changed)),
        watched=frozenset(map(Instance, row.watched)),
        undoes=row.undoes,
        outcome=row.outcome,
    )


def jobs_of(
    plans: Mapping[JobId, Plan], tasks: dict[Instance, RunningTask], homes: dict[Instance, Home], following: JobId
) -> Jobs:
    """The jobs, made of their plans and of the tasks at home there."""
    active: dict[JobId, set[Instance]] = {job: set() for job in plans}
    busy: Counter[JobId] = Counter()
    for instance, home in homes.items():
        active[home.job].add(instance)
        busy[home.job] += home.busy  # type: ignore[assignment]  # a counter adds whatever adds
    jobs = (
        Job(
            id=job,
            host=plan.host,
            active=frozenset(active[job]),
            # A plan that waits for a marker pauses what is still active.
            paused=frozenset(Instance(slot.instance) for slot in plan.slots if slot.state is SlotState.PAUSED)
            - active[job],
            busy=busy[job],
            shards=plan.shards,
            groups=plan.groups,
        )
        for job, plan in plans.items()
    )
    bridges = dict(crossings(tasks.values(), {instance: home.job for instance, home in homes.items()}))
    return Jobs.of(jobs, homes, bridges, following)


def _type_of(catalogue: Catalogue, name: str, version: int, fed: bool, feeds: bool) -> AnyTaskType:  # noqa: FBT001 - the key of a cache
    """The type of a task, as its row names it, that has inputs or not, and feeds others or not."""
    known = catalogue.find(name)
    inputs, outputs = ("in",) if fed else (), ("out",) if feeds else ()
    if known is None:
        # Its tasks run on; hosts that do not have it either say so.
        config = Config if fed else NamesSource
        return TaskType(name=name, version=version, config=config, inputs=inputs, outputs=outputs)
    if known.varies:
        # Its config decides them; what a task that runs has of them is as good, and needs no config to be read.
        return replace(known, version=version, ports=None, inputs=inputs, outputs=outputs, optional=frozenset())
    return known if known.version == version else replace(known, version=version)
