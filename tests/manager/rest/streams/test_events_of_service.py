"""The live stream of a real service, whose hosts are played by a test: all that becomes of a dataflow and its job."""

import json
from collections.abc import Iterator
from itertools import takewhile

import httpx
import pytest

from bridge import topics
from engine.plan_messages import read_plan
from manager.answers.tenants import Role, TenantForm
from manager.kernel.dataflow_life import CommittedDataflowLookup
from manager.kernel.live_events import LiveEvents
from manager.reconciler import Reconciler
from manager.rest.app import make_app
from manager.use_case import Caller
from tests.integration.serving import counting, street
from tests.manager.observations.listened_host import Hearing
from tests.manager.rest.real_service import real_service
from tests.manager.rest.socket_server import Switch


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
