"""Loading the committed state from its rows.

Rows hold signatures and instances, so no document is parsed again, and a running task keeps its instance even where its
type has a newer version by now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from rpds import HashTrieMap
from sqlalchemy import select
from sqlmodel import Session, col

from dags import AnyTaskType, Catalogue, Config, Input, JsonField, Key, NamesSource, Scope, TaskType
from engine.plan import Plan, SlotState
from engine.plan_messages import read_plan
from manager.answers import Start
from manager.committed.sources import registered
from manager.committed.state import CommittedState, running_id, stands_apart
from manager.planner import Delivered
from manager.store.tables import (
    DataflowRow,
    ImageRow,
    JobRow,
    Leadership,
    MoveRow,
    ReconfigurationRow,
    ReconfiguredRow,
    SourceRow,
    TaskRow,
    TenantRow,
    table_of,
)
from manager.transitions.drain import Drain
from manager.transitions.life import Phase
from manager.transitions.move import Move, MoveStep
from manager.transitions.reconfiguration import Reconfiguration
from merge import Home, Image, Instance, Job, JobId, Jobs, RunningDags, RunningGraph, RunningTask, Submitted
from merge.jobs import crossings
from merge.users import with_user

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
        apart={job for job in alive if stands_apart(plans[job])},
        quarantined={row.name: row.quarantined_until for row in session.execute(_QUARANTINED)},
        moved=moved,
        moves={move.id: move for move in map(move_of, session.scalars(select(MoveRow).order_by(col(MoveRow.id))))},
    )
    _load_dataflows(session, state)
    _load_reconfigurations(session, state)
    return state


def _tasks(
    session: Session, catalogue: Catalogue
) -> tuple[dict[Instance, RunningTask], dict[Instance, Home], dict[Instance, int]]:
    types = _Types(catalogue)
    moved: dict[Instance, int] = {}
    tasks: dict[Instance, RunningTask] = {}
    homes: dict[Instance, Home] = {}
    wanted = table_of(TaskRow).c
    # Columns rather than rows: there may be a hundred thousand.
    rows = session.execute(select(*wanted).order_by(wanted.instance)).all()
    feeding = {parent for row in rows for _, parent, *_ in row.inputs}
    for row in rows:
        instance = Instance(row.instance)
        kind = types.find(row.type, row.version, fed=bool(row.inputs), feeds=instance in feeding)
        tasks[instance] = RunningTask(
            instance=instance,
            key=Key(row.signature, None if row.scope_task is None else Scope(row.scope_dataflow, row.scope_task)),
            text=row.text,
            type=kind,
            inputs=tuple(Input(*each) for each in row.inputs),
            json_fields=tuple(JsonField(*each) for each in row.json_fields or ()),
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
    return Image(
        name=row.name,
        tags=frozenset(row.tags),
        cores=row.cores,
        start=row.start,
        price=row.price,
        most=row.most,
    )


def move_of(row: MoveRow) -> Move:
    """The move of a row."""
    assert row.id is not None  # noqa: S101 - it was written
    return Move(
        id=row.id,
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
    names = (
        "id",
        "revision",
        "tenant",
        "name",
        "task_ids",
        "instances",
        "sinks",
        "parts",
        "sources",
        "epochs",
        "start",
    )
    every = table_of(DataflowRow).c
    wanted = select(every.draining, *(every[name] for name in names)).where(every.removed.is_(None))
    for row in session.execute(wanted.order_by(every.number)):
        each = Submitted(
            id=running_id(row.id, row.revision),
            tenant=row.tenant,
            name=row.name,
            task_ids=tuple(row.task_ids),
            instances=tuple(row.instances),
            sinks=tuple(row.sinks),
            parts=tuple(map(tuple, row.parts)),
        )
        running.dataflows[each.id] = each
        for instance in set(each.instances):
            running.users[instance] = with_user(running.users.get(instance, ()), each.id)
        dags = dags.join(each.parts)
        for source in row.sources:
            state.readers.setdefault(source, set()).add(each.id)
        if row.start == Start.EARLIEST:
            state.earliest[row.id] = row.tenant
        if row.draining is not None:
            instances = frozenset(each.instances)
            state.drains[each.id] = Drain(dataflow=each.id, since=row.draining, instances=instances)
        state.epochs |= {Delivered(each.id, sink): row.epochs[sink] for sink in row.sinks if sink in row.epochs}
    running.running_dags = dags


def _load_reconfigurations(session: Session, state: CommittedState) -> None:
    under_way = select(ReconfigurationRow).where(col(ReconfigurationRow.ended).is_(None))
    for row in session.scalars(under_way.order_by(col(ReconfigurationRow.id))):
        named = select(ReconfiguredRow).where(col(ReconfiguredRow.reconfiguration) == row.id)
        each = reconfiguration_of(row, sorted(one.dataflow for one in session.scalars(named)))
        state.reconfigurations[each.id] = each


def reconfiguration_of(row: ReconfigurationRow, dataflows: Iterable[str]) -> Reconfiguration:
    """The reconfiguration of a row, without what was decided for it."""
    assert row.id is not None  # noqa: S101 - it was written
    return Reconfiguration(
        id=row.id,
        phase=Phase(row.phase),
        since=row.since,
        begun=row.begun,
        dataflows=tuple(dataflows),
        jobs=frozenset(map(JobId, row.jobs)),
        awaiting=frozenset(map(JobId, row.awaiting)),
        sources=frozenset(map(Instance, row.sources)),
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


class _Types:
    """Task types as rows name them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._found: dict[tuple[str, int, bool, bool], AnyTaskType] = {}

    def find(self, name: str, version: int, *, fed: bool, feeds: bool) -> AnyTaskType:
        """The type of a task that has inputs or not, and feeds others or not."""
        found = self._found.get((name, version, fed, feeds))
        if found is None:
            found = self._made(name, version, fed=fed, feeds=feeds)
            self._found[name, version, fed, feeds] = found
        return found

    def _made(self, name: str, version: int, *, fed: bool, feeds: bool) -> AnyTaskType:
        known = self._catalogue.find(name)
        if known is None:
            # Its tasks run on; hosts that do not have it either say so.
            return TaskType(
                name=name,
                version=version,
                config=Config if fed else NamesSource,
                inputs=("in",) if fed else (),
                outputs=("out",) if feeds else (),
            )
        if known.varies:
            # Its config decides them; what a task that runs has of them is as good, and needs no config to be read.
            inputs, outputs = ("in",) if fed else (), ("out",) if feeds else ()
            return replace(known, version=version, ports=None, inputs=inputs, outputs=outputs, optional=frozenset())
        return known if known.version == version else replace(known, version=version)
