"""The requests of the service but those about sources: a function for each, which describes the client's method too."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe

from braid_client.answers.adaptations import AdaptationAnswer, ChoiceForm
from braid_client.answers.base import Page
from braid_client.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowState,
    DataflowTasksAnswer,
    ExplainAnswer,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
)
from braid_client.answers.dead_letters import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Replayed
from braid_client.answers.jobs import (
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
from braid_client.answers.machines import MachineClassAnswer, MachineClassForm, RentalAnswer
from braid_client.answers.overview import AuditAnswer, OperationAnswer, OperationKind, OverviewAnswer, TaskTypeAnswer
from braid_client.answers.pipelines import ModuleAnswer, ModuleDetail, ReplanAnswer, ReplanForm, WheelAnswer
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm
from braid_client.answers.savings import BillAnswer, SavingsAnswer, SeriesAnswer
from braid_client.answers.series import HistoryAnswer, HistoryRange
from braid_client.answers.tenants import (
    BrokerCredentials,
    BrokerLogin,
    ConsoleLink,
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
from braid_client.answers.trials import TaskEvents, TrialAnswer
from braid_client.request import IDEMPOTENCY_HEADER, Document, Request, body_of, get, page_of, request
from dags.vocabulary import ModuleShape


def _bundle(documents: Sequence[Document]) -> bytes:
    return b'{"documents": [%b]}' % b", ".join(map(body_of, documents))


def _once(idempotency_key: str | None) -> dict[str, str]:
    """The header by which the service does a request once, however often it arrives."""
    return {IDEMPOTENCY_HEADER: idempotency_key or token_urlsafe()}


def _matching(tag: str | None) -> dict[str, str]:
    """The header by which the service does a request only for the document with a tag."""
    return {} if tag is None else {"If-Match": f'"{tag}"'}


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
    return request("POST", SubmitAnswer, "dataflows", body=document, headers=headers, tenant=tenant, start=begin)


def submit_together(
    documents: Sequence[Document],
    *,
    tenant: str | None = None,
    idempotency_key: str | None = None,
    start: Start = Start.LATEST,
) -> Request[BundleAnswer]:
    """Submit all documents or none, planned so that they share most; once even if they have to be sent again."""
    headers, body, begin = _once(idempotency_key), _bundle(documents), _begin(start)
    return request("POST", BundleAnswer, "dataflows", "bundle", body=body, headers=headers, tenant=tenant, start=begin)


def explain(
    document: Document, *, tenant: str | None = None, start: Start = Start.LATEST, draft: bool = False
) -> Request[ExplainAnswer]:
    """Preview a submission: what it would reuse, start and save. A draft is answered even if it has problems."""
    begin, asked = _begin(start), draft or None
    return request("POST", ExplainAnswer, "explain", body=document, tenant=tenant, start=begin, draft=asked)


def explain_together(
    documents: Sequence[Document], *, tenant: str | None = None, start: Start = Start.LATEST
) -> Request[BundleExplainAnswer]:
    """Preview what submitting documents together would reuse, start and save."""
    body = _bundle(documents)
    return request("POST", BundleExplainAnswer, "explain", "bundle", body=body, tenant=tenant, start=_begin(start))


def try_document(
    document: Document,
    *,
    events: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
    newest: int | None = None,
    tenant: str | None = None,
) -> Request[TrialAnswer]:
    """Try a document, which may have problems, on a few events before it is submitted; nothing of it runs on.

    `events` are those of a source, by the id of its task or by its name. Of other sources the newest events are taken
    that are kept, so many at most.
    """
    given = {"events": events, "newest": newest}
    wishes = {name: wish for name, wish in given.items() if wish is not None}
    more = "".join(f", {json.dumps(name)}: {json.dumps(wish)}" for name, wish in wishes.items())
    body = b'{"document": %b%b}' % (body_of(document), more.encode())
    return request("POST", TrialAnswer, "try", body=body, tenant=tenant)


def task_events(dataflow: str, task: str) -> Request[TaskEvents]:
    """Look at the newest events that enter and leave a running task; they are kept until ten seconds after a look."""
    return get(TaskEvents, "dataflows", dataflow, "tasks", task, "events")


def replace(dataflow: str, document: Document, *, if_match: str | None = None) -> Request[SubmitAnswer]:
    """Replace a dataflow's document by an edited one, as one change.

    With the tag of the document that was edited, it is refused if the dataflow has another one by now; the errors of
    the refusal say what differs.
    """
    return request("PUT", SubmitAnswer, "dataflows", dataflow, body=document, headers=_matching(if_match))


def remove(dataflow: str, how: Stop = Stop.NOW, *, if_match: str | None = None) -> Request[DataflowAnswer]:
    """Remove a dataflow; with a tag only if it still has that document."""
    return request("DELETE", DataflowAnswer, "dataflows", dataflow, headers=_matching(if_match), stop=how)


def preview_removal(dataflow: str) -> Request[RemovalAnswer]:
    """Preview a removal: the tasks that it would stop, and those that others keep."""
    return get(RemovalAnswer, "dataflows", dataflow, "removal")


def dataflow_tasks(dataflow: str) -> Request[DataflowTasksAnswer]:
    """What is measured of a dataflow's tasks, and how many others share each."""
    return get(DataflowTasksAnswer, "dataflows", dataflow, "tasks")


