"""What can be asked of the service: a record for each REST route, in the order of the routes. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from manager.answers import (
    BillAnswer,
    BrokerCredentials,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DeadLetterAnswer,
    Discarded,
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

Document = Mapping[str, Any] | bytes
"""A document as it was read from a file, or as data."""
A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
EVENTS_PATH = "/v1/events"
ONE_TIME_PREFIX = "~"
"""What the name of a producer of events begins with that is for one use."""
IDEMPOTENCY = "Idempotency-Key"
_PAGE_SIZE = 100
"""How many items of a list are asked for at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[A]):
    """One request; made by the functions below, sent by a client."""

    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
    path: str
    answer: type[A]
    """The form of the answer to it."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method == "GET" or IDEMPOTENCY in self.headers or "producer" in self.query


def following(request: Request[Page[P]], cursor: str) -> Request[Page[P]]:
    """The request for the page that begins at a cursor."""
    return replace(request, query={**request.query, "after": cursor})


def submit(
    document: Document, *, tenant: str | None = None, idempotency_key: str, start: Start = Start.LATEST
) -> Request[SubmitAnswer]:
    """Submit a document; sent again with the same key it is answered again, and submitted once."""
    return Request(
        method="POST",
        path="/v1/dataflows",
        answer=SubmitAnswer,
        query=_given(tenant=tenant, start=_begun(start)),
        headers={IDEMPOTENCY: idempotency_key},
        body=_written(document),
    )


def dataflows(
    *,
    tenant: str | None = None,
    state: DataflowState | None = None,
    name: str | None = None,
    source: str | None = None,
    search: str | None = None,
) -> Request[Page[DataflowAnswer]]:
    """The caller's dataflows."""
    query = _given(tenant=tenant, state=state, name=name, source=source, search=search)
    return _list("/v1/dataflows", Page[DataflowAnswer], query)


def dataflow(id: str) -> Request[DataflowDetail]:  # noqa: A002 - the word that callers know it by
    """One dataflow."""
    return Request(path=_path("dataflows", id), answer=DataflowDetail)


def replacement(id: str, document: Document) -> Request[SubmitAnswer]:  # noqa: A002 - as above
    """Swap a dataflow's document for an edited one."""
    return Request(method="PUT", path=_path("dataflows", id), answer=SubmitAnswer, body=_written(document))


def removal(id: str, how: Stop = Stop.NOW) -> Request[DataflowAnswer]:  # noqa: A002 - as above
    """Remove a dataflow."""
    return Request(method="DELETE", path=_path("dataflows", id), answer=DataflowAnswer, query=_given(stop=how))


def preview_removal(id: str) -> Request[RemovalAnswer]:  # noqa: A002 - as above
    """What removing a dataflow would do."""
    return Request(path=_path("dataflows", id, "removal"), answer=RemovalAnswer)


def explain(document: Document, *, tenant: str | None = None, start: Start = Start.LATEST) -> Request[ExplainAnswer]:
    """What submitting a document would do."""
    return Request(
        method="POST",
        path="/v1/explain",
        answer=ExplainAnswer,
        query=_given(tenant=tenant, start=_begun(start)),
        body=_written(document),
    )


def register_source(form: SourceForm | bytes) -> Request[SourceAnswer]:
    """Register a source."""
    return Request(method="POST", path="/v1/sources", answer=SourceAnswer, body=_filled(form))


def sources() -> Request[Page[SourceAnswer]]:
    """The sources that the caller may read."""
    return _list("/v1/sources", Page[SourceAnswer])


def source(name: str) -> Request[SourceAnswer]:
    """One source."""
    return Request(path=_path("sources", name), answer=SourceAnswer)


def send_events(name: str, events: bytes, *, producer: str, first: int) -> Request[SentAnswer]:
    """Send events as JSON lines; sent again with the same numbers they add nothing."""
    return Request(
        method="POST",
        path=_path("sources", name, "events"),
        answer=SentAnswer,
        query={"producer": producer, "first": str(first)},
        headers={"Content-Type": "application/x-ndjson"},
        body=events,
    )


