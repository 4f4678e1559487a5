"""Examples for OpenAPI: what a city and its tenant ann send, and what they are answered."""

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from dags import Document, Kind, Visibility
from manager.answers import (
    BrokerCredentials,
    CpuAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DeadLetterAnswer,
    Discarded,
    EstimateAnswer,
    EventAnswer,
    ExplainAnswer,
    FragmentationAnswer,
    HostAnswer,
    JobAnswer,
    KeyAnswer,
    KeyForm,
    MoveAnswer,
    NewKeyAnswer,
    OperationAnswer,
    OperationKind,
    OutputAnswer,
    Page,
    Quota,
    Replayed,
    Role,
    RunningDagAnswer,
    RunningTaskAnswer,
    SavesAnswer,
    Saving,
    SavingsAnswer,
    SecretAnswer,
    SecretForm,
    SessionAnswer,
    SessionEnded,
    SessionForm,
    ShareAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    StreamAnswer,
    SubmitAnswer,
    TaskAnswer,
    TenantAnswer,
    TenantForm,
    TopicConnection,
    VisibilityForm,
    WholeAnswer,
)
from manager.problem import (
    Conflict,
    DatabaseAway,
    FieldError,
    Forbidden,
    ForeignPage,
    InvalidDataflow,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)
from merge import Basis

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
        cores=0.0612,
        task_cores=0.0012,
        batch_cores=0.06,
        rests_on={Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 0},
        work=0.375,
        work_rests_on={Basis.MEASURED: 1, Basis.TYPE: 2, Basis.ASSUMED: 0},
    ),
)
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
)
SOURCE_PAGE = Page[SourceAnswer](items=(SOURCE_ANSWER,))
STOPPED = Stopped(dataflows=1)

TENANT = TenantAnswer(name="ann", quota=Quota(), dataflows=1, tasks=4, created=_THEN)
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


def _cpu(cores: float) -> CpuAnswer:
    """For an hour."""
    return CpuAnswer(cpu_ns=round(cores * 3_600) * 10**9, cores=cores, price=round(cores * 0.05, 6))


def _estimate(low: float, likely: float, high: float) -> EstimateAnswer:
    return EstimateAnswer(low=low, likely=likely, high=high, price=round(likely * 0.05, 6))


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
        saving_by_sharing=_estimate(0.08, 0.1, 0.12),
        saving_by_packing=_estimate(0.37, 0.5, 0.63),
        work_saved=0.21,
    ),
    shares=(
        ShareAnswer(
            tenant="ann",
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saving=_estimate(0.04, 0.06, 0.08),
            work_saved=0.375,
        ),
    ),
    dataflows=(
        ShareAnswer(
            tenant="ann",
            dataflow=_ID,
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saving=_estimate(0.04, 0.06, 0.08),
            work_saved=0.375,
        ),
    ),
    price_per_core_hour=0.05,
    currency="EUR",
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
DISCARDED = Discarded(dead_letters=3)
REPLAYED = Replayed(dead_letters=3, events=41)
EVENT_ANSWER = EventAnswer(id=17, kind="operation", told=OPERATION.model_dump(mode="json"))

BODY_EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    Document: DOCUMENT,
    KeyForm: {"tenant": "ann", "note": "for the dashboard"},
    Quota: {"dataflows": 100, "tasks": 2_000, "submits_per_minute": 60},
    SecretForm: {"secret": "postgresql://ann:hush@warehouse.example/readings"},
    SessionForm: {"key": NEW_KEY.key},
    SourceForm: {
        "name": "street",
        "connection": {"kind": "topic", "topic": "city/street"},
        "schema": {"sensor": "string", "temperature": "float"},
        "visibility": "named",
        "readers": ["ann"],
    },
    TenantForm: {"name": "ann"},
    VisibilityForm: {"visibility": "public"},
}
"""What is sent, by its form."""

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
TROUBLE_EXAMPLES: dict[type[Trouble], Trouble] = {
    type(trouble): trouble
    for trouble in (
        Unauthenticated(),
        Forbidden("this is for operators only; ask one"),
        ForeignPage("a page from elsewhere sent the request"),
        NotFound("dataflow", _ID),
        MethodNotAllowed("PATCH", ["GET", "PUT", "DELETE"]),
        Conflict("there is a tenant 'ann' already; choose another name"),
        TooLarge(4 * 1024 * 1024),
        UnsupportedMediaType("Content-Type", "text/xml"),
        InvalidRequest([_TOO_SMALL]),
        InvalidDataflow([_UNKNOWN]),
        QuotaExceeded("60 submissions a minute are allowed; wait, or ask an operator for more", retry_after=12.0),
        Unexpected("5e1f8a2b9c3d4e6f"),
        StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads"),
        NotTaken(),
        DatabaseAway(),
    )
}
"""One of each kind."""