def dataflows(
    *,
    tenant: str | None = None,
    state: DataflowState | None = None,
    name: str | None = None,
    source: str | None = None,
    search: str | None = None,
) -> Request[Page[DataflowAnswer]]:
    """The caller's dataflows, oldest first."""
    wanted = {"tenant": tenant, "state": state, "name": name, "source": source, "search": search}
    return page_of(Page[DataflowAnswer], "dataflows", **wanted)


def reconfigure(
    dataflow: str,
    form: ReconfigurationForm,
    *,
    dry_run: bool = False,
    idempotency_key: str | None = None,
    if_match: str | None = None,
) -> Request[ReconfigurationAnswer]:
    """Change tasks of a dataflow while they run, with their states, once even if sent again; or preview that.

    If others are in its way its state is `waiting`, and it begins by itself. With a tag it is done only if the dataflow
    still has that document.
    """
    path = ("dataflows", dataflow, "reconfigurations")
    headers = _once(idempotency_key) | _matching(if_match)
    return request("POST", ReconfigurationAnswer, *path, body=form, headers=headers, dry_run=dry_run or None)


def reconfigurations(dataflow: str) -> Request[Page[ReconfigurationAnswer]]:
    """The reconfigurations of a dataflow, newest first."""
    return page_of(Page[ReconfigurationAnswer], "dataflows", dataflow, "reconfigurations")


def reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """One reconfiguration of a dataflow."""
    return get(ReconfigurationAnswer, "dataflows", dataflow, "reconfigurations", number)


def cancel_reconfiguration(dataflow: str, number: str) -> Request[ReconfigurationAnswer]:
    """Cancel a reconfiguration that waits or prepares; once its first task has switched it is too late."""
    return request("DELETE", ReconfigurationAnswer, "dataflows", dataflow, "reconfigurations", number)


