"""The live stream over a real socket, also of all that becomes of a dataflow and its job."""

import asyncio
import json
from collections.abc import Iterator
from itertools import takewhile

import httpx
import pytest

from braid_client.answers.overview import EventAnswer
from braid_client.answers.tenants import Role, TenantForm
from bridge import topics
from engine.plan_messages import read_plan
from manager.kernel.dataflow_life import CommittedDataflowLookup
from manager.kernel.live_events import LiveEvents
from manager.reconciler import Reconciler
from manager.rest import streams as rest_streams
from manager.rest.app import make_app
from manager.rest.streams import EventFeed
from manager.use_case import Caller
from tests.integration.serving import counting, street
from tests.manager.observations.listened_host import Hearing
from tests.manager.rest.conftest import Asking
from tests.manager.rest.fake_service import FakeService
from tests.manager.rest.real_service import real_service
from tests.manager.rest.socket_server import Switch

_MOST_LINES = 200


def _events(answer: httpx.Response) -> Iterator[EventAnswer]:
    """The events of a stream; its other fields have to agree with them."""
    fields: dict[str, str] = {}
    for _, line in zip(range(_MOST_LINES), answer.iter_lines(), strict=False):
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            event = EventAnswer.model_validate_json(fields["data"])
            assert (f"{event.id}", event.kind) == (fields["id"], fields["event"])
            yield event
            fields = {}


def _listening(client: httpx.Client, last: int | None = None) -> Iterator[Iterator[EventAnswer]]:
    headers = {} if last is None else {"Last-Event-ID": f"{last}"}
    with client.stream("GET", "/v1/events", headers=headers) as answer:
        assert (200, "text/event-stream; charset=utf-8") == (answer.status_code, answer.headers["Content-Type"])
        yield _events(answer)


def _tell_all(events: LiveEvents) -> None:
    """One event of each kind for ann and for bob, numbered from 1, and then the end."""
    for name in ("ann", "bob"):
        events.add("operation", {"who": name})
        events.add("dataflow", {"tenant": name, "state": "running"})
    events.add("job", {"job": "1"})
    events.close()


def test_each_sees_what_is_its_own(
    ann: httpx.Client, bob: httpx.Client, operator: httpx.Client, events: LiveEvents
) -> None:
    """A tenant hears of its own operations and dataflows, an operator of everything."""
    _tell_all(events)
    heard = [[event.id for stream in _listening(client, 0) for event in stream] for client in (ann, bob, operator)]
    assert [[1, 2], [3, 4], [1, 2, 3, 4, 5]] == heard


def test_a_stream_goes_on_where_it_broke(operator: httpx.Client, events: LiveEvents) -> None:
    """What came after the last event that was got is sent first."""
    _tell_all(events)
    assert [4, 5] == [event.id for stream in _listening(operator, 3) for event in stream]


def test_a_stream_begins_now(operator: httpx.Client, events: LiveEvents) -> None:
    """Without a last event only what happens from now on is sent, as it happens."""
    events.add("job", {"job": "before"})
    for stream in _listening(operator):
        events.add("job", {"job": "after"})
        assert {"job": "after"} == next(stream).told
        events.add("job", {"job": "later"})
        assert {"job": "later"} == next(stream).told


def test_many_listen_while_others_ask(ask: Asking, service: FakeService, events: LiveEvents) -> None:
    """More listeners than there are threads all hear the same, and leave threads for requests."""
    listeners = [_listening(ask(service.ann)) for _ in range(60)]
    streams = [next(listener) for listener in listeners]
    assert 200 == ask(service.ann).get("/v1/keys").status_code
    events.add("dataflow", {"tenant": "ann"})
    assert [1] * 60 == [next(stream).id for stream in streams]
    events.close()
    assert [None] * 60 == [next(listener, None) for listener in listeners]


