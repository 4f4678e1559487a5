"""Requests of the service: a pure function for each REST route."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from manager.answers.adaptations import AdaptationAnswer, ChoiceForm
from manager.answers.base import Page
from manager.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
)
from manager.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from manager.answers.jobs import (
    DefragmentationPreviewAnswer,
    FragmentationAnswer,
    HostAnswer,
    ImageAnswer,
    ImageForm,
    JobAnswer,
    MachineAnswer,
    MoveAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
    RunningDagAnswer,
    RunningTaskAnswer,
    StreamAnswer,
)
from manager.answers.overview import OperationAnswer, OperationKind, OverviewAnswer, TaskTypeAnswer
from manager.answers.pipelines import ModuleAnswer, ModuleDetail, ReplanAnswer, ReplanForm, WheelAnswer
from manager.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm
from manager.answers.savings import BillAnswer, SavingsAnswer, SeriesAnswer
from manager.answers.sources import (
    ProducerAnswer,
    SchemaAnswer,
    SchemaForm,
    SentAnswer,
    SourceAnswer,
    SourceForm,
    Stopped,
    VisibilityForm,
)
from manager.answers.tenants import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    PublishingForm,
    Quota,
    SecretAnswer,
    SecretForm,
    TenantAnswer,
    TenantForm,
)
from manager.client.errors import (
    IDEMPOTENCY_HEADER,
    Document,
    Request,
    document_body,
    form_body,
    given,
    list_request,
    path_to,
)
from planning.constraint import ModuleShape


def submit(document: Document, *, tenant: str | None, idempotency_key: str, start: Start) -> Request[SubmitAnswer]:
    """Submit a document. The service submits it once, however often the same key arrives."""
    return Request(
        method="POST",
        path="/v1/dataflows",
        answer=SubmitAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=document_body(document),
    )


def submit_together(
    documents: Sequence[Document], *, tenant: str | None, idempotency_key: str, start: Start
) -> Request[BundleAnswer]:
    """Submit documents together. The service submits them once, however often the same key arrives."""
    return Request(
        method="POST",
        path="/v1/dataflows/bundle",
        answer=BundleAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=_bundle_body(documents),
    )


def explain_together(
    documents: Sequence[Document], *, tenant: str | None, start: Start
) -> Request[BundleExplainAnswer]:
    """Preview documents submitted together."""
    query = given(tenant=tenant, start=_unless_default(start))
    return Request(
        method="POST", path="/v1/explain/bundle", answer=BundleExplainAnswer, query=query, body=_bundle_body(documents)
    )


def _bundle_body(documents: Sequence[Document]) -> bytes:
    return b'{"documents": [%b]}' % b", ".join(map(document_body, documents))


def dataflows(
    *,
    tenant: str | None,
    state: DataflowState | None,
    name: str | None,
    source: str | None,
    search: str | None,
) -> Request[Page[DataflowAnswer]]:
    """The caller's dataflows."""
    query = given(tenant=tenant, state=state, name=name, source=source, search=search)
    return list_request("/v1/dataflows", Page[DataflowAnswer], query)


def dataflow(dataflow: str) -> Request[DataflowDetail]:
    """One dataflow."""
    return Request(path=path_to("dataflows", dataflow), answer=DataflowDetail)


def replacement(dataflow: str, document: Document) -> Request[SubmitAnswer]:
    """Replace a dataflow's document."""
    return Request(method="PUT", path=path_to("dataflows", dataflow), answer=SubmitAnswer, body=document_body(document))


def removal(dataflow: str, how: Stop) -> Request[DataflowAnswer]:
    """Remove a dataflow."""
    return Request(method="DELETE", path=path_to("dataflows", dataflow), answer=DataflowAnswer, query=given(stop=how))


def preview_removal(dataflow: str) -> Request[RemovalAnswer]:
    """Preview a removal."""
    return Request(path=path_to("dataflows", dataflow, "removal"), answer=RemovalAnswer)


def explain(document: Document, *, tenant: str | None, start: Start) -> Request[ExplainAnswer]:
    """Preview a submission."""
    return Request(
        method="POST",
        path="/v1/explain",
        answer=ExplainAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        body=document_body(document),
    )