def producer(name: str, producer: str) -> Request[ProducerAnswer]:
    """How far a producer is in a source."""
    return Request(path=_path("sources", name, "producers", producer), answer=ProducerAnswer)


def revoke_source(name: str) -> Request[Stopped]:
    """Take a source away."""
    return Request(method="DELETE", path=_path("sources", name), answer=Stopped)


def set_visibility(name: str, form: VisibilityForm) -> Request[Stopped]:
    """Say who may read a source."""
    return Request(method="PUT", path=_path("sources", name, "visibility"), answer=Stopped, body=_filled(form))


def admit(form: TenantForm) -> Request[TenantAnswer]:
    """Admit a tenant."""
    return Request(method="POST", path="/v1/tenants", answer=TenantAnswer, body=_filled(form))


def tenants() -> Request[Page[TenantAnswer]]:
    """The tenants that the caller may see."""
    return _list("/v1/tenants", Page[TenantAnswer])


def set_quota(tenant: str, quota: Quota) -> Request[TenantAnswer]:
    """Set what a tenant may use."""
    return Request(method="PUT", path=_path("tenants", tenant, "quota"), answer=TenantAnswer, body=_filled(quota))


def make_credentials(tenant: str) -> Request[BrokerCredentials]:
    """Make a tenant's broker credentials."""
    return Request(method="POST", path=_path("tenants", tenant, "credentials"), answer=BrokerCredentials)


def make_key(form: KeyForm) -> Request[NewKeyAnswer]:
    """Make an API key."""
    return Request(method="POST", path="/v1/keys", answer=NewKeyAnswer, body=_filled(form))


def keys() -> Request[Page[KeyAnswer]]:
    """The caller's API keys."""
    return _list("/v1/keys", Page[KeyAnswer])


def revoke_key(id: str) -> Request[KeyAnswer]:  # noqa: A002 - as above
    """Have an API key let nobody in any more."""
    return Request(method="DELETE", path=_path("keys", id), answer=KeyAnswer)


def put_secret(name: str, form: SecretForm, tenant: str | None) -> Request[SecretAnswer]:
    """Keep a secret."""
    path, query = _path("secrets", name), _given(tenant=tenant)
    return Request(method="PUT", path=path, answer=SecretAnswer, query=query, body=_filled(form))


def secrets(tenant: str | None) -> Request[Page[SecretAnswer]]:
    """The names of secrets."""
    return _list("/v1/secrets", Page[SecretAnswer], _given(tenant=tenant))


def remove_secret(name: str, tenant: str | None) -> Request[SecretAnswer]:
    """Keep a secret no longer."""
    return Request(method="DELETE", path=_path("secrets", name), answer=SecretAnswer, query=_given(tenant=tenant))


def running_tasks(job: str | None) -> Request[Page[RunningTaskAnswer]]:
    """The running graph."""
    return _list("/v1/running/tasks", Page[RunningTaskAnswer], _given(job=job))


def running_dags() -> Request[Page[RunningDagAnswer]]:
    """The running DAGs."""
    return _list("/v1/running/dags", Page[RunningDagAnswer])


def jobs() -> Request[Page[JobAnswer]]:
    """The jobs."""
    return _list("/v1/jobs", Page[JobAnswer])


def job(name: str) -> Request[JobAnswer]:
    """One job."""
    return Request(path=_path("jobs", name), answer=JobAnswer)


def streams() -> Request[Page[StreamAnswer]]:
    """The derived streams that cross jobs."""
    return _list("/v1/streams", Page[StreamAnswer])


def hosts() -> Request[Page[HostAnswer]]:
    """The hosts."""
    return _list("/v1/hosts", Page[HostAnswer])


