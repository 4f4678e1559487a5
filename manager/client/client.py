"""The sync client: each method sends one request of `manager.client.requests` and gives its answer."""

import secrets
import time
from collections.abc import Callable, Iterator
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


class Client:
    """Asks one service, as the holder of one API key; close it, or use it in a `with`."""

    def __init__(
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers(key),
            timeout=TIMEOUT,
            transport=transport,
            trust_env=trusts_environment(self.url),
        )

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up its connections."""
        self._http.close()

    def submit(
        self,
        document: Document,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document, once, however often it has to be sent; an operator says for which tenant."""
        key = idempotency_key or secrets.token_urlsafe()
        return self.send(requests.submit(document, tenant=tenant, idempotency_key=key, start=start))

    def replace(self, dataflow: str, document: Document) -> SubmitAnswer:
        """Swap a dataflow's document for an edited one, as one change."""
        return self.send(requests.replacement(dataflow, document))

    def remove(self, dataflow: str, how: Stop = Stop.NOW) -> DataflowAnswer:
        """Remove a dataflow."""
        return self.send(requests.removal(dataflow, how))

    def preview_removal(self, dataflow: str) -> RemovalAnswer:
        """What removing a dataflow would stop, and leave to others; nothing is changed."""
        return self.send(requests.preview_removal(dataflow))

    def explain(self, document: Document, *, tenant: str | None = None, start: Start = Start.LATEST) -> ExplainAnswer:
        """What submitting a document would do; nothing is changed."""
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
        """Register a source; a form that was read from a file is sent as it is."""
        return self.send(requests.register_source(form))

    def sources(self) -> Iterator[SourceAnswer]:
        """The sources that the caller may read."""
        return self._items(requests.sources())

    def source(self, name: str) -> SourceAnswer:
        """One source."""
        return self.send(requests.source(name))

    def send_events(self, source: str, events: bytes, producer: str | None = None, first: int = 0) -> SentAnswer:
        """Send events as JSON lines, once, however often they have to be sent; without a producer they are new."""
        name = producer or f"{requests.ONE_TIME_PREFIX}{secrets.token_hex(8)}"
        return self.send(requests.send_events(source, events, producer=name, first=first))

    def producer(self, source: str, producer: str) -> ProducerAnswer:
        """How far a producer of events is in a source."""
        return self.send(requests.producer(source, producer))

    def set_visibility(self, name: str, form: VisibilityForm) -> Stopped:
        """Say who may read a source; tells how many dataflows that stopped."""
        return self.send(requests.set_visibility(name, form))

    def revoke_source(self, name: str) -> Stopped:
        """Take a source away; tells how many dataflows that stopped."""
        return self.send(requests.revoke_source(name))

    def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return self.send(requests.admit(form))

    def tenants(self) -> Iterator[TenantAnswer]:
        """Every tenant for an operator, itself for a tenant."""
        return self._items(requests.tenants())

    def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return self.send(requests.set_quota(tenant, quota))

    def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; those it had before let nobody in any more."""
        return self.send(requests.make_credentials(tenant))

    def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anybody, a tenant for itself."""
        return self.send(requests.make_key(form))

    def keys(self) -> Iterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(requests.keys())

    def revoke_key(self, key: str) -> KeyAnswer:
        """Have an API key, named by its id, let nobody in any more."""
        return self.send(requests.revoke_key(key))

    def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a secret; for which tenant is said by operators only."""
        return self.send(requests.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> Iterator[SecretAnswer]:
        """The names of the caller's secrets; of all, or a tenant's, for an operator."""
        return self._items(requests.secrets(tenant))

    def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Keep a secret no longer; tasks that name it fail."""
        return self.send(requests.remove_secret(name, tenant))

    def running_tasks(self, *, job: str | None = None) -> Iterator[RunningTaskAnswer]:
        """The running graph, or what of it a job has, by instance; operators only."""
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
        """How much there is, and in which state: everybody's for an operator, its own for a tenant."""
        return self.send(requests.overview())

    def fragmentation(self) -> FragmentationAnswer:
        """How scattered the jobs are; for operators."""
        return self.send(requests.fragmentation())

    def defragment(self) -> MoveAnswer:
        """Consolidate the jobs now, or relieve one that is overloaded; the journal says how it went; for operators."""
        return self.send(requests.defragment())

    def savings(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """What sharing saved in an interval, the last hour if none is given; a tenant learns of nothing but its own."""
        return self.send(requests.savings(since=since, until=until, tenant=tenant, dataflow=dataflow))

    def savings_series(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """What sharing saved in each step of an interval, the last hour if none is given; `step` is in seconds."""
        return self.send(requests.savings_series(since=since, until=until, step=step, tenant=tenant))

    def bill(
        self, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """What each tenant and each dataflow costs in some hours, this month so far if none are given."""
        return self.send(requests.bill(since=since, until=until, tenant=tenant))

    def operations(self, *, kind: OperationKind | None = None, subject: str | None = None) -> Iterator[OperationAnswer]:
        """The journal, newest first."""
        return self._items(requests.operations(kind=kind, subject=subject))

    def dead_letters(self, *, dataflow: str | None = None) -> Iterator[DeadLetterAnswer]:
        """What tasks of the caller's dataflows could not take, newest first."""
        return self._items(requests.dead_letters(dataflow=dataflow))

    def replay_dead_letter(self, id: int) -> Replayed:  # noqa: A002 - as below
        """Feed one dead letter to its task again, once; where that serves others as well, an operator does it."""
        return self.send(requests.replay_dead_letter(id))

    def replay_dead_letters(self, dataflow: str) -> Replayed:
        """Feed the dead letters of a dataflow to its tasks again, the oldest first; `left` says how many are left."""
        return self.send(requests.replay_dead_letters(dataflow))

    def discard_dead_letter(self, id: int) -> Discarded:  # noqa: A002 - the word that callers know it by
        """Discard one dead letter: a tenant for itself, an operator for everybody."""
        return self.send(requests.discard_dead_letter(id))

    def discard_dead_letters(self, dataflow: str) -> Discarded:
        """Discard the dead letters of a dataflow, which may be removed; an operator does it for everybody."""
        return self.send(requests.discard_dead_letters(dataflow))

    def tail(self, dataflow: str, sink: str | None = None, *, last: int = 0) -> Iterator[OutputEvent]:
        """What leaves at the outputs of a dataflow, or at one; taken up again where the connection breaks.

        It begins with so many events that left before, as far as they are still known.
        """
        reading, path = OutputStreamReader(self.url, sink, last), requests.outputs(dataflow)
        while True:
            try:
                with self._http.stream("GET", path, params=reading.query, timeout=STREAM_SILENCE) as answer:
                    if answer.is_error:
                        answer.read()
                        wait = reading.broken(answer)
                    else:
                        for line in answer.iter_lines():
                            yield from reading.taken(line, answer)
                        wait = reading.ended()
            except httpx.TransportError as error:
                wait = reading.broken(error)
            self._sleep(wait)

    def events(self) -> Iterator[EventAnswer]:
        """What happens from now on, as it happens; taken up again where the connection breaks."""
        reading = EventStreamReader(self.url)
        while True:
            try:
                with self._http.stream(
                    "GET", requests.EVENTS_PATH, headers=reading.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        wait = reading.broken(answer)
                    else:
                        for line in answer.iter_lines():
                            yield from reading.line(line, answer)
                        wait = reading.ended()
            except httpx.TransportError as error:
                wait = reading.broken(error)
            self._sleep(wait)

    def send(self, request: Request[A]) -> A:
        """Send a request; again where that is safe and may help."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            came: httpx.Response | httpx.TransportError | None = None
            if isinstance(step, Wait):
                self._sleep(step.seconds)
            else:
                try:
                    came = self._http.request(
                        step.method, step.path, params=step.query, headers=step.headers, content=step.body
                    )
                except httpx.TransportError as error:
                    came = error
            try:
                step = steps.send(came)
            except StopIteration as done:
                answer: A = done.value
                return answer

    def _items(self, request: Request[Page[P]]) -> Iterator[P]:
        """The items of a list; each page is asked for when the one before it was used up."""
        while True:
            page = self.send(request)
            yield from page.items
            if page.next is None:
                return
            request = requests.following(request, page.next)