def _unless_default(start: Start) -> Start | None:
    """The start, if the service would not choose it by itself."""
    return None if start is Start.LATEST else start


def task_types(name: str | None) -> Request[Page[TaskTypeAnswer]]:
    """The task types, or the one of that name."""
    return list_request("/v1/task-types", Page[TaskTypeAnswer], given(name=name))


ONE_TIME_PREFIX = "~"
"""The prefix of a producer name that is used once."""


def register_source(form: SourceForm | bytes) -> Request[SourceAnswer]:
    """Register a source."""
    return Request(method="POST", path="/v1/sources", answer=SourceAnswer, body=form_body(form))


def sources() -> Request[Page[SourceAnswer]]:
    """The sources that the caller may read."""
    return list_request("/v1/sources", Page[SourceAnswer])


def source(name: str) -> Request[SourceAnswer]:
    """One source."""
    return Request(path=path_to("sources", name), answer=SourceAnswer)


def send_events(name: str, events: bytes, *, producer: str, first: int) -> Request[SentAnswer]:
    """Send events as JSON lines. The service takes each number of a producer once."""
    return Request(
        method="POST",
        path=path_to("sources", name, "events"),
        answer=SentAnswer,
        query={"producer": producer, "first": str(first)},
        headers={"Content-Type": "application/x-ndjson"},
        body=events,
    )


def producer(name: str, producer: str) -> Request[ProducerAnswer]:
    """The number of a producer's next event."""
    return Request(path=path_to("sources", name, "producers", producer), answer=ProducerAnswer)


def revoke_source(name: str) -> Request[Stopped]:
    """Revoke a source."""
    return Request(method="DELETE", path=path_to("sources", name), answer=Stopped)


def declare_fields(name: str, form: SchemaForm, *, dry_run: bool = False) -> Request[SchemaAnswer]:
    """Change the schema of a source."""
    return Request(
        method="PUT",
        path=path_to("sources", name, "schema"),
        answer=SchemaAnswer,
        body=form_body(form),
        query=given(dry_run="true" if dry_run else None),
    )


def set_visibility(name: str, form: VisibilityForm) -> Request[Stopped]:
    """Set who may read a source."""
    return Request(method="PUT", path=path_to("sources", name, "visibility"), answer=Stopped, body=form_body(form))


def reconfigure(
    dataflow: str, form: ReconfigurationForm, *, dry_run: bool, idempotency_key: str
) -> Request[ReconfigurationAnswer]:
    """Change tasks of a dataflow while they run, or preview that. It is done once, however often the key arrives."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "reconfigurations"),
        answer=ReconfigurationAnswer,
        query=given(dry_run="true" if dry_run else None),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=form_body(form),
    )


def reconfigurations(dataflow: str) -> Request[Page[ReconfigurationAnswer]]:
    """The reconfigurations of a dataflow."""
    return list_request(path_to("dataflows", dataflow, "reconfigurations"), Page[ReconfigurationAnswer])


def reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """One reconfiguration."""
    return Request(path=path_to("dataflows", dataflow, "reconfigurations", number), answer=ReconfigurationAnswer)


def cancellation(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """Cancel a reconfiguration."""
    path = path_to("dataflows", dataflow, "reconfigurations", number)
    return Request(method="DELETE", path=path, answer=ReconfigurationAnswer)


def undoing(dataflow: str, number: str, *, dry_run: bool, idempotency_key: str) -> Request[ReconfigurationAnswer]:
    """Undo a reconfiguration, or preview that. It is done once, however often the key arrives."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "reconfigurations", number, "undo"),
        answer=ReconfigurationAnswer,
        query=given(dry_run="true" if dry_run else None),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
    )


def replan(dataflow: str, form: ReplanForm, *, dry_run: bool) -> Request[ReplanAnswer]:
    """Plan a pipeline anew and apply the difference, or preview that."""
    return Request(
        method="POST",
        path=path_to("dataflows", dataflow, "replan"),
        answer=ReplanAnswer,
        query=given(dry_run="true" if dry_run else None),
        body=form_body(form),
    )


def adaptation(dataflow: str) -> Request[AdaptationAnswer]:
    """Show what a dynamic dataflow has chosen."""
    return Request(method="GET", path=path_to("dataflows", dataflow, "adaptation"), answer=AdaptationAnswer)


