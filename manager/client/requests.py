"""Requests of the service: a function for each REST route, with what callers of the method of that name read."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import TypeVar

from pydantic import BaseModel

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
    ProposalAnswer,
    ProposalForm,
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
from manager.client.errors import IDEMPOTENCY_HEADER, Document, Method, Request, path_to
from planning.constraint import ModuleShape

A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
_PAGE_SIZE = 100
ONE_TIME_PREFIX = "~"
"""The prefix of a producer name that is used once."""


def _request(
    method: Method,
    answer: type[A],
    *path: str | int,
    body: BaseModel | Document | None = None,
    headers: Mapping[str, str] | None = None,
    **query: str | int | datetime | None,
) -> Request[A]:
    """A request; of the query what is None is left out, and of a form what is left to the service's defaults."""
    return Request(
        method=method,
        path=path_to(*map(str, path)),
        answer=answer,
        query=_query(query),
        headers=headers or {},
        body=None if body is None else _body(body),
    )


def _get(answer: type[A], *path: str | int, **query: str | int | datetime | None) -> Request[A]:
    return Request(method="GET", path=path_to(*map(str, path)), answer=answer, query=_query(query))


def _list(answer: type[Page[P]], *path: str | int, **query: str | int | datetime | None) -> Request[Page[P]]:
    return _get(answer, *path, **query, limit=_PAGE_SIZE)


def _query(query: Mapping[str, str | int | datetime | None]) -> dict[str, str]:
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: str | int | datetime) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _body(content: BaseModel | Document) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, BaseModel):
        return content.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return json.dumps(content, ensure_ascii=False).encode()


def _bundle(documents: Sequence[Document]) -> bytes:
    return b'{"documents": [%b]}' % b", ".join(map(_body, documents))


def _once(idempotency_key: str | None) -> dict[str, str]:
    """The header by which the service does a request once, however often it arrives."""
    return {IDEMPOTENCY_HEADER: idempotency_key or token_urlsafe()}


def _begin(start: Start) -> Start | None:
    """The start, if the service would not choose it by itself."""
    return None if start is Start.LATEST else start


def _interval(since: datetime | None, until: datetime | None) -> dict[str, datetime | None]:
    return {"from": since, "to": until}


def submit(
    document: Document, *, tenant: str | None = None, idempotency_key: str | None = None, start: Start = Start.LATEST
) -> Request[SubmitAnswer]:
    """Submit a document, once even if it has to be sent again; operators name the tenant."""
    headers, begin = _once(idempotency_key), _begin(start)
    return _request("POST", SubmitAnswer, "dataflows", body=document, headers=headers, tenant=tenant, start=begin)


def submit_together(
    documents: Sequence[Document],
    *,
    tenant: str | None = None,
    idempotency_key: str | None = None,
    start: Start = Start.LATEST,
) -> Request[BundleAnswer]:
    """Submit all documents or none, planned so that they share most; once even if they have to be sent again."""
    headers, body, begin = _once(idempotency_key), _bundle(documents), _begin(start)
    return _request("POST", BundleAnswer, "dataflows", "bundle", body=body, headers=headers, tenant=tenant, start=begin)


def explain(
    document: Document, *, tenant: str | None = None, start: Start = Start.LATEST, draft: bool = False
) -> Request[ExplainAnswer]:
    """Preview a submission: what it would reuse, start and save. A draft is answered even if it has problems."""
    begin, asked = _begin(start), draft or None
    return _request("POST", ExplainAnswer, "explain", body=document, tenant=tenant, start=begin, draft=asked)


def explain_together(
    documents: Sequence[Document], *, tenant: str | None = None, start: Start = Start.LATEST
) -> Request[BundleExplainAnswer]:
    """Preview what submitting documents together would reuse, start and save."""
    body = _bundle(documents)
    return _request("POST", BundleExplainAnswer, "explain", "bundle", body=body, tenant=tenant, start=_begin(start))


def replace(dataflow: str, document: Document) -> Request[SubmitAnswer]:
    """Replace a dataflow's document by an edited one, as one change."""
    return _request("PUT", SubmitAnswer, "dataflows", dataflow, body=document)


def remove(dataflow: str, how: Stop = Stop.NOW) -> Request[DataflowAnswer]:
    """Remove a dataflow."""
    return _request("DELETE", DataflowAnswer, "dataflows", dataflow, stop=how)


