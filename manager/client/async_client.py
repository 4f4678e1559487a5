"""A client of the service: a method for each request of `manager.client.requests`."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
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
    AsyncSleep,
    Document,
    ExchangeStep,
    Outcome,
    Request,
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


class AsyncServiceConnection:
    """Sends requests with one API key; close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: AsyncSleep = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers(key),
            timeout=TIMEOUT,
            transport=transport,
            trust_env=uses_proxies(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

    async def send(self, request: Request[A]) -> A:
        """Send a request, again where that is safe and may help, and return its answer."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            outcome: Outcome = None
            if isinstance(step, Wait):
                await self._sleep(step.seconds)
            else:
                try:
                    outcome = await self._http.request(
                        step.method, step.path, params=step.query, headers=step.headers, content=step.body
                    )
                except httpx.TransportError as error:
                    outcome = error
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: A = done.value
                return answer

    async def _items(self, request: Request[Page[P]]) -> AsyncIterator[P]:
        """The items of a list; a page is requested once the one before it is used up."""
        while True:
            page = await self.send(request)
            for item in page.items:
                yield item
            if page.next is None:
                return
            request = following(request, page.next)

    async def _stream(self, reader: StreamReader[E]) -> AsyncIterator[E]:
        """The events of a stream, without end; connects again where the stream breaks."""
        while True:
            try:
                async with self._http.stream(
                    "GET", reader.path, params=reader.query, headers=reader.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        await answer.aread()
                        wait = reader.reconnect(answer)
                    else:
                        async for line in answer.aiter_lines():
                            for event in reader.read(line, answer):
                                yield event
                        wait = reader.ended()
            except httpx.TransportError as error:
                wait = reader.reconnect(error)
            await self._sleep(wait)


class AsyncAdministrationClient(AsyncServiceConnection):
    """Administers one service with one API key."""

    async def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return await self.send(requests.admit(form))

    def tenants(self) -> AsyncIterator[TenantAnswer]:
        """All tenants for an operator, itself for a tenant."""
        return self._items(requests.tenants())

    async def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return await self.send(requests.set_quota(tenant, quota))

    async def set_publishing(self, tenant: str, form: PublishingForm) -> TenantAnswer:
        """Set whether a tenant may publish modules that are code; operators only."""
        return await self.send(requests.set_publishing(tenant, form))

    async def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; its earlier ones become invalid."""
        return await self.send(requests.make_credentials(tenant))

    async def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anyone, a tenant for itself."""
        return await self.send(requests.make_key(form))

    def keys(self) -> AsyncIterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(requests.keys())

    async def revoke_key(self, key: str) -> KeyAnswer:
        """Revoke an API key by its id."""
        return await self.send(requests.revoke_key(key))

    async def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Store a secret; operators name the tenant."""
        return await self.send(requests.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> AsyncIterator[SecretAnswer]:
        """The names of the caller's secrets; for an operator those of all tenants, or one."""
        return self._items(requests.secrets(tenant))

    async def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Remove a secret; tasks that name it fail."""
        return await self.send(requests.remove_secret(name, tenant))


class AsyncMachineClient(AsyncServiceConnection):
    """Sees to the machines of one service with one API key."""

    def machines(self) -> AsyncIterator[MachineAnswer]:
        """The machines with the hosts that they carry; operators only."""
        return self._items(requests.machines())

    async def admit_machine(self, name: str, *, key: str | None = None) -> MachineAnswer:
        """Admit a machine that waits, if it has this public key; operators only."""
        return await self.send(requests.admit_machine(name, key))

    async def drain_machine(self, name: str) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; operators only."""
        return await self.send(requests.drain_machine(name))

    async def undrain_machine(self, name: str) -> MachineAnswer:
        """Let a machine take hosts again; operators only."""
        return await self.send(requests.undrain_machine(name))

    async def forget_machine(self, name: str) -> MachineAnswer:
        """Forget a machine that is gone for good; operators only. The machine as it was."""
        return await self.send(requests.forget_machine(name))

    def images(self) -> AsyncIterator[ImageAnswer]:
        """The registered images with their hosts; operators only."""
        return self._items(requests.images())

    async def put_image(self, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; operators only."""
        return await self.send(requests.put_image(name, form))

    async def remove_image(self, name: str) -> ImageAnswer:
        """Remove an image; operators only. Its hosts run on with tags of their own. The image as it was."""
        return await self.send(requests.remove_image(name))

    async def explain_placement(self, dataflow: str, *, task: str | None = None) -> PlacementAnswer:
        """Where each task of a dataflow runs and why, what that costs, and what would cost less; operators only.

        For one task that only this dataflow uses, also where else it could be.
        """
        return await self.send(requests.explain_placement(dataflow, task))

    async def export_placement(self, dataflow: str) -> PlacementPddlAnswer:
        """The tasks that no other dataflow uses, as a planning problem in PDDL; operators only."""
        return await self.send(requests.export_placement(dataflow))

    async def check_placement_plan(self, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        """What a planner's plan for that problem makes of the dataflow; nothing is moved. Operators only."""
        return await self.send(requests.check_placement_plan(dataflow, form))


class AsyncPlanningClient(AsyncServiceConnection):
    """Publishes modules and plans pipelines with one API key."""

    async def replan(self, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew and apply the difference; or preview that."""
        return await self.send(requests.replan(dataflow, form, dry_run=dry_run))

    async def adaptation(self, dataflow: str) -> AdaptationAnswer:
        """What a dynamic dataflow has chosen, and by which figures."""
        return await self.send(requests.adaptation(dataflow))

    async def set_policy(self, dataflow: str, policy: Document) -> AdaptationAnswer:
        """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
        return await self.send(requests.set_policy(dataflow, policy))

    async def choose(self, dataflow: str, choose: Mapping[str, str | bool]) -> AdaptationAnswer:
        """Choose alternates and streams by hand. What is left out is left to the service again."""
        return await self.send(requests.choose(dataflow, ChoiceForm(choose=dict(choose))))

    async def publish_module(self, form: Document) -> ModuleDetail:
        """Publish a version of a module; the same text again changes nothing."""
        return await self.send(requests.publish_module(form))

    def modules(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        shape: ModuleShape | None = None,
        tag: str | None = None,
        deprecated: bool | None = None,
    ) -> AsyncIterator[ModuleAnswer]:
        """The versions of modules that the caller may use, in the order of publication."""
        request = requests.modules(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)
        return self._items(request)

    def module_versions(self, name: str, *, tenant: str | None = None) -> AsyncIterator[ModuleAnswer]:
        """The versions of a module, oldest first."""
        return self._items(requests.module_versions(name, tenant))

    async def module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleDetail:
        """One version of a module with its form; operators name the tenant whose it is."""
        return await self.send(requests.module(name, version, tenant))

    async def put_wheel(self, content: bytes) -> WheelAnswer:
        """Send a wheel that code will import from, before the module that requires it."""
        return await self.send(requests.put_wheel(content))

    def wheels(self, *, tenant: str | None = None) -> AsyncIterator[WheelAnswer]:
        """The wheels that were sent, in their order; operators see everybody's."""
        return self._items(requests.wheels(tenant))

    async def remove_wheel(self, digest: str, *, tenant: str | None = None) -> WheelAnswer:
        """Remove a wheel that no module requires."""
        return await self.send(requests.remove_wheel(digest, tenant))

    async def deprecate_module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Deprecate a version: from now on only pipelines that name it or hold it use it."""
        return await self.send(requests.deprecate_module(name, version, tenant))

    async def vouch_for_module(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version of a tenant's code; operators only."""
        return await self.send(requests.vouch_for_module(name, version, tenant))

    async def withdraw_vouch(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version no longer; operators only."""
        return await self.send(requests.withdraw_vouch(name, version, tenant))


class AsyncClient(AsyncAdministrationClient, AsyncMachineClient, AsyncPlanningClient):
    """Asks one service with one API key; close it, or use it as a context manager."""

    async def submit(
        self,
        document: Document,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document, once even if it has to be sent again; operators name the tenant."""
        key = idempotency_key or secrets.token_urlsafe()
        return await self.send(requests.submit(document, tenant=tenant, idempotency_key=key, start=start))

    async def submit_together(
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
        return await self.send(request)

    async def explain_together(
        self, documents: Sequence[Document], *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        """Preview what submitting documents together would reuse, start and save."""
        return await self.send(requests.explain_together(documents, tenant=tenant, start=start))

    async def replace(self, dataflow: str, document: Document) -> SubmitAnswer:
        """Replace a dataflow's document by an edited one, as one change."""
        return await self.send(requests.replacement(dataflow, document))

    async def remove(self, dataflow: str, how: Stop = Stop.NOW) -> DataflowAnswer:
        """Remove a dataflow."""
        return await self.send(requests.removal(dataflow, how))

    async def preview_removal(self, dataflow: str) -> RemovalAnswer:
        """Preview a removal: the tasks that it would stop, and those that others keep."""
        return await self.send(requests.preview_removal(dataflow))

    async def reconfigure(
        self, dataflow: str, form: ReconfigurationForm, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Change tasks of a dataflow while they run, with their states, once even if sent again; or preview that.

        If others are in its way its state is `waiting`, and it begins by itself.
        """
        key = idempotency_key or secrets.token_urlsafe()
        return await self.send(requests.reconfigure(dataflow, form, dry_run=dry_run, idempotency_key=key))

    def reconfigurations(self, dataflow: str) -> AsyncIterator[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        return self._items(requests.reconfigurations(dataflow))

    async def reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return await self.send(requests.reconfiguration(dataflow, number))

    async def cancel_reconfiguration(self, dataflow: str, number: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration that waits or prepares; once its first task has switched it is too late."""
        return await self.send(requests.cancellation(dataflow, number))

    async def undo_reconfiguration(
        self, dataflow: str, number: str, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        key = idempotency_key or secrets.token_urlsafe()
        return await self.send(requests.undoing(dataflow, number, dry_run=dry_run, idempotency_key=key))

    async def explain(
        self, document: Document, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> ExplainAnswer:
        """Preview a submission: what it would reuse, start and save."""
        return await self.send(requests.explain(document, tenant=tenant, start=start))

    async def dataflow(self, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        return await self.send(requests.dataflow(dataflow))

    def dataflows(
        self,
        *,
        tenant: str | None = None,
        state: DataflowState | None = None,
        name: str | None = None,
        source: str | None = None,
        search: str | None = None,
    ) -> AsyncIterator[DataflowAnswer]:
        """The caller's dataflows, oldest first."""
        return self._items(requests.dataflows(tenant=tenant, state=state, name=name, source=source, search=search))

    async def register_source(self, form: SourceForm | bytes) -> SourceAnswer:
        """Register a source; bytes, such as those of a file, are sent as they are."""
        return await self.send(requests.register_source(form))

    def sources(self) -> AsyncIterator[SourceAnswer]:
        """The sources that the caller may read."""
        return self._items(requests.sources())

    async def source(self, name: str) -> SourceAnswer:
        """One source."""
        return await self.send(requests.source(name))

    def task_types(self, *, name: str | None = None) -> AsyncIterator[TaskTypeAnswer]:
        """The installed task types, or the one of that name, which may be in a namespace."""
        return self._items(requests.task_types(name))

    async def send_events(self, source: str, events: bytes, producer: str | None = None, first: int = 0) -> SentAnswer:
        """Send events as JSON lines, once even if they have to be sent again; without a producer all are new."""
        name = producer or f"{requests.ONE_TIME_PREFIX}{secrets.token_hex(8)}"
        return await self.send(requests.send_events(source, events, producer=name, first=first))

    async def producer(self, source: str, producer: str) -> ProducerAnswer:
        """The number of a producer's next event in a source."""
        return await self.send(requests.producer(source, producer))

    async def set_visibility(self, name: str, form: VisibilityForm) -> Stopped:
        """Set who may read a source; the answer counts the dataflows that this stopped."""
        return await self.send(requests.set_visibility(name, form))

    async def declare_fields(self, name: str, form: SchemaForm, *, dry_run: bool = False) -> SchemaAnswer:
        """Change the schema of a source; running dataflows keep the one that they were submitted with."""
        return await self.send(requests.declare_fields(name, form, dry_run=dry_run))

    async def revoke_source(self, name: str) -> Stopped:
        """Revoke a source; the answer counts the dataflows that this stopped."""
        return await self.send(requests.revoke_source(name))

    def running_tasks(self, *, job: str | None = None) -> AsyncIterator[RunningTaskAnswer]:
        """The running graph, or one job's part of it, by instance; operators only."""
        return self._items(requests.running_tasks(job))

    def running_dags(self) -> AsyncIterator[RunningDagAnswer]:
        """The running DAGs; operators only."""
        return self._items(requests.running_dags())

    def jobs(self) -> AsyncIterator[JobAnswer]:
        """The jobs; operators only."""
        return self._items(requests.jobs())

    async def job(self, name: str) -> JobAnswer:
        """One job; operators only."""
        return await self.send(requests.job(name))

    def streams(self) -> AsyncIterator[StreamAnswer]:
        """The derived streams that cross jobs; operators only."""
        return self._items(requests.streams())

    def hosts(self) -> AsyncIterator[HostAnswer]:
        """The hosts; operators only."""
        return self._items(requests.hosts())

    async def overview(self) -> OverviewAnswer:
        """Counts of dataflows, tasks and jobs by state: of all tenants for an operator, its own for a tenant."""
        return await self.send(requests.overview())

    async def fragmentation(self) -> FragmentationAnswer:
        """The fragmentation of the jobs; operators only."""
        return await self.send(requests.fragmentation())

    async def preview_defragmentation(self) -> DefragmentationPreviewAnswer:
        """What `defragment` would do now; nothing is moved; operators only."""
        return await self.send(requests.preview_defragmentation())

    async def defragment(self) -> MoveAnswer:
        """Consolidate the jobs now, or relieve an overloaded one; the journal has the outcome; operators only."""
        return await self.send(requests.defragment())

    async def savings(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """The savings by sharing in an interval, by default the last hour; a tenant sees its own."""
        return await self.send(requests.savings(since=since, until=until, tenant=tenant, dataflow=dataflow))

    async def savings_series(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """The savings by sharing in each step of an interval, by default the last hour; `step` is in seconds."""
        return await self.send(requests.savings_series(since=since, until=until, step=step, tenant=tenant))

    async def bill(
        self, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """The costs of each tenant and dataflow in whole hours, by default this month so far."""
        return await self.send(requests.bill(since=since, until=until, tenant=tenant))

    def operations(
        self, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> AsyncIterator[OperationAnswer]:
        """The journal, newest first."""
        return self._items(requests.operations(kind=kind, subject=subject))

    def dead_letters(self, *, dataflow: str | None = None) -> AsyncIterator[DeadLetterAnswer]:
        """The events that tasks of the caller's dataflows could not process, newest first."""
        return self._items(requests.dead_letters(dataflow=dataflow))

    def dead_letter_groups(self, *, dataflow: str | None = None) -> AsyncIterator[DeadLetterGroupAnswer]:
        """The same by task and reason, the group with the newest first."""
        return self._items(requests.dead_letter_groups(dataflow=dataflow))

    async def replay_dead_letter(self, letter: int, *, alike: bool = False) -> Replayed:
        """Replay one dead letter or its whole group, once; only operators may if others use its task too."""
        return await self.send(requests.replay_dead_letter(letter, alike=alike))

    async def replay_dead_letters(self, dataflow: str) -> Replayed:
        """Replay the dead letters of a dataflow, oldest first; `left` counts those that remain."""
        return await self.send(requests.replay_dead_letters(dataflow))

    async def discard_dead_letter(self, letter: int, *, alike: bool = False) -> Discarded:
        """Discard one dead letter or its whole group: a tenant for itself, an operator for everyone."""
        return await self.send(requests.discard_dead_letter(letter, alike=alike))

    async def discard_dead_letters(self, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, even a removed one; an operator does so for everyone."""
        return await self.send(requests.discard_dead_letters(dataflow))

    def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> AsyncIterator[OutputEvent]:
        """Follow all outputs of a dataflow or one, without end, from the last so many past events, as far as kept."""
        return self._stream(OutputStreamReader(self.url, dataflow, sink, last))

    def events(self) -> AsyncIterator[EventAnswer]:
        """Follow what happens from now on, without end."""
        return self._stream(EventStreamReader(self.url))
