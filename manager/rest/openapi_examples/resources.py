"""Examples of requests and answers: of a city, and of its tenant ann."""

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from dags import Document, Kind, Visibility
from manager.answers import (
    BrokerCredentials,
    BundleAnswer,
    BundleExplainAnswer,
    BundleForm,
    ChoiceForm,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DeadLetterAnswer,
    DeadLetterGroupAnswer,
    DependentAnswer,
    Discarded,
    EventAnswer,
    ExplainAnswer,
    ImageForm,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    OperationAnswer,
    OperationKind,
    OutputAnswer,
    Page,
    PlacementPlanForm,
    PolicyForm,
    PublishingForm,
    Quota,
    QuotaUse,
    ReceivedAnswer,
    ReconfigurationForm,
    RejectedAnswer,
    ReplanForm,
    Replayed,
    Role,
    Saving,
    SchemaAnswer,
    SchemaForm,
    SecretAnswer,
    SecretForm,
    SessionAnswer,
    SessionEnded,
    SessionForm,
    SourceAnswer,
    SourceForm,
    Stopped,
    SubmitAnswer,
    TaskAnswer,
    TenantAnswer,
    TenantForm,
    TopicConnection,
    VisibilityForm,
)
from manager.rest.openapi_examples.modules import MODULE_FORM
from merge import Basis
from planning.forms.module_form import ModuleForm

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
