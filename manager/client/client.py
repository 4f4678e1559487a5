# Generated from async_client.py by `make client`: edit that file.
"""A client of the service: a method for each request of `manager.client.requests`."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, SecretStr

from manager.answers.adaptations import AdaptationAnswer, ChoiceForm
from manager.answers.base import Page
from manager.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    OutputEvent,
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
from manager.answers.overview import EventAnswer, OperationAnswer, OperationKind, OverviewAnswer, TaskTypeAnswer
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
from manager.client import requests
from manager.client.errors import (
    TIMEOUT,
    Document,
    ExchangeStep,
    Outcome,
    Request,
    Sleep,
    Wait,
    exchange,
    following,
    headers,
    uses_proxies,
)
from manager.client.streams import STREAM_SILENCE, EventStreamReader, OutputStreamReader, StreamReader
from planning.constraint import ModuleShape

A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
E = TypeVar("E")


class ServiceConnection:
    """Sends requests with one API key; close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Sleep = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers(key),
            timeout=TIMEOUT,
            transport=transport,
            trust_env=uses_proxies(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    def send(self, request: Request[A]) -> A:
        """Send a request, again where that is safe and may help, and return its answer."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            outcome: Outcome = None
            if isinstance(step, Wait):
                self._sleep(step.seconds)
            else:
                try:
                    outcome = self._http.request(
                        step.method, step.path, params=step.query, headers=step.headers, content=step.body
                    )
                except httpx.TransportError as error:
                    outcome = error
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: A = done.value
                return answer

    def _items(self, request: Request[Page[P]]) -> Iterator[P]:
        """The items of a list; a page is requested once the one before it is used up."""
        while True:
            page = self.send(request)
            yield from page.items
            if page.next is None:
                return
            request = following(request, page.next)

    def _stream(self, reader: StreamReader[E]) -> Iterator[E]:
        """The events of a stream, without end; connects again where the stream breaks."""
        while True:
            try:
                with self._http.stream(
                    "GET", reader.path, params=reader.query, headers=reader.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        wait = reader.reconnect(answer)
                    else:
                        for line in answer.iter_lines():
                            yield from reader.read(line, answer)
                        wait = reader.ended()
            except httpx.TransportError as error:
                wait = reader.reconnect(error)
            self._sleep(wait)


class AdministrationClient(ServiceConnection):
    """Administers one service with one API key."""

    def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return self.send(requests.admit(form))

    def tenants(self) -> Iterator[TenantAnswer]:
        """All tenants for an operator, itself for a tenant."""
        return self._items(requests.tenants())

    def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return self.send(requests.set_quota(tenant, quota))

    def set_publishing(self, tenant: str, form: PublishingForm) -> TenantAnswer:
        """Set whether a tenant may publish modules that are code; operators only."""
        return self.send(requests.set_publishing(tenant, form))

    def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; its earlier ones become invalid."""
        return self.send(requests.make_credentials(tenant))

    def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anyone, a tenant for itself."""
        return self.send(requests.make_key(form))

    def keys(self) -> Iterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(requests.keys())

    def revoke_key(self, key: str) -> KeyAnswer:
        """Revoke an API key by its id."""
        return self.send(requests.revoke_key(key))

    def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Store a secret; operators name the tenant."""
        return self.send(requests.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> Iterator[SecretAnswer]:
        """The names of the caller's secrets; for an operator those of all tenants, or one."""
        return self._items(requests.secrets(tenant))

    def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Remove a secret; tasks that name it fail."""
        return self.send(requests.remove_secret(name, tenant))


class MachineClient(ServiceConnection):
    """Sees to the machines of one service with one API key."""

    def machines(self) -> Iterator[MachineAnswer]:
        """The machines with the hosts that they carry; operators only."""
        return self._items(requests.machines())

    def admit_machine(self, name: str, *, key: str | None = None) -> MachineAnswer:
        """Admit a machine that waits, if it has this public key; operators only."""
        return self.send(requests.admit_machine(name, key))

    def drain_machine(self, name: str) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; operators only."""
        return self.send(requests.drain_machine(name))

    def undrain_machine(self, name: str) -> MachineAnswer:
        """Let a machine take hosts again; operators only."""
        return self.send(requests.undrain_machine(name))

    def forget_machine(self, name: str) -> MachineAnswer:
        """Forget a machine that is gone for good; operators only. The machine as it was."""
        return self.send(requests.forget_machine(name))

    def images(self) -> Iterator[ImageAnswer]:
        """The registered images with their hosts; operators only."""
        return self._items(requests.images())

    def put_image(self, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; operators only."""
        return self.send(requests.put_image(name, form))

    def remove_image(self, name: str) -> ImageAnswer:
        """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
        return self.send(requests.remove_image(name))

    def explain_placement(self, dataflow: str, *, task: str | None = None) -> PlacementAnswer:
        """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

        For one task that only this dataflow uses, also where else it could be.
        """
        return self.send(requests.explain_placement(dataflow, task))

    def export_placement(self, dataflow: str) -> PlacementPddlAnswer:
        """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
        return self.send(requests.export_placement(dataflow))

    def check_placement_plan(self, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
        return self.send(requests.check_placement_plan(dataflow, form))


class PlanningClient(ServiceConnection):
    """Publishes modules and plans pipelines with one API key."""

    def replan(self, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew and apply the difference; or preview that."""
        return self.send(requests.replan(dataflow, form, dry_run=dry_run))

    def adaptation(self, dataflow: str) -> AdaptationAnswer:
        """What a dynamic dataflow has chosen, and by which figures."""
        return self.send(requests.adaptation(dataflow))

    def set_policy(self, dataflow: str, policy: Document) -> AdaptationAnswer:
        """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
        return self.send(requests.set_policy(dataflow, policy))

    def choose(self, dataflow: str, choose: Mapping[str, str | bool]) -> AdaptationAnswer:
        """Choose alternates and streams by hand. What is left out is left to the service again."""
        return self.send(requests.choose(dataflow, ChoiceForm(choose=dict(choose))))

    def publish_module(self, form: Document) -> ModuleDetail:
        """Publish a version of a module; the same text again changes nothing."""
        return self.send(requests.publish_module(form))

    def modules(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        shape: ModuleShape | None = None,
        tag: str | None = None,
        deprecated: bool | None = None,
    ) -> Iterator[ModuleAnswer]:
        """The versions of modules that the caller may use, in the order of publication."""
        request = requests.modules(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)
        return self._items(request)

    def module_versions(self, name: str, *, tenant: str | None = None) -> Iterator[ModuleAnswer]:
        """The versions of a module, oldest first."""
        return self._items(requests.module_versions(name, tenant))

    def module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleDetail:
        """One version of a module with its form; operators name the tenant whose it is."""
        return self.send(requests.module(name, version, tenant))

    def put_wheel(self, content: bytes) -> WheelAnswer:
        """Send a wheel that code will import from, before the module that requires it."""
        return self.send(requests.put_wheel(content))

    def wheels(self, *, tenant: str | None = None) -> Iterator[WheelAnswer]:
        """The wheels that were sent, in their order; operators see everybody's."""
        return self._items(requests.wheels(tenant))

    def remove_wheel(self, digest: str, *, tenant: str | None = None) -> WheelAnswer:
        """Remove a wheel that no module requires."""
        return self.send(requests.remove_wheel(digest, tenant))

    def deprecate_module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Deprecate a version: from now on only pipelines that name it or hold it use it."""
        return self.send(requests.deprecate_module(name, version, tenant))

    def vouch_for_module(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version of a tenant's code; operators only."""
        return self.send(requests.vouch_for_module(name, version, tenant))

    def withdraw_vouch(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version no longer; operators only."""
        return self.send(requests.withdraw_vouch(name, version, tenant))


class Client(AdministrationClient, MachineClient, PlanningClient):
    """Asks one service with one API key; close it, or use it as a context manager."""

    def submit(
        self,
        document: Document,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document, once even if it has to be sent again; operators name the tenant."""
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(requests.submit(document, tenant=tenant, idempotency_key=key, start=start))

    def submit_together(
        self,
        documents: Sequence[Document],
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> BundleAnswer:
        """Submit all documents or none, planned so that they share most; once even if they have to be sent again."""
        key = idempotency_key or secrets.token_urlsafe()
        request = requests.submit_together(documents, tenant=tenant, idempotency_key=key, start=start)
        return self.send(request)

    def explain_together(
        self, documents: Sequence[Document], *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        """Preview what submitting documents together would reuse, start and save."""
        return self.send(requests.explain_together(documents, tenant=tenant, start=start))

    def replace(self, dataflow: str, document: Document) -> SubmitAnswer:
        """Replace a dataflow's document by an edited one, as one change."""
        return self.send(requests.replacement(dataflow, document))

    def remove(self, dataflow: str, how: Stop = Stop.NOW) -> DataflowAnswer:
        """Remove a dataflow."""
        return self.send(requests.removal(dataflow, how))

    def preview_removal(self, dataflow: str) -> RemovalAnswer:
        """Preview a removal: the tasks that it would stop, and those that others keep."""
        return self.send(requests.preview_removal(dataflow))

    def reconfigure(
        self, dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Change tasks of a dataflow while they run, with their states, once even if sent again; or preview that.

        If others are in its way its state is `waiting`, and it begins by itself.
        """
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(requests.reconfigure(dataflow, form, dry_run=dry_run, idempotency_key=key))

    def reconfigurations(self, dataflow: str) -> Iterator[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        return self._items(requests.reconfigurations(dataflow))

    def reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return self.send(requests.reconfiguration(dataflow, number))

    def cancel_reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration that waits or prepares; once its first task has switched it is too late."""
        return self.send(requests.cancellation(dataflow, number))

    def undo_reconfiguration(
        self, dataflow: str, number: str, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(requests.undoing(dataflow, number, dry_run=dry_run, idempotency_key=key))

    def explain(self, document: Document, *, tenant: str | None = None, start: Start = Start.LATEST) -> ExplainAnswer:
        """Preview a submission: what it would reuse, start and save."""
        return self.send(requests.explain(document, tenant=tenant, start=start))

    def dataflow(self, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        return self.send(requests.dataflow(dataflow))

    def dataflows(
        self,
        *,
        tenant: str | None = None,
        state: DataflowState | None = None,
        name: str | None = None,
        source: str | None = None,
        search: str | None = None,
    ) -> Iterator[DataflowAnswer]:
        """The caller's dataflows, oldest first."""
        return self._items(requests.dataflows(tenant=tenant, state=state, name=name, source=source, search=search))

    def register_source(self, form: SourceForm | bytes) -> SourceAnswer:
        """Register a source; bytes, such as those of a file, are sent as they are."""
        return self.send(requests.register_source(form))

    def sources(self) -> Iterator[SourceAnswer]:
        """The sources that the caller may read."""
        return self._items(requests.sources())

    def source(self, name: str) -> SourceAnswer:
        """One source."""
        return self.send(requests.source(name))

    def task_types(self, *, name: str | None = None) -> Iterator[TaskTypeAnswer]:
        """The installed task types, or the one of that name, which may be in a namespace."""
        return self._items(requests.task_types(name))

    def send_events(self, source: str, events: bytes, producer: str | None = None, first: int = 0) -> SentAnswer:
        """Send events as JSON lines, once even if they have to be sent again; without a producer all are new."""
        name = producer or f"{requests.ONE_TIME_PREFIX}{secrets.token_hex(8)}"
        return self.send(requests.send_events(source, events, producer=name, first=first))

    def producer(self, source: str, producer: str) -> ProducerAnswer:
        """The number of a producer's next event in a source."""
        return self.send(requests.producer(source, producer))

    def set_visibility(self, name: str, form: VisibilityForm) -> Stopped:
        """Set who may read a source; the answer counts the dataflows that this stopped."""
        return self.send(requests.set_visibility(name, form))

    def declare_fields(self, name: str, form: SchemaForm, *, dry_run: bool = False) -> SchemaAnswer:
        """Change the schema of a source; running dataflows keep the one that they were submitted with."""
        return self.send(requests.declare_fields(name, form, dry_run=dry_run))

    def revoke_source(self, name: str) -> Stopped:
        """Revoke a source; the answer counts the dataflows that this stopped."""
        return self.send(requests.revoke_source(name))

    def running_tasks(self, *, job: str | None = None) -> Iterator[RunningTaskAnswer]:
        """The running graph, or one job's part of it, by instance; operators only."""
        return self._items(requests.running_tasks(job))

    def running_dags(self) -> Iterator[RunningDagAnswer]:
        """The running DAGs; operators only."""
        return self._items(requests.running_dags())

    def jobs(self) -> Iterator[JobAnswer]:
        """The jobs; operators only."""
        return self._items(requests.jobs())

    def job(self, name: str) -> JobAnswer:
        """One job; operators only."""
        return self.send(requests.job(name))

    def streams(self) -> Iterator[StreamAnswer]:
        """The derived streams that cross jobs; operators only."""
        return self._items(requests.streams())

    def hosts(self) -> Iterator[HostAnswer]:
        """The hosts; operators only."""
        return self._items(requests.hosts())

    def overview(self) -> OverviewAnswer:
        """Counts of dataflows, tasks and jobs by state: of all tenants for an operator, its own for a tenant."""
        return self.send(requests.overview())

    def fragmentation(self) -> FragmentationAnswer:
        """The fragmentation of the jobs; operators only."""
        return self.send(requests.fragmentation())

    def preview_defragmentation(self) -> DefragmentationPreviewAnswer:
        """What `defragment` would do now; nothing is moved; operators only."""
        return self.send(requests.preview_defragmentation())

    def defragment(self) -> MoveAnswer:
        """Consolidate the jobs now, or relieve an overloaded one; the journal has the outcome; operators only."""
        return self.send(requests.defragment())

    def savings(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """The savings by sharing in an interval, by default the last hour; a tenant sees its own."""
        return self.send(requests.savings(since=since, until=until, tenant=tenant, dataflow=dataflow))

    def savings_series(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """The savings by sharing in each step of an interval, by default the last hour; `step` is in seconds."""
        return self.send(requests.savings_series(since=since, until=until, step=step, tenant=tenant))

    def bill(
        self, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """The costs of each tenant and dataflow in whole hours, by default this month so far."""
        return self.send(requests.bill(since=since, until=until, tenant=tenant))

    def operations(self, *, kind: OperationKind | None = None, subject: str | None = None) -> Iterator[OperationAnswer]:
        """The journal, newest first."""
        return self._items(requests.operations(kind=kind, subject=subject))

    def dead_letters(self, *, dataflow: str | None = None) -> Iterator[DeadLetterAnswer]:
        """The events that tasks of the caller's dataflows could not process, newest first."""
        return self._items(requests.dead_letters(dataflow=dataflow))

    def dead_letter_groups(self, *, dataflow: str | None = None) -> Iterator[DeadLetterGroupAnswer]:
        """The same by task and reason, the group with the newest first."""
        return self._items(requests.dead_letter_groups(dataflow=dataflow))

    def replay_dead_letter(self, letter: int, *, alike: bool = False) -> Replayed:
        """Replay one dead letter or its whole group, once; only operators may if others use its task too."""
        return self.send(requests.replay_dead_letter(letter, alike=alike))

    def replay_dead_letters(self, dataflow: str) -> Replayed:
        """Replay the dead letters of a dataflow, oldest first; `left` counts those that remain."""
        return self.send(requests.replay_dead_letters(dataflow))

    def discard_dead_letter(self, letter: int, *, alike: bool = False) -> Discarded:
        """Discard one dead letter or its whole group: a tenant for itself, an operator for everyone."""
        return self.send(requests.discard_dead_letter(letter, alike=alike))

    def discard_dead_letters(self, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, even a removed one; an operator does so for everyone."""
        return self.send(requests.discard_dead_letters(dataflow))

    def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> Iterator[OutputEvent]:
        """Follow all outputs of a dataflow or one, without end, from the last so many past events, as far as kept."""
        return self._stream(OutputStreamReader(self.url, dataflow, sink, last))

    def events(self) -> Iterator[EventAnswer]:
        """Follow what happens from now on, without end."""
        return self._stream(EventStreamReader(self.url))