def undo_reconfiguration(
    dataflow: str, number: str, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Request[ReconfigurationAnswer]:
    """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
    path, headers = ("dataflows", dataflow, "reconfigurations", number, "undo"), _once(idempotency_key)
    return request("POST", ReconfigurationAnswer, *path, headers=headers, dry_run=dry_run or None)


def replan(dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> Request[ReplanAnswer]:
    """Plan a running pipeline again and apply the difference; or preview that."""
    return request("POST", ReplanAnswer, "dataflows", dataflow, "replan", body=form, dry_run=dry_run or None)


def adaptation(dataflow: str) -> Request[AdaptationAnswer]:
    """What a dynamic dataflow has chosen, and by which figures."""
    return get(AdaptationAnswer, "dataflows", dataflow, "adaptation")


def set_policy(dataflow: str, policy: Document) -> Request[AdaptationAnswer]:
    """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
    return request("PUT", AdaptationAnswer, "dataflows", dataflow, "policy", body=policy)


def choose(dataflow: str, choose: Mapping[str, str | bool]) -> Request[AdaptationAnswer]:
    """Choose alternates and streams by hand. What is left out is left to the service again."""
    form = ChoiceForm(choose=dict(choose))
    return request("PUT", AdaptationAnswer, "dataflows", dataflow, "choice", body=form)


def publish_module(form: Document) -> Request[ModuleDetail]:
    """Publish a version of a module; the same text again changes nothing."""
    return request("POST", ModuleDetail, "modules", body=form)


def modules(
    *,
    tenant: str | None = None,
    name: str | None = None,
    shape: ModuleShape | None = None,
    tag: str | None = None,
    deprecated: bool | None = None,
) -> Request[Page[ModuleAnswer]]:
    """The versions of modules that the caller may use, in the order of publication."""
    return page_of(Page[ModuleAnswer], "modules", tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)


def module_versions(name: str, *, tenant: str | None = None) -> Request[Page[ModuleAnswer]]:
    """The versions of a module, oldest first."""
    return page_of(Page[ModuleAnswer], "modules", name, tenant=tenant)


def module(name: str, version: int, *, tenant: str | None = None) -> Request[ModuleDetail]:
    """One version of a module with its form; operators name the tenant whose it is."""
    return get(ModuleDetail, "modules", name, version, tenant=tenant)


def deprecate_module(name: str, version: int, *, tenant: str | None = None) -> Request[ModuleAnswer]:
    """Deprecate a version: from now on only pipelines that name it or hold it use it."""
    return request("POST", ModuleAnswer, "modules", name, version, "deprecate", tenant=tenant)


def vouch_for_module(name: str, version: int, *, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version of a tenant's code; operators only."""
    return request("POST", ModuleAnswer, "modules", name, version, "vouch", tenant=tenant)


def withdraw_vouch(name: str, version: int, *, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version no longer; operators only."""
    return request("DELETE", ModuleAnswer, "modules", name, version, "vouch", tenant=tenant)


def put_wheel(content: bytes) -> Request[WheelAnswer]:
    """Send a wheel that code will import from, before the module that requires it."""
    headers = {"Content-Type": "application/octet-stream"}
    return request("PUT", WheelAnswer, "wheels", sha256(content).hexdigest(), body=content, headers=headers)


def wheels(*, tenant: str | None = None) -> Request[Page[WheelAnswer]]:
    """The wheels that were sent, in their order; operators see everybody's."""
    return page_of(Page[WheelAnswer], "wheels", tenant=tenant)


def remove_wheel(digest: str, *, tenant: str | None = None) -> Request[WheelAnswer]:
    """Remove a wheel that no module requires."""
    return request("DELETE", WheelAnswer, "wheels", digest, tenant=tenant)


def task_types(*, name: str | None = None) -> Request[Page[TaskTypeAnswer]]:
    """The installed task types, or the one of that name, which may be in a namespace."""
    return page_of(Page[TaskTypeAnswer], "task-types", name=name)


def dead_letters(*, dataflow: str | None = None) -> Request[Page[DeadLetterAnswer]]:
    """The events that tasks of the caller's dataflows could not process, newest first."""
    return page_of(Page[DeadLetterAnswer], "dead-letters", dataflow=dataflow)


def dead_letter_groups(*, dataflow: str | None = None) -> Request[Page[DeadLetterGroupAnswer]]:
    """These events by task and reason, the group with the newest first."""
    return page_of(Page[DeadLetterGroupAnswer], "dead-letters", "groups", dataflow=dataflow)


def replay_dead_letter(letter: int, *, alike: bool = False) -> Request[Replayed]:
    """Replay one dead letter or its whole group, once; only operators may if others use its task too."""
    return request("POST", Replayed, "dead-letters", letter, "replay", alike=alike or None)


def replay_dead_letters(dataflow: str) -> Request[Replayed]:
    """Replay the dead letters of a dataflow, oldest first; `left` counts those that remain."""
    return request("POST", Replayed, "dead-letters", "replay", dataflow=dataflow)


def discard_dead_letter(letter: int, *, alike: bool = False) -> Request[Discarded]:
    """Discard one dead letter or its whole group: a tenant for itself, an operator for everyone."""
    return request("DELETE", Discarded, "dead-letters", letter, alike=alike or None)


def discard_dead_letters(dataflow: str) -> Request[Discarded]:
    """Discard the dead letters of a dataflow, even a removed one; an operator does so for everyone."""
    return request("DELETE", Discarded, "dead-letters", dataflow=dataflow)


def running_tasks(*, job: str | None = None) -> Request[Page[RunningTaskAnswer]]:
    """The running graph, or one job's part of it, by instance; of a tenant its own tasks."""
    return page_of(Page[RunningTaskAnswer], "running", "tasks", job=job)


def running_dags() -> Request[Page[RunningDagAnswer]]:
    """The running DAGs; operators only."""
    return page_of(Page[RunningDagAnswer], "running", "dags")


def jobs() -> Request[Page[JobAnswer]]:
    """The jobs; operators only."""
    return page_of(Page[JobAnswer], "jobs")


def job(name: str) -> Request[JobAnswer]:
    """One job; operators only."""
    return get(JobAnswer, "jobs", name)


def streams() -> Request[Page[StreamAnswer]]:
    """The derived streams that cross jobs; operators only."""
    return page_of(Page[StreamAnswer], "streams")


def hosts() -> Request[Page[HostAnswer]]:
    """The hosts; operators only."""
    return page_of(Page[HostAnswer], "hosts")


def overview() -> Request[OverviewAnswer]:
    """Counts of dataflows, tasks and jobs by state: of all tenants for an operator, its own for a tenant."""
    return get(OverviewAnswer, "overview")


def fragmentation() -> Request[FragmentationAnswer]:
    """The fragmentation of the jobs; operators only."""
    return get(FragmentationAnswer, "fragmentation")


def preview_defragmentation() -> Request[DefragmentationPreviewAnswer]:
    """What `defragment` would do now; nothing is moved; operators only."""
    return get(DefragmentationPreviewAnswer, "defragmentations", "preview")


def defragment() -> Request[MoveAnswer]:
    """Consolidate the jobs now, or relieve an overloaded one; the journal has the outcome; operators only."""
    return request("POST", MoveAnswer, "defragmentations")


def explain_placement(dataflow: str, *, task: str | None = None) -> Request[PlacementAnswer]:
    """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

    For one task that only this dataflow uses, also where else it could be.
    """
    return get(PlacementAnswer, "dataflows", dataflow, "placement", task=task)


def export_placement(dataflow: str) -> Request[PlacementPddlAnswer]:
    """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
    return get(PlacementPddlAnswer, "dataflows", dataflow, "placement", "pddl")


def check_placement_plan(dataflow: str, form: PlacementPlanForm) -> Request[PlacementPlanAnswer]:
    """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
    return request("POST", PlacementPlanAnswer, "dataflows", dataflow, "placement", "plan", body=form)


def history(
    dataflow: str, *, reach: HistoryRange = HistoryRange.HOUR, since: datetime | None = None
) -> Request[HistoryAnswer]:
    """What a dataflow did over time, as far back as a range reaches, or since a time."""
    return get(HistoryAnswer, "dataflows", dataflow, "series", range=reach if since is None else None, since=since)


def savings(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tenant: str | None = None,
    dataflow: str | None = None,
) -> Request[SavingsAnswer]:
    """The savings by sharing in an interval, by default the last hour; a tenant sees its own."""
    return get(SavingsAnswer, "reports", "savings", **_interval(since, until), tenant=tenant, dataflow=dataflow)


def savings_series(
    *, since: datetime | None = None, until: datetime | None = None, step: int | None = None, tenant: str | None = None
) -> Request[SeriesAnswer]:
    """The savings by sharing in each step of an interval, by default the last hour; `step` is in seconds."""
    return get(SeriesAnswer, "reports", "savings", "series", **_interval(since, until), step=step, tenant=tenant)


def bill(
    *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
) -> Request[BillAnswer]:
    """The costs of each tenant and dataflow in whole hours, by default this month so far."""
    return get(BillAnswer, "reports", "bills", **_interval(since, until), tenant=tenant)


def operations(*, kind: OperationKind | None = None, subject: str | None = None) -> Request[Page[OperationAnswer]]:
    """The journal, newest first."""
    return page_of(Page[OperationAnswer], "operations", kind=kind, subject=subject)


def audit(
    *, by: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> Request[Page[AuditAnswer]]:
    """Who did what, and what was refused, newest first."""
    return page_of(Page[AuditAnswer], "audit", by=by, since=since, until=until)


def machines() -> Request[Page[MachineAnswer]]:
    """The machines with the hosts that they carry; operators only."""
    return page_of(Page[MachineAnswer], "machines")


def admit_machine(name: str, *, key: str | None = None) -> Request[MachineAnswer]:
    """Admit a machine that waits, if it has this public key; operators only."""
    return request("POST", MachineAnswer, "machines", name, "admit", key=key)


def drain_machine(name: str) -> Request[MachineAnswer]:
    """Have a machine give up all hosts that it carries, and take none; operators only."""
    return request("POST", MachineAnswer, "machines", name, "drain")


def undrain_machine(name: str) -> Request[MachineAnswer]:
    """Let a machine take hosts again; operators only."""
    return request("DELETE", MachineAnswer, "machines", name, "drain")


def forget_machine(name: str) -> Request[MachineAnswer]:
    """Forget a machine that is gone for good; operators only. The machine as it was."""
    return request("DELETE", MachineAnswer, "machines", name)


def machine_classes() -> Request[Page[MachineClassAnswer]]:
    """The classes of machines that the service may start; operators only."""
    return page_of(Page[MachineClassAnswer], "machine-classes")


def put_machine_class(name: str, form: MachineClassForm) -> Request[MachineClassAnswer]:
    """Set a class of machines, or change it; operators only."""
    return request("PUT", MachineClassAnswer, "machine-classes", name, body=form)


def remove_machine_class(name: str) -> Request[MachineClassAnswer]:
    """Remove a class that no machine is of; operators only. The class as it was."""
    return request("DELETE", MachineClassAnswer, "machine-classes", name)


def rentals() -> Request[Page[RentalAnswer]]:
    """The machines that the service started by itself, newest first; operators only."""
    return page_of(Page[RentalAnswer], "rentals")


def images() -> Request[Page[ImageAnswer]]:
    """The registered images with their hosts; operators only."""
    return page_of(Page[ImageAnswer], "images")


def put_image(name: str, form: ImageForm) -> Request[ImageAnswer]:
    """Register an image, or change it; operators only."""
    return request("PUT", ImageAnswer, "images", name, body=form)


def remove_image(name: str) -> Request[ImageAnswer]:
    """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
    return request("DELETE", ImageAnswer, "images", name)


def admit(form: TenantForm) -> Request[TenantAnswer]:
    """Admit a tenant; operators only."""
    return request("POST", TenantAnswer, "tenants", body=form)


def tenants() -> Request[Page[TenantAnswer]]:
    """All tenants for an operator, itself for a tenant."""
    return page_of(Page[TenantAnswer], "tenants")


def set_quota(tenant: str, quota: Quota) -> Request[TenantAnswer]:
    """Set what a tenant may use; operators only."""
    return request("PUT", TenantAnswer, "tenants", tenant, "quota", body=quota)


def set_publishing(tenant: str, form: PublishingForm) -> Request[TenantAnswer]:
    """Set whether a tenant may publish modules that are code; operators only."""
    return request("PUT", TenantAnswer, "tenants", tenant, "publishing", body=form)


def make_credentials(tenant: str) -> Request[BrokerCredentials]:
    """Make a tenant's broker credentials; its earlier ones become invalid."""
    return request("POST", BrokerCredentials, "tenants", tenant, "credentials")


def broker_login(tenant: str) -> Request[BrokerLogin]:
    """Where and as whom a tenant connects to the broker, without the password."""
    return get(BrokerLogin, "tenants", tenant, "credentials")


def make_key(form: KeyForm) -> Request[NewKeyAnswer]:
    """Make an API key: an operator for anyone, a tenant for itself."""
    return request("POST", NewKeyAnswer, "keys", body=form)


def keys() -> Request[Page[KeyAnswer]]:
    """The caller's API keys; all of them for an operator."""
    return page_of(Page[KeyAnswer], "keys")


def make_console_link() -> Request[ConsoleLink]:
    """A link that signs in to the console as the caller, once and within a minute."""
    return request("POST", ConsoleLink, "session", "link")


def revoke_key(key: str) -> Request[KeyAnswer]:
    """Revoke an API key by its id."""
    return request("DELETE", KeyAnswer, "keys", key)


def put_secret(name: str, form: SecretForm, *, tenant: str | None = None) -> Request[SecretAnswer]:
    """Store a secret; operators name the tenant."""
    return request("PUT", SecretAnswer, "secrets", name, body=form, tenant=tenant)


def secrets(*, tenant: str | None = None) -> Request[Page[SecretAnswer]]:
    """The names of the caller's secrets; for an operator those of all tenants, or one."""
    return page_of(Page[SecretAnswer], "secrets", tenant=tenant)


def remove_secret(name: str, *, tenant: str | None = None) -> Request[SecretAnswer]:
    """Remove a secret; tasks that name it fail."""
    return request("DELETE", SecretAnswer, "secrets", name, tenant=tenant)
