"""Both clients against the REST API, over a fake service."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from braid_client import AsyncClient, Client, Refused
from braid_client.answers.dataflows import DataflowState, Start, Stop
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.sources import SchemaForm, VisibilityForm
from braid_client.answers.tenants import KeyForm, Quota, TenantForm
from manager.kernel.live_events import LiveEvents
from manager.rest.app import make_app
from tests.braid_client.test_clients import LISTS, ROUTES
from tests.manager.rest.fake_service import FakeService
from tests.manager.rest.socket_server import serving

DOCUMENT = {
    "version": 1,
    "name": "Schools",
    "tasks": [{"id": "s", "type": "source", "config": {"source": "city"}}, {"id": "o", "type": "output"}],
    "streams": [{"from": "s", "to": "o"}],
}
SOURCE = b'{"name": "city", "connection": {"kind": "topic", "topic": "city/raw"}, "schema": {"f": "float"}}'
BELOW = re.compile(r"\{\w+\}")


class Served:
    """A fake service behind REST, with its URL and events."""

    def __init__(self, url: str, service: FakeService, events: LiveEvents) -> None:
        self.url = url
        self.service = service
        self.events = events

    def client(self, key: str) -> Client:
        return Client(self.url, key)


@contextmanager
def rest() -> Iterator[Served]:
    service, events = FakeService(), LiveEvents(last=0)
    with serving(make_app(service.use_cases, events, lambda: None)) as url:
        try:
            yield Served(url, service, events)
        finally:
            events.close()


@pytest.fixture
def served() -> Iterator[Served]:
    with rest() as found:
        yield found


def test_every_route_has_a_method_and_every_method_a_route() -> None:
    """But for live streams, which are tested below, sessions, which are for browsers, and what services post."""
    paths = make_app(FakeService().use_cases, LiveEvents(), lambda: None).openapi()["paths"]
    documented = {
        (verb.upper(), re.sub(BELOW, "x", path))
        for path, verbs in paths.items()
        for verb in verbs
        if path.startswith("/v1/")
        and path not in {"/v1/session", "/v1/hooks/{token}"}
        and not (verb == "get" and path.endswith(("/v1/events", "/outputs", "/{sink}/events")))
    }
    asked = {(verb, _without_ids(path)) for _, _, verb, path, *_ in ROUTES}
    assert documented == asked | {("GET", path) for path, _ in LISTS.values()} | {
        ("GET", "/v1/dataflows/x/reconfigurations"),
        ("GET", "/v1/modules/x"),
        ("POST", "/v1/modules/x/x/vouch"),
        ("DELETE", "/v1/modules/x/x/vouch"),
        ("PUT", "/v1/wheels/x"),
    }


def _without_ids(path: str) -> str:
    """The path of a request, with each id replaced.

    >>> _without_ids("/v1/tenants/school/quota"), _without_ids("/v1/explain"), _without_ids("/v1/dead-letters/replay")
    ('/v1/tenants/x/quota', '/v1/explain', '/v1/dead-letters/replay')
    """
    found = re.fullmatch(r"(/v1/[^/?]+)(/[^/?]+)?(/[^?]+)?(\?.*)?", path)
    assert found is not None
    # No id has one of these names.
    below = (
        found[2]
        if found[2] in {"/replay", "/savings", "/bills", "/bundle", "/preview", "/propose", "/link"}
        else "/x"
        if found[2]
        else ""
    )
    further = re.sub(r"^/\d+", "/x", found[3] or "")
    return re.sub(r"/(producers|reconfigurations|tasks)/[^/]+", r"/\1/x", f"{found[1]}{below}{further}")


def test_a_dataflow_is_submitted_replaced_and_removed(served: Served) -> None:
    """One after the other; each step has its answer."""
    with served.client(served.service.ann) as ann:
        assert [each.id for each in ann.explain(DOCUMENT).reused] == []
        assert [*Start] == [ann.explain(DOCUMENT, start=each).start for each in Start]
        assert 1 == len(ann.explain_together([DOCUMENT]).documents)
        (together,) = ann.submit_together([DOCUMENT]).dataflows
        ann.remove(together.id)
        submitted = ann.submit(DOCUMENT)
        again = ann.replace(submitted.id, DOCUMENT | {"name": "More"})
        assert (submitted.id, 2, "More") == (again.id, again.revision, again.name)
        assert DOCUMENT | {"name": "More"} == ann.dataflow(submitted.id).document
        assert ann.remove(submitted.id, Stop.DRAIN).state is DataflowState.DRAINING
        assert [again.id] == [each.id for each in ann.dataflows(state=DataflowState.DRAINING, name="More")]
        assert ann.remove(submitted.id).state is DataflowState.REMOVED
        assert [] == list(ann.dataflows())
        assert ["remove", "remove", "submit"] == [each.kind for each in ann.operations(subject=submitted.id)]


def test_the_idempotency_key_reaches_the_service(served: Served) -> None:
    """A repeated key submits once; without a key each submission gets its own."""
    with served.client(served.service.ann) as ann:
        first, again = (ann.submit(DOCUMENT, idempotency_key="mine") for _ in range(2))
        assert first.id == again.id
        assert first.id != ann.submit(DOCUMENT).id
    assert None not in [key for key, _ in served.service.seen]


def test_the_idempotency_key_of_a_reconfiguration_reaches_the_service(served: Served) -> None:
    """A repeated key changes once; without a key each change gets its own."""
    form = ReconfigurationForm(tasks={"plausible": {"config": {"max": 50.0}}})
    with served.client(served.service.ann) as ann:
        flow = ann.submit(DOCUMENT).id
        first, again = (ann.reconfigure(flow, form, idempotency_key="mine") for _ in range(2))
        assert first.id == again.id
        assert first.id != ann.reconfigure(flow, form).id


def test_a_long_list_is_read_completely(served: Served) -> None:
    """Page by page, in order, without gaps or repeats."""
    with served.client(served.service.operator) as operator:
        ids = [operator.submit(DOCUMENT, tenant="ann").id for _ in range(103)]
        assert ids == [each.id for each in operator.dataflows(tenant="ann")]


def test_sources_tenants_and_keys_are_administered(served: Served) -> None:
    """Forms arrive as filled in; the service sets the defaults."""
    with served.client(served.service.operator) as operator, served.client(served.service.ann) as ann:
        source = ann.register_source(SOURCE)
        assert {"f": "float"} == source.fields
        assert ann.set_visibility(source.name, VisibilityForm(visibility="public")).dataflows == 0
        wider = SchemaForm.model_validate({"schema": {"f": "float", "g": "float"}})
        assert wider.fields == ann.declare_fields(source.name, wider).source.fields
        assert [source.name] == [each.name for each in operator.sources()]
        assert source.name == operator.source(source.name).name
        assert ann.revoke_source(source.name).dataflows == 0
        assert operator.admit(TenantForm(name="carl")).quota == Quota()
        assert operator.set_quota("carl", Quota(tasks=1)).quota == Quota(tasks=1)
        assert ["ann", "bob", "carl"] == [each.name for each in operator.tenants()]
        login = operator.make_credentials("carl").model_dump(exclude={"password", "made"})
        assert login == operator.broker_login("carl").model_dump(exclude={"made"})
        made = operator.make_key(KeyForm(tenant="carl", note="first"))
        with served.client(made.key) as carl:
            assert [made.id] == [each.id for each in carl.keys()]  # noqa: SIM118 - a client is no dictionary
            operator.revoke_key(made.id)
            with pytest.raises(Refused) as raised:
                next(carl.keys())
        assert (401, "unauthenticated") == (raised.value.status, raised.value.code)


def test_operators_read_what_runs(served: Served) -> None:
    """The client understands each list; a tenant is refused."""
    with served.client(served.service.operator) as operator:
        for name in (
            "running_tasks",
            "running_dags",
            "jobs",
            "streams",
            "hosts",
            "machines",
            "machine_classes",
            "rentals",
            "images",
        ):
            assert list(getattr(operator, name)()) != []
        (job, *_) = operator.jobs()
        assert job == operator.job(job.job)
        assert [] == list(operator.dead_letters())
    with served.client(served.service.ann) as ann, pytest.raises(Refused) as raised:
        next(ann.jobs())
    assert (403, "forbidden") == (raised.value.status, raised.value.code)


def test_savings_are_requested_for_an_interval(served: Served) -> None:
    """The bounds arrive as given, in any time zone; a tenant sees its own savings only."""
    since = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    with served.client(served.service.operator) as operator:
        found = operator.savings(since=since, until=since + timedelta(hours=1), tenant="ann", dataflow="d1")
        assert (since, True) == (found.since, found.whole is not None)
    with served.client(served.service.ann) as ann:
        assert ann.savings().whole is None
        with pytest.raises(Refused, match="bob"):
            ann.savings(tenant="bob")


def test_bills_and_series_are_requested_for_an_interval(served: Served) -> None:
    """Bounds and step arrive as given; amounts keep each digit."""
    since = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    with served.client(served.service.operator) as operator:
        bill = operator.bill(since=since, until=since + timedelta(hours=1), tenant="ann")
        assert (since, "2.232000") == (bill.since, str(bill.dataflows[0].pays.amount))
        series = operator.savings_series(since=since, until=since + timedelta(hours=1), step=120, tenant="ann")
        assert (since, 120) == (series.since, series.step)


def test_a_refused_document_raises_its_problems(served: Served) -> None:
    """Each with its pointer."""
    with served.client(served.service.ann) as ann, pytest.raises(Refused) as raised:
        ann.submit(DOCUMENT | {"more": 1})
    assert (422, "invalid-dataflow") == (raised.value.status, raised.value.code)
    assert ["/more"] == [each.pointer for each in raised.value.errors]


def test_an_exhausted_quota_is_retried_after_the_stated_wait(served: Served) -> None:
    """The client follows Retry-After, and gives up after some attempts."""
    waited: list[float] = []
    with served.client(served.service.operator) as operator:
        operator.set_quota("ann", Quota(dataflows=0))
    with Client(served.url, served.service.ann, sleep=waited.append) as ann, pytest.raises(Refused) as raised:
        ann.submit(DOCUMENT)
    assert (429, "quota-exceeded", 1.0) == (raised.value.status, raised.value.code, raised.value.retry_after)
    assert waited == [1.0] * 4


def test_events_arrive_as_they_happen(served: Served) -> None:
    """Those after the last received one come first; an operator receives all."""
    heard: list[Any] = []
    with served.client(served.service.operator) as operator:
        # The service counts from 1, so no event between the request and its answer is missed.
        served.events.add("job", {"job": "j1", "state": "running"})
        operator._http.headers["Last-Event-ID"] = "0"
        for event in operator.events():
            heard.append((event.kind, event.told))
            if len(heard) == 2:
                break
            served.events.add("dataflow", {"tenant": "ann", "dataflow": "d"})
    assert [("job", {"job": "j1", "state": "running"}), ("dataflow", {"tenant": "ann", "dataflow": "d"})] == heard


async def _asked(url: str, key: str) -> tuple[Start, str, list[str]]:
    async with AsyncClient(url, key) as client:
        explained = await client.explain(DOCUMENT, start=Start.EARLIEST)
        submitted = await client.submit(DOCUMENT)
        return explained.start, submitted.id, [each.id async for each in client.dataflows()]


def test_the_async_client_works_like_the_sync_one(served: Served) -> None:
    """It explains, submits and lists."""
    explained, submitted, listed = asyncio.run(_asked(served.url, served.service.bob))
    assert (Start.EARLIEST, [submitted]) == (explained, listed)