def test_a_revoked_key_hears_no_more(
    ann: httpx.Client, service: FakeService, events: LiveEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream ends soon after its key was revoked, although the manager goes on."""
    monkeypatch.setattr(rest_streams, "QUIET", 0.0)
    for stream in _listening(ann):
        events.add("dataflow", {"tenant": "ann"})
        assert 1 == next(stream).id
        service.known_keys.clear()
        service.hashes.clear()
        assert [] == list(stream)
    assert not events.closed


def test_one_thread_waits_for_all() -> None:
    """However many wait for news, the events are waited for once at a time, and nobody misses any."""
    waiting: list[int] = []

    class Counted(LiveEvents):
        def wait(self, event: int, timeout: float) -> tuple[EventAnswer, ...]:
            waiting.append(event)
            return super().wait(event, timeout)

    async def listen(feed: EventFeed) -> list[int]:
        found: list[EventAnswer] = []
        while not found:
            found = list(await feed.since(0))
        return [event.id for event in found]

    async def scenario() -> list[list[int]]:
        events = Counted(last=0)
        feed = EventFeed(events)
        listening = [asyncio.create_task(listen(feed)) for _ in range(100)]
        while not waiting:  # noqa: ASYNC110 - a thread begins to wait
            await asyncio.sleep(0)
        events.add("job", {})
        return await asyncio.gather(*listening)

    assert ([[1]] * 100, [0]) == (asyncio.run(scenario()), waiting)


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    made = Hearing()
    made.say(topics.host("main", "status"), {"alive": True})
    made.listener.start()
    made.until_complete()
    yield made
    made.listener.stop()


def test_a_life_is_reported_whole_and_in_order(served: tuple[Switch, str], sqlite: str, hearing: Hearing) -> None:
    """From its submission to the end of its job; what a tenant does not own it does not hear of."""
    switch, url = served
    events = LiveEvents(last=0)
    with real_service(sqlite) as made:
        service, committer, changes = made.service, made.tools.committer, made.tools.changes
        reconciler = Reconciler(
            changes.jobs,
            hearing.listener,
            events,
            dataflows=CommittedDataflowLookup(committer),
            drains=changes.drains,
        )

        def look() -> None:
            hearing.settle()
            reconciler.look()
            hearing.settle()

        look()
        operator = Caller(key="k", role=Role.OPERATOR, tenant=None)
        service.administration.admit(operator, TenantForm(name="ann"))
        service.sources.register(operator, street(owner="ann"))
        switch.app = make_app(service, events, lambda: None)
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {made.key}"}, trust_env=False) as client:
            answer = client.post("/v1/dataflows", params={"tenant": "ann"}, json=counting("ann:street"))
            dataflow = answer.raise_for_status().json()["id"]
            look()
            _, payload = hearing.broker.retained([topics.job("+", "plan")])[0]
            plan = read_plan(payload)
            taken: dict[str, object] = {"host": "main", "version": plan.version, "term": plan.term}
            for reported in (
                {"state": "starting"},
                {"state": "running", "in_effect": plan.version},
                {"state": "died", "in_effect": plan.version, "trouble": "disk full", "back_off": 1.0},
                {"state": "running", "in_effect": plan.version},
            ):
                hearing.say_status(plan.job, **taken, **reported)
                look()
            client.delete(f"/v1/dataflows/{dataflow}", params={"stop": "drain"}).raise_for_status()
            look()
            changes.drains.drained(dataflow)
            look()
            hearing.say_status(plan.job, **taken, state="stopped")
            look()
            events.close()
            with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as stream:
                lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    heard = [json.loads(line) for line in lines]
    of_jobs, of_dataflows = (
        [event["told"] for event in heard if event["kind"] == kind] for kind in ("job", "dataflow")
    )
    assert ["deploying", "running", "degraded", "running", "draining", "removed"] == [
        event["state"] for event in of_dataflows
    ]
    assert {(dataflow, "ann")} == {(event["dataflow"], event["tenant"]) for event in of_dataflows}
    assert "job 1 died and is started again after a while: disk full" == of_dataflows[2]["reason"]
    assert ["starting", "running", "died", "starting", "running", "stopping", "stopped"] == [
        event["state"] for event in of_jobs
    ]
    assert ("disk full", 1.0) == (of_jobs[2]["trouble"], of_jobs[2]["back_off"])
    ended = list(takewhile(lambda event: event["told"].get("state") != "removed", heard))
    assert "stopped" not in [event["told"]["state"] for event in ended]
