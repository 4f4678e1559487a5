"""The async client: each method sends one request of `manager.client.requests` and gives its answer."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, SecretStr

from manager.answers import (
    BillAnswer,
    BrokerCredentials,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DeadLetterAnswer,
    Discarded,
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
    OutputEvent,
    OverviewAnswer,
    Page,
    ProducerAnswer,
    Quota,
    RemovalAnswer,
    Replayed,
    RunningDagAnswer,
    RunningTaskAnswer,
    SavingsAnswer,
    SecretAnswer,
    SecretForm,
    SentAnswer,
    SeriesAnswer,
    SourceAnswer,
    SourceForm,
    Start,
    Stop,
    Stopped,
    StreamAnswer,
    SubmitAnswer,
    TenantAnswer,
    TenantForm,
    VisibilityForm,
)
from manager.client import requests
from manager.client.connection import TIMEOUT, headers, trusts_environment
from manager.client.event_stream import STREAM_SILENCE, EventStreamReader
from manager.client.output_stream import OutputStreamReader
from manager.client.requests import Document, Request
from manager.client.retry import ExchangeStep, Wait, exchange

A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)


class AsyncClient:
    """Asks one service, as the holder of one API key; close it, or use it in a `async with`."""

    def __init__(
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers(key),
            timeout=TIMEOUT,
            transport=transport,
            trust_env=trusts_environment(self.url),
        )

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up its connections."""
        await self._http.aclose()

    async def submit(
        self,
        document: Document,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document, once, however often it has to be sent; an operator says for which tenant."""
        key = idempotency_key or secrets.token_urlsafe()
        return await self.send(requests.submit(document, tenant=tenant, idempotency_key=key, start=start))

    async def replace(self, dataflow: str, document: Document) -> SubmitAnswer:
        """Swap a dataflow's document for an edited one, as one change."""
        return await self.send(requests.replacement(dataflow, document))

    async def remove(self, dataflow: str, how: Stop = Stop.NOW) -> DataflowAnswer:
        """Remove a dataflow."""
        return await self.send(requests.removal(dataflow, how))

    async def preview_removal(self, dataflow: str) -> RemovalAnswer:
        """What removing a dataflow would stop, and leave to others; nothing is changed."""
        return await self.send(requests.preview_removal(dataflow))

    async def explain(
        self, document: Document, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> ExplainAnswer:
        """What submitting a document would do; nothing is changed."""
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
        """Register a source; a form that was read from a file is sent as it is."""
        return await self.send(requests.register_source(form))

    def sources(self) -> AsyncIterator[SourceAnswer]:
        """The sources that the caller may read."""
        return self._items(requests.sources())

    async def source(self, name: str) -> SourceAnswer:
        """One source."""
        return await self.send(requests.source(name))

    async def send_events(self, source: str, events: bytes, producer: str | None = None, first: int = 0) -> SentAnswer:
        """Send events as JSON lines, once, however often they have to be sent; without a producer they are new."""
        name = producer or f"{requests.ONE_TIME_PREFIX}{secrets.token_hex(8)}"
        return await self.send(requests.send_events(source, events, producer=name, first=first))

    async def producer(self, source: str, producer: str) -> ProducerAnswer:
        """How far a producer of events is in a source."""
        return await self.send(requests.producer(source, producer))

    async def set_visibility(self, name: str, form: VisibilityForm) -> Stopped:
        """Say who may read a source; tells how many dataflows that stopped."""
        return await self.send(requests.set_visibility(name, form))

    async def revoke_source(self, name: str) -> Stopped:
        """Take a source away; tells how many dataflows that stopped."""
        return await self.send(requests.revoke_source(name))

    async def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return await self.send(requests.admit(form))

    def tenants(self) -> AsyncIterator[TenantAnswer]:
        """Every tenant for an operator, itself for a tenant."""
        return self._items(requests.tenants())

    async def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return await self.send(requests.set_quota(tenant, quota))

    async def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; those it had before let nobody in any more."""
        return await self.send(requests.make_credentials(tenant))

    async def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anybody, a tenant for itself."""
        return await self.send(requests.make_key(form))

    def keys(self) -> AsyncIterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(requests.keys())

    async def revoke_key(self, key: str) -> KeyAnswer:
        """Have an API key, named by its id, let nobody in any more."""
        return await self.send(requests.revoke_key(key))

    async def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a secret; for which tenant is said by operators only."""
        return await self.send(requests.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> AsyncIterator[SecretAnswer]:
        """The names of the caller's secrets; of all, or a tenant's, for an operator."""
        return self._items(requests.secrets(tenant))

    async def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a secret no longer; tasks that name it fail."""
        return await self.send(requests.remove_secret(name, tenant))

    def running_tasks(self, *, job: str | None = None) -> AsyncIterator[RunningTaskAnswer]:
        """The running graph, or what of it a job has, by instance; operators only."""
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
        """How much there is, and in which state: everybody's for an operator, its own for a tenant."""
        return await self.send(requests.overview())

    async def fragmentation(self) -> FragmentationAnswer:
        """How scattered the jobs are; for operators."""
        return await self.send(requests.fragmentation())

    async def defragment(self) -> MoveAnswer:
        """Consolidate the jobs now, or relieve one that is overloaded; the journal says how it went; for operators."""
        return await self.send(requests.defragment())

    async def savings(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """What sharing saved in an interval, the last hour if none is given; a tenant learns of nothing but its own."""
        return await self.send(requests.savings(since=since, until=until, tenant=tenant, dataflow=dataflow))

    async def savings_series(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """What sharing saved in each step of an interval, the last hour if none is given; `step` is in seconds."""
        return await self.send(requests.savings_series(since=since, until=until, step=step, tenant=tenant))

    async def bill(
        self, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """What each tenant and each dataflow costs in some hours, this month so far if none are given."""
        return await self.send(requests.bill(since=since, until=until, tenant=tenant))

    def operations(
        self, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> AsyncIterator[OperationAnswer]:
        """The journal, newest first."""
        return self._items(requests.operations(kind=kind, subject=subject))

    def dead_letters(self, *, dataflow: str | None = None) -> AsyncIterator[DeadLetterAnswer]:
        """What tasks of the caller's dataflows could not take, newest first."""
        return self._items(requests.dead_letters(dataflow=dataflow))

    async def replay_dead_letter(self, id: int) -> Replayed:  # noqa: A002 - as below
        """Feed one dead letter to its task again, once; where that serves others as well, an operator does it."""
        return await self.send(requests.replay_dead_letter(id))

    async def replay_dead_letters(self, dataflow: str) -> Replayed:
        """Feed the dead letters of a dataflow to its tasks again, the oldest first; `left` says how many are left."""
        return await self.send(requests.replay_dead_letters(dataflow))

    async def discard_dead_letter(self, id: int) -> Discarded:  # noqa: A002 - the word that callers know it by
        """Discard one dead letter: a tenant for itself, an operator for everybody."""
        return await self.send(requests.discard_dead_letter(id))

    async def discard_dead_letters(self, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, which may be removed; an operator does it for everybody."""
        return await self.send(requests.discard_dead_letters(dataflow))

    async def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> AsyncIterator[OutputEvent]:
        """What leaves at the outputs of a dataflow, or at one; taken up again where the connection breaks.

        It begins with so many events that left before, as far as they are still known.
        """
        reading, path = OutputStreamReader(self.url, sink, last), requests.outputs(dataflow)
        while True:
            try:
                async with self._http.stream("GET", path, params=reading.query, timeout=STREAM_SILENCE) as answer:
                    if answer.is_error:
                        await answer.aread()
                        wait = reading.broken(answer)
                    else:
                        async for line in answer.aiter_lines():
                            for event in reading.taken(line, answer):
                                yield event
                        wait = reading.ended()
            except httpx.TransportError as error:
                wait = reading.broken(error)
            await self._sleep(wait)

    async def events(self) -> AsyncIterator[EventAnswer]:
        """What happens from now on, as it happens; taken up again where the connection breaks."""
        reading = EventStreamReader(self.url)
        while True:
            try:
                async with self._http.stream(
                    "GET", requests.EVENTS_PATH, headers=reading.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        await answer.aread()
                        wait = reading.broken(answer)
                    else:
                        async for line in answer.aiter_lines():
                            for event in reading.line(line, answer):
                                yield event
                        wait = reading.ended()
            except httpx.TransportError as error:
                wait = reading.broken(error)
            await self._sleep(wait)

    async def send(self, request: Request[A]) -> A:
        """Send a request; again where that is safe and may help."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            came: httpx.Response | httpx.TransportError | None = None
            if isinstance(step, Wait):
                await self._sleep(step.seconds)
            else:
                try:
                    came = await self._http.request(
                        step.method, step.path, params=step.query, headers=step.headers, content=step.body
                    )
                except httpx.TransportError as error:
                    came = error
            try:
                step = steps.send(came)
            except StopIteration as done:
                answer: A = done.value
                return answer

    async def _items(self, request: Request[Page[P]]) -> AsyncIterator[P]:
        """The items of a list; each page is asked for when the one before it was used up."""
        while True:
            page = await self.send(request)
            for item in page.items:
                yield item
            if page.next is None:
                return
            request = requests.following(request, page.next)