def set_policy(dataflow: str, policy: Document) -> Request[AdaptationAnswer]:
    """Replace the policy of a dynamic dataflow."""
    return Request(
        method="PUT",
        path=path_to("dataflows", dataflow, "policy"),
        answer=AdaptationAnswer,
        body=document_body(policy),
    )


def choose(dataflow: str, form: ChoiceForm) -> Request[AdaptationAnswer]:
    """Choose alternates and streams by hand."""
    return Request(
        method="PUT", path=path_to("dataflows", dataflow, "choice"), answer=AdaptationAnswer, body=form_body(form)
    )


def publish_module(form: Document) -> Request[ModuleDetail]:
    """Publish a version of a module."""
    return Request(method="POST", path="/v1/modules", answer=ModuleDetail, body=document_body(form))


def modules(
    *, tenant: str | None, name: str | None, shape: ModuleShape | None, tag: str | None, deprecated: bool | None
) -> Request[Page[ModuleAnswer]]:
    """The versions of modules that the caller may use."""
    wanted = None if deprecated is None else str(deprecated).lower()
    query = given(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=wanted)
    return list_request("/v1/modules", Page[ModuleAnswer], query)


def module_versions(name: str, tenant: str | None) -> Request[Page[ModuleAnswer]]:
    """The versions of one module."""
    return list_request(path_to("modules", name), Page[ModuleAnswer], given(tenant=tenant))


def module(name: str, version: int, tenant: str | None) -> Request[ModuleDetail]:
    """One version of a module."""
    return Request(path=path_to("modules", name, str(version)), answer=ModuleDetail, query=given(tenant=tenant))


def deprecate_module(name: str, version: int, tenant: str | None) -> Request[ModuleAnswer]:
    """Deprecate a version."""
    path = path_to("modules", name, str(version), "deprecate")
    return Request(method="POST", path=path, answer=ModuleAnswer, query=given(tenant=tenant))