def overview() -> Request[OverviewAnswer]:
    """How much there is, and in which state."""
    return Request(path="/v1/overview", answer=OverviewAnswer)


def fragmentation() -> Request[FragmentationAnswer]:
    """How scattered the jobs are."""
    return Request(path="/v1/fragmentation", answer=FragmentationAnswer)


def defragment() -> Request[MoveAnswer]:
    """Consolidate the jobs, or relieve one that is overloaded."""
    return Request(method="POST", path="/v1/defragmentations", answer=MoveAnswer)


def savings(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tenant: str | None = None,
    dataflow: str | None = None,
) -> Request[SavingsAnswer]:
    """What sharing saved in an interval."""
    query = _given(**_times(since, until), tenant=tenant, dataflow=dataflow)
    return Request(path="/v1/reports/savings", answer=SavingsAnswer, query=query)


def savings_series(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    step: int | None = None,
    tenant: str | None = None,
) -> Request[SeriesAnswer]:
    """What sharing saved in each step of an interval."""
    query = _given(**_times(since, until), step=None if step is None else str(step), tenant=tenant)
    return Request(path="/v1/reports/savings/series", answer=SeriesAnswer, query=query)


def bill(
    *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
) -> Request[BillAnswer]:
    """What each tenant and each dataflow costs in some hours."""
    query = _given(**_times(since, until), tenant=tenant)
    return Request(path="/v1/reports/bills", answer=BillAnswer, query=query)


def operations(*, kind: OperationKind | None = None, subject: str | None = None) -> Request[Page[OperationAnswer]]:
    """The journal."""
    return _list("/v1/operations", Page[OperationAnswer], _given(kind=kind, subject=subject))


def dead_letters(*, dataflow: str | None = None) -> Request[Page[DeadLetterAnswer]]:
    """What tasks of the caller's dataflows could not take."""
    return _list("/v1/dead-letters", Page[DeadLetterAnswer], _given(dataflow=dataflow))


def replay_dead_letter(id: int) -> Request[Replayed]:  # noqa: A002 - as above
    """Feed one dead letter to its task again."""
    return Request(method="POST", path=_path("dead-letters", str(id), "replay"), answer=Replayed)


def replay_dead_letters(dataflow: str) -> Request[Replayed]:
    """Feed the dead letters of a dataflow to its tasks again."""
    return Request(method="POST", path="/v1/dead-letters/replay", answer=Replayed, query=_given(dataflow=dataflow))


def discard_dead_letter(id: int) -> Request[Discarded]:  # noqa: A002 - as above
    """Discard one dead letter."""
    return Request(method="DELETE", path=_path("dead-letters", str(id)), answer=Discarded)


def discard_dead_letters(dataflow: str) -> Request[Discarded]:
    """Discard the dead letters of a dataflow."""
    return Request(method="DELETE", path="/v1/dead-letters", answer=Discarded, query=_given(dataflow=dataflow))


def _list(path: str, answer: type[Page[P]], query: Mapping[str, str] | None = None) -> Request[Page[P]]:
    return Request(path=path, answer=answer, query={**(query or {}), "limit": str(_PAGE_SIZE)})


def outputs(dataflow: str) -> str:
    """Where the outputs of a dataflow are heard."""
    return _path("dataflows", dataflow, "outputs")


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _times(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    return {name: None if at is None else at.isoformat() for name, at in (("from", since), ("to", until))}


def _given(**query: str | None) -> dict[str, str]:
    return {name: value for name, value in query.items() if value is not None}


def _begun(start: Start) -> Start | None:
    """What was there before needs no telling, also where the service is of an earlier release."""
    return None if start is Start.LATEST else start


def _written(document: Document) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()


def _filled(form: BaseModel | bytes) -> bytes:
    """What was filled in of a form; the service knows the rest better."""
    return form if isinstance(form, bytes) else form.model_dump_json(by_alias=True, exclude_unset=True).encode()
