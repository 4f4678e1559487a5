"""Examples of requests, answers and problems for the OpenAPI description: of a city, and of its tenant ann."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from dags import Document, Kind, State, Visibility
from manager.answers.adaptations import (
    AdaptationAnswer,
    AdaptiveTaskAnswer,
    AlternateAnswer,
    ChoiceForm,
    GuardedStreamAnswer,
    PolicyForm,
)
from manager.answers.base import Page
from manager.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    BundleForm,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    EndingStreamAnswer,
    ExplainAnswer,
    OutputAnswer,
    OutputEvent,
    RemovalAnswer,
    SampleAnswer,
    Saving,
    SubmitAnswer,
    TaskAnswer,
)
from manager.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from manager.answers.jobs import (
    CarriedHostAnswer,
    DefragmentationPreviewAnswer,
    FragmentationAnswer,
    HostAnswer,
    ImageAnswer,
    ImageForm,
    JobAnswer,
    MachineAnswer,
    MoveAnswer,
    PlacedTaskAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
    PlannedGroupAnswer,
    RunningDagAnswer,
    RunningTaskAnswer,
    SavesAnswer,
    StreamAnswer,
    WorthOfMoreAnswer,
)
from manager.answers.overview import EventAnswer, OperationAnswer, OperationKind, TaskTypeAnswer
from manager.answers.pipelines import (
    FallbackAnswer,
    FigureAnswer,
    GoalAnswer,
    ModuleAnswer,
    ModuleDetail,
    PlaceAnswer,
    PlanAnswer,
    ReplanAnswer,
    ReplanForm,
    ReplanKind,
    WheelAnswer,
)
from manager.answers.reconfigurations import (
    ChangedTaskAnswer,
    ComponentAnswer,
    QueueAnswer,
    ReconfigurationAnswer,
    ReconfigurationForm,
    ReconfigurationScope,
    ReconfigurationState,
)
from manager.answers.savings import (
    BillAmount,
    BillAnswer,
    BillLine,
    BillWhole,
    CpuAnswer,
    EstimateAnswer,
    PointAnswer,
    SavedAnswer,
    SavingsAnswer,
    SeriesAnswer,
    ShareAnswer,
    WholeAnswer,
)
from manager.answers.sources import (
    DependentAnswer,
    ProducerAnswer,
    ReceivedAnswer,
    RejectedAnswer,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    TopicConnection,
    VisibilityForm,
)
from manager.answers.tenants import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    PublishingForm,
    Quota,
    QuotaUse,
    Role,
    SecretAnswer,
    SecretForm,
    SessionAnswer,
    SessionEnded,
    SessionForm,
    TenantAnswer,
    TenantForm,
)
from manager.problem import (
    Conflict,
    DatabaseAway,
    FieldError,
    Forbidden,
    ForeignPage,
    InvalidDataflow,
    InvalidModule,
    InvalidRequest,
    InvalidWheel,
    MethodNotAllowed,
    NotFound,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    TooManyRequests,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)
from merge import Basis
from planning.constraint import ModuleShape
from planning.forms import ModuleForm
from planning.problem import Criterion

MODULE_FORM: dict[str, Any] = {
    "name": "plausible",
    "version": 1,
    "summary": "Drops temperatures that no thermometer in the city can have measured.",
    "shape": "filter",
    "installed": {"type": "range_filter", "config": {"field": "temperature", "min": -12.5, "max": 43.1}},
    "variables": {"plausible": [True]},
    "ensure": {"plausible": True},
    "cost": 0.004,
    "tags": ["cleaning"],
}
MODULE = ModuleAnswer(
    name="plausible",
    version=1,
    owner="ann",
    summary=MODULE_FORM["summary"],
    shape=ModuleShape.FILTER,
    type="range_filter",
    tags=("cleaning",),
    cost=0.004,
    quality=None,
    published=datetime(2026, 3, 1, 12, tzinfo=UTC),
    deprecated=None,
    vouched=False,
)
MODULE_DETAIL = ModuleDetail(**dict(MODULE), form=MODULE_FORM)
WHEEL = WheelAnswer(
    digest="5df5e2f1a8e7a4c1b6b1e7e9a1d7f3c2b4a6958473625140f9e8d7c6b5a49382",
    owner="ann",
    name="tiny",
    version="1.0",
    bytes=1_204,
    requires=(),
    sent=datetime(2026, 3, 1, 11, tzinfo=UTC),
)
WHEEL_PAGE = Page[WheelAnswer](items=(WHEEL,))
MODULE_PAGE = Page[ModuleAnswer](items=(MODULE,))


_THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
_ID = "d-5f0c9a1e77b2"
_KEY_ID = "00112233aabbccdd"

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "averages of plausible temperatures",
    "tasks": [
        {"id": "street", "type": "source", "config": {"source": "city:street"}},
        {"id": "plausible", "type": "range_filter", "config": {"field": "temperature", "min": -12.5, "max": 43.1}},
        {"id": "average", "type": "block_window_average", "config": {"field": "temperature", "window": 5}},
        {"id": "averages", "type": "output"},
    ],
    "streams": [
        {"from": "street", "to": "plausible"},
        {"from": "plausible", "to": "average"},
        {"from": "average", "to": "averages"},
    ],
}
_REUSED = (
    TaskAnswer(id="street", type="source", instance=1, reused=True),
    TaskAnswer(id="plausible", type="range_filter", instance=2, reused=True),
)
_STARTED = (
    TaskAnswer(id="average", type="block_window_average", instance=7, reused=False),
    TaskAnswer(id="averages", type="output", instance=8, reused=False),
)
DATAFLOW = DataflowAnswer(
    id=_ID,
    tenant="ann",
    name="averages of plausible temperatures",
    revision=1,
    state=DataflowState.RUNNING,
    submitted=_THEN,
    outputs=(
        OutputAnswer(
            sink="averages",
            topic=f"braid/1/out/ann/{_ID}/averages",
            latency_seconds_p50=0.713,
            latency_seconds_p99=1.281,
        ),
    ),
)
DETAIL = DataflowDetail(**dict(DATAFLOW), tasks=_REUSED + _STARTED, document=DOCUMENT)
SUBMIT_ANSWER = SubmitAnswer(**(dict(DATAFLOW) | {"state": DataflowState.DEPLOYING}), reused=_REUSED, started=_STARTED)
EXPLAINED = ExplainAnswer(
    reused=tuple(task.model_copy(update={"instance": 0}) for task in _REUSED),
    started=("average", "averages"),
    collapsed=(),
    saving=Saving(
        tasks=2,
        of_tasks=4,
        work_by_sharing=0.375,
        cores_by_sharing=0.0012,
        cores_by_packing=0.06,
        rests_on={Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 0},
        work_rests_on={Basis.MEASURED: 1, Basis.TYPE: 2, Basis.ASSUMED: 0},
    ),
)
BUNDLE_ANSWER = BundleAnswer(dataflows=(SUBMIT_ANSWER,))
BUNDLE_EXPLAINED = BundleExplainAnswer(documents=(EXPLAINED,), started=2)
DATAFLOW_PAGE = Page[DataflowAnswer](items=(DATAFLOW,), next="41")

_CONNECTION = TopicConnection(kind="topic", topic="city/street")
SOURCE_ANSWER = SourceAnswer(
    name="city:street",
    owner="city",
    fields={"sensor": Kind.STRING, "temperature": Kind.FLOAT},
    visibility=Visibility.NAMED,
    connection=_CONNECTION,
    readers=("ann",),
    dataflows=1,
    received=ReceivedAnswer(
        since=_THEN,
        accepted=1_204,
        rejected=1,
        newest=(
            RejectedAnswer(
                at=_THEN,
                event='{"sensor": "a", "temperature": "hot"}',
                reason="the field 'temperature' should be of kind float",
            ),
        ),
    ),
)
SOURCE_PAGE = Page[SourceAnswer](items=(SOURCE_ANSWER,))
SCHEMA_ANSWER = SchemaAnswer(
    source=SOURCE_ANSWER,
    going_on=1,
    dependent=(
        DependentAnswer(dataflow="d-5f0a41c2b7de", why=("/tasks/1/config/field: there is no field 'humidity'",)),
    ),
)
STOPPED = Stopped(dataflows=1)

_USES = QuotaUse(
    dataflows=1,
    tasks=4,
    streams=3,
    submits_per_minute=0,
    wheel_bytes=0,
    sources=2,
    secrets=1,
    modules=0,
    keys=1,
    from_earliest=0,
    state_mb=12,
)
TENANT = TenantAnswer(name="ann", quota=Quota(), uses=_USES, created=_THEN)
TENANT_PAGE = Page[TenantAnswer](items=(TENANT,))
KEY_ANSWER = KeyAnswer(
    id=_KEY_ID, role=Role.TENANT, tenant="ann", note="for the dashboard", created=_THEN, revoked=None
)
KEY_PAGE = Page[KeyAnswer](items=(KEY_ANSWER,))
NEW_KEY = NewKeyAnswer(**dict(KEY_ANSWER), key=f"braid_{_KEY_ID}_{'x' * 43}")
SESSION_ANSWER = SessionAnswer(kind=Role.TENANT, tenant="ann", until=_THEN)
SESSION_ENDED = SessionEnded(ended=True)
SECRET = SecretAnswer(tenant="ann", name="warehouse")
SECRET_PAGE = Page[SecretAnswer](items=(SECRET,))
CREDENTIALS = BrokerCredentials(
    url="mqtt://broker.example:1883",
    user="tenant-ann",
    password="shown this once",  # noqa: S106 - an example
    reads=("braid/1/out/ann/#",),
    writes=("ann/raw",),
)

OPERATION = OperationAnswer(
    id=17,
    at=_THEN,
    kind=OperationKind.SUBMIT,
    who="ann",
    subject=_ID,
    started=2,
    reused=2,
    jobs_started=("2",),
    seconds=0.008,
)
OPERATION_PAGE = Page[OperationAnswer](items=(OPERATION,), next="17")
DEAD_LETTER_PAGE = Page[DeadLetterAnswer](
    items=(
        DeadLetterAnswer(
            id=3,
            at=_THEN,
            instance=2,
            port="in",
            dataflows=(_ID,),
            reason="TypeError: 'str' is no number",
            events=({"sensor": "s1", "temperature": "warm"},),
        ),
    )
)
DEAD_LETTER_GROUP_PAGE = Page[DeadLetterGroupAnswer](
    items=(
        DeadLetterGroupAnswer(
            newest=3,
            instance=2,
            dataflows=(_ID,),
            reason="TypeError: 'str' is no number",
            dead_letters=2,
            first=_THEN,
            last=_THEN,
        ),
    )
)
DISCARDED = Discarded(dead_letters=3)
REPLAYED = Replayed(dead_letters=3, events=41)
EVENT_ANSWER = EventAnswer(id=17, kind="operation", told=OPERATION.model_dump(mode="json"))

BODY_EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    Document: DOCUMENT,
    ImageForm: {"tags": ["gpu"], "cores": 8.0, "start": 90.0, "price": 2.4, "most": 4},
    KeyForm: {"tenant": "ann", "note": "for the dashboard"},
    ModuleForm: MODULE_FORM,
    PlacementPlanForm: {"plan": "(open__gpu group0)\n(put__task_3__gpu group0)\n(close group0)"},
    PolicyForm: {
        "throughput": 0.9,
        "latency": 5.0,
        "events": {"peak": {"output": "peaks"}},
        "rules": [{"name": "peak", "activate": {"event": "peak", "within": 60}, "choose": {"forecast": "tree"}}],
    },
    PublishingForm: {"code": True},
    Quota: {"dataflows": 100, "tasks": 2_000, "submits_per_minute": 60},
    ReconfigurationForm: {"tasks": {"average": {"config": {"window": 20}}}},
    ReplanForm: {"prefer": ["cost"]},
    SecretForm: {"secret": "postgresql://ann:hush@warehouse.example/readings"},
    SessionForm: {"key": NEW_KEY.key},
    SourceForm: {
        "name": "street",
        "connection": {"kind": "topic", "topic": "city/street"},
        "schema": {"sensor": "string", "temperature": "float"},
        "visibility": "named",
        "readers": ["ann"],
    },
    BundleForm: {"documents": [DOCUMENT]},
    ChoiceForm: {"choose": {"forecast": "average", "forecast>detail": True}},
    SchemaForm: {"schema": {"sensor": "string", "temperature": "float", "humidity": "float"}},
    TenantForm: {"name": "ann"},
    VisibilityForm: {"visibility": "public"},
}
"""What is sent, by its form."""


ADAPTATION = AdaptationAnswer(
    dataflow="d-5f0a41c2b7de",
    policy={"throughput": 0.8, "tolerance": 0.05, "latency": 5.0, "events": {}, "rules": []},
    pinned={"forecast>detail": True},
    tasks=(
        AdaptiveTaskAnswer(
            task="forecast",
            active="average",
            since=datetime(2026, 3, 1, 7, 30, tzinfo=UTC),
            alternates=(
                AlternateAnswer(name="tree", value=1.0, cost=900.0, selectivity=1.0, measured=False, permitted=True),
                AlternateAnswer(name="average", value=0.6, cost=38.2, selectivity=1.0, measured=True, permitted=True),
            ),
        ),
    ),
    streams=(GuardedStreamAnswer(stream="forecast>detail", open=True, rule="(by hand)"),),
    value=0.6,
    throughput=1.0,
    cores_needed=0.04,
    cores=0.7,
    rate=1_040.0,
)


_HOST = CarriedHostAnswer(
    name="north",
    home="north",
    load=1.25,
    peers=("south",),
    kept_by=("south",),
    standby=("south",),
    behind_bytes=4_096,
    under_replicated=False,
)
MACHINE = MachineAnswer(
    name="north",
    alive=True,
    zone="hall-1",
    takes_copies=True,
    at="10.0.0.11:8700",
    cores=8.0,
    share=0.5,
    load=1.25,
    tags=("gpu",),
    image="gpu-large",
    hosts=(_HOST,),
    keeps=("south",),
)
DRAINING = MACHINE.model_copy(update={"draining": True, "hosts": (_HOST.model_copy(update={"heir": "south"}),)})
NEWCOMER = MachineAnswer(
    name="east",
    alive=True,
    waits="it is new; admit it with: braid machines admit east",
    key="AUq0ijw4xAA-7MRvq0Dw7ZIwkWDAzh4pjgqgbzPuvEo",
    zone="hall-2",
    takes_copies=True,
    at="10.0.0.13:8700",
    cores=8.0,
)
GONE = MachineAnswer(name="north", alive=False)
MACHINE_PAGE = Page[MachineAnswer](items=(NEWCOMER, MACHINE))
IMAGE = ImageAnswer(name="gpu-large", tags=("gpu",), cores=8.0, start=90.0, price=2.4, most=4, hosts=("north",))
IMAGE_PAGE = Page[ImageAnswer](items=(IMAGE,))
PLACEMENT = PlacementAnswer(
    dataflow="3f1c9a52",
    tasks=(
        PlacedTaskAnswer(
            task="average",
            instance=3,
            job="2",
            host="north",
            image="gpu-large",
            tags=("gpu",),
            why="its host offers gpu; bridges bring what feeds it, from job 1",
        ),
    ),
    cost=0.08,
    cheapest=0.07,
    second=0.075,
    bound=0.07,
    saves={"gpu-huge": 0.01},
    more=(WorthOfMoreAnswer(tags="gpu", host=0.4, core=0.1),),
)
PLACEMENT_PDDL = PlacementPddlAnswer(dataflow="3f1c9a52", domain="(define (domain groups) ...)", problem="(define ...)")
PLACEMENT_PLAN = PlacementPlanAnswer(
    dataflow="3f1c9a52",
    groups=(PlannedGroupAnswer(tags="gpu", tasks=("average", "plausible")),),
    cost=0.07,
    now=0.08,
)


REMOVAL = RemovalAnswer(
    dataflow=DATAFLOW.id,
    stops=SUBMIT_ANSWER.started,
    goes_on=2,
    streams=(EndingStreamAnswer(task="plausible", instance=2, port="out"),),
)
SAMPLE = SampleAnswer(
    at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    epoch=1,
    first=4_001,
    events=({"sensor": "s1", "temperature": 21.5},),
    others=39,
)
OUTPUT_EVENT = OutputEvent(sink="averages", epoch=1, number=4_001, event={"sensor": "s1", "temperature": 21.5})
SENT_EVENTS = [{"sensor": "s1", "temperature": 21.5}, {"sensor": "s2", "temperature": 19.0}]
EVENT_LINES = "".join(f"{json.dumps(event)}\n" for event in SENT_EVENTS)
SENT = SentAnswer(source="city:street", producer="day-7", next=4_002)
PRODUCER = ProducerAnswer(source="city:street", producer="day-7", next=4_002)


_BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECONFIGURATION = ReconfigurationAnswer(
    id="7",
    state=ReconfigurationState.SWITCHING,
    dataflows=("d-5f0a41c2b7de",),
    who="city",
    begun=_BEGUN,
    scope=ReconfigurationScope(
        tasks=(
            ChangedTaskAnswer(
                dataflow="d-5f0a41c2b7de", task="average", in_place=True, changed=True, state="transformed", job="1"
            ),
        ),
        components=(ComponentAnswer(tasks=("average",), heads=("average",)),),
        jobs=("1",),
        waiting=(),
        delay_seconds=1.0,
    ),
)
WAITING = RECONFIGURATION.model_copy(
    update={
        "id": "9",
        "state": ReconfigurationState.WAITING,
        "queue": QueueAnswer(place=2, behind=("7", "8")),
    }
)
RECONFIGURATION_PAGE = Page[ReconfigurationAnswer](items=(RECONFIGURATION,))


PLAN = PlanAnswer(
    places=(
        PlaceAnswer(id="clean", module="plausible@2", alternatives=("median@1",)),
        PlaceAnswer(id="convert", module=None),
    ),
    goals=(GoalAnswer(goal="/goals/0", rests_on=("clean",)),),
    figures=(
        FigureAnswer(criterion=Criterion.CHANGES, value=1, bound=1),
        FigureAnswer(criterion=Criterion.COST, value=120, bound=120),
    ),
    optimal=True,
    document={
        "version": 1,
        "name": "street",
        "tasks": [
            {"id": "source", "type": "source", "config": {"source": "street"}},
            {
                "id": "clean",
                "type": "range_filter",
                "config": {"field": "temperature", "min": -20, "max": 45},
                "module": "plausible@2",
            },
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "source", "to": "clean"}, {"from": "clean", "to": "out"}],
    },
    fallbacks=(FallbackAnswer(module="plausible@2", places=(PlaceAnswer(id="clean", module="median@1"),)),),
)
REPLANNED = ReplanAnswer(
    dataflow="d-5f0a41c2b7de",
    how=ReplanKind.RECONFIGURATION,
    plan=PLAN,
    changed=("clean",),
    reconfiguration=RECONFIGURATION,
)


_BEGIN, _END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)


def _paid(hours: str, amount: str) -> BillAmount:
    core_hours = Decimal(hours)
    return BillAmount(cpu_ns=int(core_hours * 3_600 * 10**9), core_hours=core_hours, amount=Decimal(amount))


_LINE = BillLine(tenant="ann", pays=_paid("44.640000", "2.232000"), most=_paid("89.280000", "4.464000"))
BILL = BillAnswer(
    since=_BEGIN,
    until=_END,
    complete=True,
    metered_seconds=2_678_400.0,
    tenants=(_LINE,),
    dataflows=(_LINE.model_copy(update={"dataflow": SUBMIT_ANSWER.id, "name": "averages"}),),
    whole=BillWhole(
        measured=_paid("223.200000", "11.160000"),
        others=_paid("74.400000", "3.720000"),
        overhead=_paid("104.160000", "5.208000"),
    ),
    price_per_core_hour=Decimal("0.05"),
    currency="EUR",
)


def _cpu(cores: float) -> CpuAnswer:
    """For an hour."""
    return CpuAnswer(cpu_ns=round(cores * 3_600) * 10**9, cores=cores, price=round(cores * 0.05, 6))


def _estimate(low: float, likely: float, high: float) -> EstimateAnswer:
    return EstimateAnswer(low=low, likely=likely, high=high, price=round(likely * 0.05, 6))


_SAVED = SavedAnswer(work_by_sharing=0.375, cores_by_sharing=_cpu(0.02), cores_by_packing=_estimate(0.02, 0.04, 0.06))
SAVINGS = SavingsAnswer(
    since=_THEN,
    until=_THEN.replace(hour=13),
    metered_seconds=3_600.0,
    tenants=2,
    whole=WholeAnswer(
        measured=_cpu(0.3),
        parts={"driver": _cpu(0.08), "jvm": _cpu(0.1), "worker": _cpu(0.1), "broker": _cpu(0.02)},
        overhead=_cpu(0.14),
        others=_cpu(0.1),
        alone_launched=_estimate(0.75, 0.9, 1.05),
        alone_packed=_estimate(0.38, 0.4, 0.42),
        saved=SavedAnswer(work_by_sharing=0.5, cores_by_sharing=_cpu(0.1), cores_by_packing=_estimate(0.35, 0.5, 0.65)),
    ),
    shares=(
        ShareAnswer(
            tenant="ann",
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saved=_SAVED,
        ),
    ),
    dataflows=(
        ShareAnswer(
            tenant="ann",
            dataflow=DATAFLOW.id,
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saved=_SAVED,
        ),
    ),
    price_per_core_hour=0.05,
    currency="EUR",
)
_SHARE, _WHOLE = SAVINGS.shares[0], SAVINGS.whole
SERIES = SeriesAnswer(
    since=SAVINGS.since,
    until=SAVINGS.until,
    step=3_600,
    tenant="ann",
    points=(
        PointAnswer(
            at=SAVINGS.since,
            metered_seconds=3_600.0,
            measured=None if _WHOLE is None else _WHOLE.measured,
            alone_launched=None if _WHOLE is None else _WHOLE.alone_launched,
            alone_packed=None if _WHOLE is None else _WHOLE.alone_packed,
            share=_SHARE.share,
            alone=_SHARE.alone,
        ),
    ),
)


RUNNING_TASK_PAGE = Page[RunningTaskAnswer](
    items=(
        RunningTaskAnswer(
            instance=2,
            type="range_filter",
            job="1",
            state="active",
            inputs=(1,),
            dataflows=2,
            since=_THEN,
            dag=1,
            cpu_seconds=0.41,
            events_in=81_200,
            events_out=80_964,
            events_dead=0,
            state_bytes=0,
        ),
    )
)
RUNNING_DAG_PAGE = Page[RunningDagAnswer](items=(RunningDagAnswer(id=1, tasks=8, dataflows=3, jobs=("1",)),))
JOB = JobAnswer(
    job="1",
    host="main",
    version=3,
    in_effect=3,
    state="running",
    trouble="",
    active=8,
    paused=0,
    batch=812,
    batch_seconds_p50=0.061,
    batch_seconds_p99=0.118,
    events_in_per_second=99.8,
    events_out_per_second=1.7,
    lag_events=0,
    lag_seconds=0.0,
    latency_seconds_p50=0.713,
    latency_seconds_p99=1.281,
    seen=_THEN,
)
JOB_PAGE = Page[JobAnswer](items=(JOB,))
STREAM_PAGE = Page[StreamAnswer](items=(StreamAnswer(instance=2, port="out", producer="1", consumers=("2",)),))
HOST_PAGE = Page[HostAnswer](
    items=(
        HostAnswer(
            name="main",
            alive=True,
            jobs=("1", "2"),
            spools={},
            dropped=0,
            cpu={},
            cores=8.0,
            tags=("gpu",),
            image="gpu-large",
            release="1.0",
            seen=_THEN,
        ),
    )
)

MOVE = MoveAnswer(id="move-3", phase="preparing", since=_THEN, tasks=12, leaves=("1", "2", "5"), joins=("9",))
FRAGMENTATION = FragmentationAnswer(
    jobs=3,
    fewest=1,
    bridges=4,
    paused=2,
    hops=2,
    cores=0.14,
    latency_seconds=2.0,
    saves=SavesAnswer(
        sharing=0.31,
        packing=0.54,
        defragmenting=0.14,
        most="packing",
        work_per_batch_seconds=0.07,
        crossover_seconds=0.2,
    ),
    move=MOVE,
)
DEFRAGMENTATION_PREVIEW = DefragmentationPreviewAnswer(
    tasks=12,
    leaves=("1", "2", "5"),
    opens=("north",),
    jobs=1,
    bridges=0,
    planned=False,
    why="it was asked for. It is worth it: 0.310 cores become 0.170 and 2 bridges in a row become 0, which saves "
    "504.0 CPU seconds in 3600 s. Jobs to start: 1, tasks to move: 12, which costs 6.1 CPU seconds and interrupts "
    "these for 1.2 s.",
)


_TASK_TYPE = TaskTypeAnswer(
    name="count",
    version=1,
    summary="Counts the events of each key.",
    inputs=("in",),
    outputs=("out",),
    state=State.KEY,
    config={
        "type": "object",
        "title": "CountConfig",
        "properties": {"by": {"title": "By", "type": "array", "items": {"type": "string"}, "default": []}},
        "additionalProperties": False,
    },
)
TASK_TYPE_PAGE = Page[TaskTypeAnswer](items=(_TASK_TYPE,))


_TOO_SMALL = FieldError(
    pointer="/query/limit",
    code="wrong-value",
    message="the value should be greater than or equal to 1",
    remedy="change it to follow this rule",
)
_UNKNOWN = FieldError(
    pointer="/tasks/1/type",
    code="unknown-type",
    message="there is no task type 'range_fliter'",
    remedy="did you mean 'range_filter'?",
)
_OUTSIDE = FieldError(
    pointer="/ensure/unit",
    code="outside-domain",
    message="'unit' cannot be '\"kelvn\"'",
    remedy="it may be '\"celsius\"', '\"kelvin\"' or null",
)
_NO_WHEEL = FieldError(
    pointer="",
    code="not-a-wheel",
    message="this is no zip archive, or a damaged one",
    remedy="send the file `.whl` of a package as it is",
)
TROUBLE_EXAMPLES: dict[type[Trouble], Trouble] = {
    type(trouble): trouble
    for trouble in (
        Unauthenticated(),
        Forbidden("this is for operators only; ask one"),
        ForeignPage("a page from elsewhere sent the request"),
        NotFound("dataflow", DATAFLOW.id),
        MethodNotAllowed("PATCH", ["GET", "PUT", "DELETE"]),
        Conflict("there is a tenant 'ann' already; choose another name"),
        TooLarge(4 * 1024 * 1024),
        UnsupportedMediaType("Content-Type", "text/xml"),
        InvalidRequest([_TOO_SMALL]),
        InvalidDataflow([_UNKNOWN]),
        InvalidModule([_OUTSIDE]),
        InvalidWheel([_NO_WHEEL]),
        QuotaExceeded("60 submissions a minute are allowed; wait, or ask an operator for more", retry_after=12.0),
        TooManyRequests("tenant 'ann' may ask 6,000 times a minute; ask less often", retry_after=1.0),
        Unexpected("5e1f8a2b9c3d4e6f"),
        StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads"),
        NotTaken(),
        DatabaseAway(),
    )
}