def vouch_for_module(name: str, version: int, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version."""
    path = path_to("modules", name, str(version), "vouch")
    return Request(method="POST", path=path, answer=ModuleAnswer, query=given(tenant=tenant))


def withdraw_vouch(name: str, version: int, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version no longer."""
    path = path_to("modules", name, str(version), "vouch")
    return Request(method="DELETE", path=path, answer=ModuleAnswer, query=given(tenant=tenant))


def put_wheel(content: bytes) -> Request[WheelAnswer]:
    """Send a wheel."""
    return Request(
        method="PUT",
        path=path_to("wheels", sha256(content).hexdigest()),
        answer=WheelAnswer,
        headers={"Content-Type": "application/octet-stream"},
        body=content,
    )


def wheels(tenant: str | None) -> Request[Page[WheelAnswer]]:
    """The caller's wheels."""
    return list_request("/v1/wheels", Page[WheelAnswer], given(tenant=tenant))


def remove_wheel(digest: str, tenant: str | None) -> Request[WheelAnswer]:
    """Remove a wheel."""
    return Request(method="DELETE", path=path_to("wheels", digest), answer=WheelAnswer, query=given(tenant=tenant))


def dead_letters(*, dataflow: str | None) -> Request[Page[DeadLetterAnswer]]:
    """The dead letters of the caller's dataflows."""
    return list_request("/v1/dead-letters", Page[DeadLetterAnswer], given(dataflow=dataflow))


def dead_letter_groups(*, dataflow: str | None) -> Request[Page[DeadLetterGroupAnswer]]:
    """The same by task and reason."""
    return list_request("/v1/dead-letters/groups", Page[DeadLetterGroupAnswer], given(dataflow=dataflow))


def replay_dead_letter(letter: int, *, alike: bool) -> Request[Replayed]:
    """Replay one dead letter."""
    return Request(
        method="POST",
        path=path_to("dead-letters", str(letter), "replay"),
        answer=Replayed,
        query=given(alike="true" if alike else None),
    )


def replay_dead_letters(dataflow: str) -> Request[Replayed]:
    """Replay the dead letters of a dataflow."""
    return Request(method="POST", path="/v1/dead-letters/replay", answer=Replayed, query=given(dataflow=dataflow))


def discard_dead_letter(letter: int, *, alike: bool) -> Request[Discarded]:
    """Discard one dead letter."""
    return Request(
        method="DELETE",
        path=path_to("dead-letters", str(letter)),
        answer=Discarded,
        query=given(alike="true" if alike else None),
    )


def discard_dead_letters(dataflow: str) -> Request[Discarded]:
    """Discard the dead letters of a dataflow."""
    return Request(method="DELETE", path="/v1/dead-letters", answer=Discarded, query=given(dataflow=dataflow))


def savings(
    *,
    since: datetime | None,
    until: datetime | None,
    tenant: str | None,
    dataflow: str | None,
) -> Request[SavingsAnswer]:
    """The savings of an interval."""
    query = given(**_times(since, until), tenant=tenant, dataflow=dataflow)
    return Request(path="/v1/reports/savings", answer=SavingsAnswer, query=query)


def savings_series(
    *,
    since: datetime | None,
    until: datetime | None,
    step: int | None,
    tenant: str | None,
) -> Request[SeriesAnswer]:
    """The savings of each step of an interval."""
    query = given(**_times(since, until), step=None if step is None else str(step), tenant=tenant)
    return Request(path="/v1/reports/savings/series", answer=SeriesAnswer, query=query)


def bill(*, since: datetime | None, until: datetime | None, tenant: str | None) -> Request[BillAnswer]:
    """The costs of each tenant and dataflow in an interval of whole hours."""
    query = given(**_times(since, until), tenant=tenant)
    return Request(path="/v1/reports/bills", answer=BillAnswer, query=query)


def operations(*, kind: OperationKind | None, subject: str | None) -> Request[Page[OperationAnswer]]:
    """The journal."""
    return list_request("/v1/operations", Page[OperationAnswer], given(kind=kind, subject=subject))


def _times(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    return {name: None if at is None else at.isoformat() for name, at in (("from", since), ("to", until))}


def running_tasks(job: str | None) -> Request[Page[RunningTaskAnswer]]:
    """The running graph."""
    return list_request("/v1/running/tasks", Page[RunningTaskAnswer], given(job=job))


def running_dags() -> Request[Page[RunningDagAnswer]]:
    """The running DAGs."""
    return list_request("/v1/running/dags", Page[RunningDagAnswer])


def jobs() -> Request[Page[JobAnswer]]:
    """The jobs."""
    return list_request("/v1/jobs", Page[JobAnswer])


def job(name: str) -> Request[JobAnswer]:
    """One job."""
    return Request(path=path_to("jobs", name), answer=JobAnswer)


def streams() -> Request[Page[StreamAnswer]]:
    """The derived streams that cross jobs."""
    return list_request("/v1/streams", Page[StreamAnswer])


def hosts() -> Request[Page[HostAnswer]]:
    """The hosts."""
    return list_request("/v1/hosts", Page[HostAnswer])


def overview() -> Request[OverviewAnswer]:
    """Counts of dataflows, tasks and jobs."""
    return Request(path="/v1/overview", answer=OverviewAnswer)


def fragmentation() -> Request[FragmentationAnswer]:
    """The fragmentation of the jobs."""
    return Request(path="/v1/fragmentation", answer=FragmentationAnswer)


def preview_defragmentation() -> Request[DefragmentationPreviewAnswer]:
    """What a defragmentation would do."""
    return Request(path="/v1/defragmentations/preview", answer=DefragmentationPreviewAnswer)


def defragment() -> Request[MoveAnswer]:
    """Consolidate the jobs, or relieve an overloaded one."""
    return Request(method="POST", path="/v1/defragmentations", answer=MoveAnswer)


def machines() -> Request[Page[MachineAnswer]]:
    """The machines."""
    return list_request("/v1/machines", Page[MachineAnswer])


def admit_machine(name: str, key: str | None) -> Request[MachineAnswer]:
    """Admit a machine that waits."""
    path = path_to("machines", name, "admit")
    return Request(method="POST", path=path, query=given(key=key), answer=MachineAnswer)


def drain_machine(name: str) -> Request[MachineAnswer]:
    """Have a machine give up its hosts."""
    return Request(method="POST", path=path_to("machines", name, "drain"), answer=MachineAnswer)


def undrain_machine(name: str) -> Request[MachineAnswer]:
    """Let a machine take hosts again."""
    return Request(method="DELETE", path=path_to("machines", name, "drain"), answer=MachineAnswer)


def forget_machine(name: str) -> Request[MachineAnswer]:
    """Forget a machine that is gone for good."""
    return Request(method="DELETE", path=path_to("machines", name), answer=MachineAnswer)


def images() -> Request[Page[ImageAnswer]]:
    """The registered images."""
    return list_request("/v1/images", Page[ImageAnswer])


def put_image(name: str, form: ImageForm) -> Request[ImageAnswer]:
    """Register or change an image."""
    return Request(method="PUT", path=path_to("images", name), answer=ImageAnswer, body=form_body(form))


def remove_image(name: str) -> Request[ImageAnswer]:
    """Remove an image."""
    return Request(method="DELETE", path=path_to("images", name), answer=ImageAnswer)


def explain_placement(dataflow: str, task: str | None) -> Request[PlacementAnswer]:
    """Where a dataflow runs, and why."""
    return Request(path=path_to("dataflows", dataflow, "placement"), query=given(task=task), answer=PlacementAnswer)


def export_placement(dataflow: str) -> Request[PlacementPddlAnswer]:
    """The placement of a dataflow as PDDL."""
    return Request(path=path_to("dataflows", dataflow, "placement", "pddl"), answer=PlacementPddlAnswer)


def check_placement_plan(dataflow: str, form: PlacementPlanForm) -> Request[PlacementPlanAnswer]:
    """What a plan makes of a dataflow."""
    path = path_to("dataflows", dataflow, "placement", "plan")
    return Request(method="POST", path=path, answer=PlacementPlanAnswer, body=form_body(form))


def admit(form: TenantForm) -> Request[TenantAnswer]:
    """Admit a tenant."""
    return Request(method="POST", path="/v1/tenants", answer=TenantAnswer, body=form_body(form))


def tenants() -> Request[Page[TenantAnswer]]:
    """The tenants that the caller may see."""
    return list_request("/v1/tenants", Page[TenantAnswer])


def set_quota(tenant: str, quota: Quota) -> Request[TenantAnswer]:
    """Set what a tenant may use."""
    return Request(method="PUT", path=path_to("tenants", tenant, "quota"), answer=TenantAnswer, body=form_body(quota))


def set_publishing(tenant: str, form: PublishingForm) -> Request[TenantAnswer]:
    """Set whether a tenant may publish code."""
    return Request(
        method="PUT", path=path_to("tenants", tenant, "publishing"), answer=TenantAnswer, body=form_body(form)
    )


def make_credentials(tenant: str) -> Request[BrokerCredentials]:
    """Make a tenant's broker credentials."""
    return Request(method="POST", path=path_to("tenants", tenant, "credentials"), answer=BrokerCredentials)


def make_key(form: KeyForm) -> Request[NewKeyAnswer]:
    """Make an API key."""
    return Request(method="POST", path="/v1/keys", answer=NewKeyAnswer, body=form_body(form))


def keys() -> Request[Page[KeyAnswer]]:
    """The caller's API keys."""
    return list_request("/v1/keys", Page[KeyAnswer])


def revoke_key(key: str) -> Request[KeyAnswer]:
    """Revoke an API key."""
    return Request(method="DELETE", path=path_to("keys", key), answer=KeyAnswer)


def put_secret(name: str, form: SecretForm, tenant: str | None) -> Request[SecretAnswer]:
    """Store a secret."""
    path, query = path_to("secrets", name), given(tenant=tenant)
    return Request(method="PUT", path=path, answer=SecretAnswer, query=query, body=form_body(form))


def secrets(tenant: str | None) -> Request[Page[SecretAnswer]]:
    """The names of secrets."""
    return list_request("/v1/secrets", Page[SecretAnswer], given(tenant=tenant))


def remove_secret(name: str, tenant: str | None) -> Request[SecretAnswer]:
    """Remove a secret."""
    return Request(method="DELETE", path=path_to("secrets", name), answer=SecretAnswer, query=given(tenant=tenant))