def preview_removal(dataflow: str) -> Request[RemovalAnswer]:
    """Preview a removal: the tasks that it would stop, and those that others keep."""
    return _get(RemovalAnswer, "dataflows", dataflow, "removal")


def dataflow(dataflow: str) -> Request[DataflowDetail]:
    """One dataflow with its document and tasks."""
    return _get(DataflowDetail, "dataflows", dataflow)


def dataflows(
    *,
    tenant: str | None = None,
    state: DataflowState | None = None,
    name: str | None = None,
    source: str | None = None,
    search: str | None = None,
) -> Request[Page[DataflowAnswer]]:
    """The caller's dataflows, oldest first."""
    return _list(Page[DataflowAnswer], "dataflows", tenant=tenant, state=state, name=name, source=source, search=search)


def reconfigure(
    dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Request[ReconfigurationAnswer]:
    """Change tasks of a dataflow while they run, with their states, once even if sent again; or preview that.

    If others are in its way its state is `waiting`, and it begins by itself.
    """
    path, headers = ("dataflows", dataflow, "reconfigurations"), _once(idempotency_key)
    return _request("POST", ReconfigurationAnswer, *path, body=form, headers=headers, dry_run=dry_run or None)


def reconfigurations(dataflow: str) -> Request[Page[ReconfigurationAnswer]]:
    """The reconfigurations of a dataflow, newest first."""
    return _list(Page[ReconfigurationAnswer], "dataflows", dataflow, "reconfigurations")


def reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """One reconfiguration of a dataflow."""
    return _get(ReconfigurationAnswer, "dataflows", dataflow, "reconfigurations", number)


def cancel_reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """Cancel a reconfiguration that waits or prepares; once its first task has switched it is too late."""
    return _request("DELETE", ReconfigurationAnswer, "dataflows", dataflow, "reconfigurations", number)


def undo_reconfiguration(
    dataflow: str, number: str, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Request[ReconfigurationAnswer]:
    """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
    path, headers = ("dataflows", dataflow, "reconfigurations", number, "undo"), _once(idempotency_key)
    return _request("POST", ReconfigurationAnswer, *path, headers=headers, dry_run=dry_run or None)


def replan(dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> Request[ReplanAnswer]:
    """Plan a running pipeline again and apply the difference; or preview that."""
    return _request("POST", ReplanAnswer, "dataflows", dataflow, "replan", body=form, dry_run=dry_run or None)


def adaptation(dataflow: str) -> Request[AdaptationAnswer]:
    """What a dynamic dataflow has chosen, and by which figures."""
    return _get(AdaptationAnswer, "dataflows", dataflow, "adaptation")


def set_policy(dataflow: str, policy: Document) -> Request[AdaptationAnswer]:
    """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
    return _request("PUT", AdaptationAnswer, "dataflows", dataflow, "policy", body=policy)


def choose(dataflow: str, choose: Mapping[str, str | bool]) -> Request[AdaptationAnswer]:
    """Choose alternates and streams by hand. What is left out is left to the service again."""
    form = ChoiceForm(choose=dict(choose))
    return _request("PUT", AdaptationAnswer, "dataflows", dataflow, "choice", body=form)


def publish_module(form: Document) -> Request[ModuleDetail]:
    """Publish a version of a module; the same text again changes nothing."""
    return _request("POST", ModuleDetail, "modules", body=form)


def modules(
    *,
    tenant: str | None = None,
    name: str | None = None,
    shape: ModuleShape | None = None,
    tag: str | None = None,
    deprecated: bool | None = None,
) -> Request[Page[ModuleAnswer]]:
    """The versions of modules that the caller may use, in the order of publication."""
    return _list(Page[ModuleAnswer], "modules", tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)


def module_versions(name: str, *, tenant: str | None = None) -> Request[Page[ModuleAnswer]]:
    """The versions of a module, oldest first."""
    return _list(Page[ModuleAnswer], "modules", name, tenant=tenant)


def module(name: str, version: int, *, tenant: str | None = None) -> Request[ModuleDetail]:
    """One version of a module with its form; operators name the tenant whose it is."""
    return _get(ModuleDetail, "modules", name, version, tenant=tenant)


def deprecate_module(name: str, version: int, *, tenant: str | None = None) -> Request[ModuleAnswer]:
    """Deprecate a version: from now on only pipelines that name it or hold it use it."""
    return _request("POST", ModuleAnswer, "modules", name, version, "deprecate", tenant=tenant)


def vouch_for_module(name: str, version: int, *, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version of a tenant's code; operators only."""
    return _request("POST", ModuleAnswer, "modules", name, version, "vouch", tenant=tenant)


def withdraw_vouch(name: str, version: int, *, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version no longer; operators only."""
    return _request("DELETE", ModuleAnswer, "modules", name, version, "vouch", tenant=tenant)


def put_wheel(content: bytes) -> Request[WheelAnswer]:
    """Send a wheel that code will import from, before the module that requires it."""
    headers = {"Content-Type": "application/octet-stream"}
    return _request("PUT", WheelAnswer, "wheels", sha256(content).hexdigest(), body=content, headers=headers)


def wheels(*, tenant: str | None = None) -> Request[Page[WheelAnswer]]:
    """The wheels that were sent, in their order; operators see everybody's."""
    return _list(Page[WheelAnswer], "wheels", tenant=tenant)


def remove_wheel(digest: str, *, tenant: str | None = None) -> Request[WheelAnswer]:
    """Remove a wheel that no module requires."""
    return _request("DELETE", WheelAnswer, "wheels", digest, tenant=tenant)


def register_source(form: SourceForm | bytes) -> Request[SourceAnswer]:
    """Register a source; bytes, such as those of a file, are sent as they are."""
    return _request("POST", SourceAnswer, "sources", body=form)


def propose_source(form: ProposalForm) -> Request[ProposalAnswer]:
    """Listen to a topic for some seconds, and propose a source whose schema takes what came."""
    path, patience = path_to("sources", "propose"), 30.0 + form.seconds
    return Request(method="POST", path=path, answer=ProposalAnswer, body=_body(form), patience=patience)


def sources() -> Request[Page[SourceAnswer]]:
    """The sources that the caller may read."""
    return _list(Page[SourceAnswer], "sources")


def source(name: str) -> Request[SourceAnswer]:
    """One source."""
    return _get(SourceAnswer, "sources", name)


def send_events(source: str, events: bytes, producer: str | None = None, first: int = 0) -> Request[SentAnswer]:
    """Send events as JSON lines, once even if they have to be sent again; without a producer all are new."""
    name = producer or f"{ONE_TIME_PREFIX}{token_hex(8)}"
    headers = {"Content-Type": "application/x-ndjson"}
    path = ("sources", source, "events")
    return _request("POST", SentAnswer, *path, body=events, headers=headers, producer=name, first=first)


def producer(source: str, producer: str) -> Request[ProducerAnswer]:
    """The number of a producer's next event in a source."""
    return _get(ProducerAnswer, "sources", source, "producers", producer)


def set_visibility(name: str, form: VisibilityForm) -> Request[Stopped]:
    """Set who may read a source; the answer counts the dataflows that this stopped."""
    return _request("PUT", Stopped, "sources", name, "visibility", body=form)


def declare_fields(name: str, form: SchemaForm, *, dry_run: bool = False) -> Request[SchemaAnswer]:
    """Change the schema of a source; running dataflows keep the one that they were submitted with."""
    return _request("PUT", SchemaAnswer, "sources", name, "schema", body=form, dry_run=dry_run or None)


def revoke_source(name: str) -> Request[Stopped]:
    """Revoke a source; the answer counts the dataflows that this stopped."""
    return _request("DELETE", Stopped, "sources", name)


def task_types(*, name: str | None = None) -> Request[Page[TaskTypeAnswer]]:
    """The installed task types, or the one of that name, which may be in a namespace."""
    return _list(Page[TaskTypeAnswer], "task-types", name=name)


def dead_letters(*, dataflow: str | None = None) -> Request[Page[DeadLetterAnswer]]:
    """The events that tasks of the caller's dataflows could not process, newest first."""
    return _list(Page[DeadLetterAnswer], "dead-letters", dataflow=dataflow)


def dead_letter_groups(*, dataflow: str | None = None) -> Request[Page[DeadLetterGroupAnswer]]:
    """These events by task and reason, the group with the newest first."""
    return _list(Page[DeadLetterGroupAnswer], "dead-letters", "groups", dataflow=dataflow)


def replay_dead_letter(letter: int, *, alike: bool = False) -> Request[Replayed]:
    """Replay one dead letter or its whole group, once; only operators may if others use its task too."""
    return _request("POST", Replayed, "dead-letters", letter, "replay", alike=alike or None)


def replay_dead_letters(dataflow: str) -> Request[Replayed]:
    """Replay the dead letters of a dataflow, oldest first; `left` counts those that remain."""
    return _request("POST", Replayed, "dead-letters", "replay", dataflow=dataflow)


def discard_dead_letter(letter: int, *, alike: bool = False) -> Request[Discarded]:
    """Discard one dead letter or its whole group: a tenant for itself, an operator for everyone."""
    return _request("DELETE", Discarded, "dead-letters", letter, alike=alike or None)


def discard_dead_letters(dataflow: str) -> Request[Discarded]:
    """Discard the dead letters of a dataflow, even a removed one; an operator does so for everyone."""
    return _request("DELETE", Discarded, "dead-letters", dataflow=dataflow)


def running_tasks(*, job: str | None = None) -> Request[Page[RunningTaskAnswer]]:
    """The running graph, or one job's part of it, by instance; operators only."""
    return _list(Page[RunningTaskAnswer], "running", "tasks", job=job)


def running_dags() -> Request[Page[RunningDagAnswer]]:
    """The running DAGs; operators only."""
    return _list(Page[RunningDagAnswer], "running", "dags")


def jobs() -> Request[Page[JobAnswer]]:
    """The jobs; operators only."""
    return _list(Page[JobAnswer], "jobs")


def job(name: str) -> Request[JobAnswer]:
    """One job; operators only."""
    return _get(JobAnswer, "jobs", name)


def streams() -> Request[Page[StreamAnswer]]:
    """The derived streams that cross jobs; operators only."""
    return _list(Page[StreamAnswer], "streams")


def hosts() -> Request[Page[HostAnswer]]:
    """The hosts; operators only."""
    return _list(Page[HostAnswer], "hosts")


def overview() -> Request[OverviewAnswer]:
    """Counts of dataflows, tasks and jobs by state: of all tenants for an operator, its own for a tenant."""
    return _get(OverviewAnswer, "overview")


def fragmentation() -> Request[FragmentationAnswer]:
    """The fragmentation of the jobs; operators only."""
    return _get(FragmentationAnswer, "fragmentation")


def preview_defragmentation() -> Request[DefragmentationPreviewAnswer]:
    """What `defragment` would do now; nothing is moved; operators only."""
    return _get(DefragmentationPreviewAnswer, "defragmentations", "preview")


def defragment() -> Request[MoveAnswer]:
    """Consolidate the jobs now, or relieve an overloaded one; the journal has the outcome; operators only."""
    return _request("POST", MoveAnswer, "defragmentations")


def explain_placement(dataflow: str, *, task: str | None = None) -> Request[PlacementAnswer]:
    """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

    For one task that only this dataflow uses, also where else it could be.
    """
    return _get(PlacementAnswer, "dataflows", dataflow, "placement", task=task)


def export_placement(dataflow: str) -> Request[PlacementPddlAnswer]:
    """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
    return _get(PlacementPddlAnswer, "dataflows", dataflow, "placement", "pddl")


def check_placement_plan(dataflow: str, form: PlacementPlanForm) -> Request[PlacementPlanAnswer]:
    """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
    return _request("POST", PlacementPlanAnswer, "dataflows", dataflow, "placement", "plan", body=form)


def savings(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tenant: str | None = None,
    dataflow: str | None = None,
) -> Request[SavingsAnswer]:
    """The savings by sharing in an interval, by default the last hour; a tenant sees its own."""
    return _get(SavingsAnswer, "reports", "savings", **_interval(since, until), tenant=tenant, dataflow=dataflow)


def savings_series(
    *, since: datetime | None = None, until: datetime | None = None, step: int | None = None, tenant: str | None = None
) -> Request[SeriesAnswer]:
    """The savings by sharing in each step of an interval, by default the last hour; `step` is in seconds."""
    return _get(SeriesAnswer, "reports", "savings", "series", **_interval(since, until), step=step, tenant=tenant)


def bill(
    *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
) -> Request[BillAnswer]:
    """The costs of each tenant and dataflow in whole hours, by default this month so far."""
    return _get(BillAnswer, "reports", "bills", **_interval(since, until), tenant=tenant)


def operations(*, kind: OperationKind | None = None, subject: str | None = None) -> Request[Page[OperationAnswer]]:
    """The journal, newest first."""
    return _list(Page[OperationAnswer], "operations", kind=kind, subject=subject)


def machines() -> Request[Page[MachineAnswer]]:
    """The machines with the hosts that they carry; operators only."""
    return _list(Page[MachineAnswer], "machines")


def admit_machine(name: str, *, key: str | None = None) -> Request[MachineAnswer]:
    """Admit a machine that waits, if it has this public key; operators only."""
    return _request("POST", MachineAnswer, "machines", name, "admit", key=key)


def drain_machine(name: str) -> Request[MachineAnswer]:
    """Have a machine give up all hosts that it carries, and take none; operators only."""
    return _request("POST", MachineAnswer, "machines", name, "drain")


def undrain_machine(name: str) -> Request[MachineAnswer]:
    """Let a machine take hosts again; operators only."""
    return _request("DELETE", MachineAnswer, "machines", name, "drain")


def forget_machine(name: str) -> Request[MachineAnswer]:
    """Forget a machine that is gone for good; operators only. The machine as it was."""
    return _request("DELETE", MachineAnswer, "machines", name)


def images() -> Request[Page[ImageAnswer]]:
    """The registered images with their hosts; operators only."""
    return _list(Page[ImageAnswer], "images")


def put_image(name: str, form: ImageForm) -> Request[ImageAnswer]:
    """Register an image, or change it; operators only."""
    return _request("PUT", ImageAnswer, "images", name, body=form)


def remove_image(name: str) -> Request[ImageAnswer]:
    """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
    return _request("DELETE", ImageAnswer, "images", name)


def admit(form: TenantForm) -> Request[TenantAnswer]:
    """Admit a tenant; operators only."""
    return _request("POST", TenantAnswer, "tenants", body=form)


def tenants() -> Request[Page[TenantAnswer]]:
    """All tenants for an operator, itself for a tenant."""
    return _list(Page[TenantAnswer], "tenants")


def set_quota(tenant: str, quota: Quota) -> Request[TenantAnswer]:
    """Set what a tenant may use; operators only."""
    return _request("PUT", TenantAnswer, "tenants", tenant, "quota", body=quota)


def set_publishing(tenant: str, form: PublishingForm) -> Request[TenantAnswer]:
    """Set whether a tenant may publish modules that are code; operators only."""
    return _request("PUT", TenantAnswer, "tenants", tenant, "publishing", body=form)


def make_credentials(tenant: str) -> Request[BrokerCredentials]:
    """Make a tenant's broker credentials; its earlier ones become invalid."""
    return _request("POST", BrokerCredentials, "tenants", tenant, "credentials")


def make_key(form: KeyForm) -> Request[NewKeyAnswer]:
    """Make an API key: an operator for anyone, a tenant for itself."""
    return _request("POST", NewKeyAnswer, "keys", body=form)


def keys() -> Request[Page[KeyAnswer]]:
    """The caller's API keys; all of them for an operator."""
    return _list(Page[KeyAnswer], "keys")


def revoke_key(key: str) -> Request[KeyAnswer]:
    """Revoke an API key by its id."""
    return _request("DELETE", KeyAnswer, "keys", key)


def put_secret(name: str, form: SecretForm, *, tenant: str | None = None) -> Request[SecretAnswer]:
    """Store a secret; operators name the tenant."""
    return _request("PUT", SecretAnswer, "secrets", name, body=form, tenant=tenant)


def secrets(*, tenant: str | None = None) -> Request[Page[SecretAnswer]]:
    """The names of the caller's secrets; for an operator those of all tenants, or one."""
    return _list(Page[SecretAnswer], "secrets", tenant=tenant)


def remove_secret(name: str, *, tenant: str | None = None) -> Request[SecretAnswer]:
    """Remove a secret; tasks that name it fail."""
    return _request("DELETE", SecretAnswer, "secrets", name, tenant=tenant)
