"""Lineage: what a receiver hears of dataflows, jobs and sources, whatever becomes of it and the manager."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import facet_v2

from braid_client.answers.dataflows import Stop
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import KeyForm, TenantForm
from manager.kernel.live_events import LiveEvents
from manager.lineage.follower import LineageFollower, receiver_at
from manager.use_case import Caller
from tests.integration.serving import counting, passing, street
from tests.manager.rest.real_service import RealService, in_folder, real_service
from tests.tasks.receivers import Answer, Got, Receiving, Reply, receiving

FACETS = {
    "dataSource": facet_v2.datasource_dataset.DatasourceDatasetFacet,
    "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
    "jobType": facet_v2.job_type_job.JobTypeJobFacet,
    "lifecycleStateChange": facet_v2.lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet,
    "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
    "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
}
Event = Mapping[str, Any]


class Scene:
    """A service with two tenants, and who follows it."""

    def __init__(self, made: RealService, folder: Path) -> None:
        self.made = made
        self.events = LiveEvents(last=0)
        self.path = folder / "lineage"
        self.now = 0.0
        administration = made.service.administration
        operator = administration.caller(made.key)
        for tenant in ("ann", "bob"):
            administration.admit(operator, TenantForm(name=tenant))
        self.callers = {
            tenant: administration.caller(administration.make_key(operator, KeyForm(tenant=tenant)).key)
            for tenant in ("ann", "bob")
        }

    @property
    def ann(self) -> Caller:
        return self.callers["ann"]

    def register(self, form: SourceForm) -> None:
        self.made.service.sources.register(self.ann, form)

    def submit(self, document: Mapping[str, Any], caller: Caller | None = None) -> str:
        return self.made.service.dataflows.submit(caller or self.ann, json.dumps(document).encode()).id

    def replace(self, dataflow: str, document: Mapping[str, Any]) -> None:
        self.made.service.dataflows.replace(self.ann, dataflow, json.dumps(document).encode())

    def remove(self, dataflow: str) -> None:
        self.made.service.dataflows.remove(self.ann, dataflow, Stop.NOW)

    def follower(self, place: str) -> LineageFollower:
        return LineageFollower(self.made.tools, self.events, receiver_at(place, {}), self.path, clock=lambda: self.now)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with real_service(in_folder(tmp_path)) as made:
        yield Scene(made, tmp_path)


def url(receiver: Receiving) -> str:
    return f"http://127.0.0.1:{receiver.port}"


def runs(events: list[Event], namespace: str) -> list[tuple[str, str]]:
    """The states of runs in a namespace, each with the name of its job."""
    own = (event for event in events if event.get("job", {}).get("namespace") == namespace)
    return [(event["eventType"], event["job"]["name"]) for event in own]


def is_behind(follower: LineageFollower) -> bool:
    return follower.counts.behind_since is not None


def facets_in(events: list[Event]) -> Iterator[tuple[str, Any]]:
    """All facets in events, by name."""
    for event in events:
        places = [event.get("dataset", {}), *event.get("inputs", ()), *event.get("outputs", ())]
        for place in (*places, event.get("job", {}), event.get("run", {})):
            yield from place.get("facets", {}).items()


def test_a_dataflow_begins_changes_and_ends(scene: Scene, tmp_path: Path) -> None:
    """Each revision is a run of one job, with its sources and outputs, their schemas, and where their events are."""
    file = tmp_path / "events"
    follower = scene.follower(str(file))
    scene.register(street())
    dataflow = scene.submit(counting("street"))
    follower.look()
    scene.replace(dataflow, passing("street", 10))
    follower.look()
    scene.remove(dataflow)
    follower.look()
    follower.look()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    counts, passes = ("counts", "up to 10")
    assert [
        ("START", counts),
        ("COMPLETE", counts),
        ("START", passes),
        ("COMPLETE", passes),
    ] == runs(events, "braid/ann")
    first, over, second, end = (event for event in events if event.get("job", {}).get("namespace") == "braid/ann")
    assert first["run"]["runId"] == over["run"]["runId"] != second["run"]["runId"] == end["run"]["runId"]
    ((source,), (output,)) = first["inputs"], first["outputs"]
    assert ("braid/ann", "street", "mqtt:city/street") == (
        source["namespace"],
        source["name"],
        source["facets"]["dataSource"]["uri"],
    )
    assert [("k", "string"), ("n", "integer")] == [
        (field["name"], field["type"]) for field in source["facets"]["schema"]["fields"]
    ]
    assert ("braid/ann", "counts/out", f"mqtt:braid/1/out/ann/{dataflow}/out") == (
        output["namespace"],
        output["name"],
        output["facets"]["dataSource"]["uri"],
    )
    assert {"k", "count"} <= {field["name"] for field in output["facets"]["schema"]["fields"]}
    assert len(events) == follower.counts.sent


def test_events_are_made_of_facets_that_there_are(scene: Scene) -> None:
    """The classes of OpenLineage take all of them, also of a source that comes, changes and goes, and of what fails."""
    with receiving() as receiver:
        follower = scene.follower(url(receiver))
        scene.register(street())
        dataflow = scene.submit(counting("street"))
        follower.look()
        report = {"dataflow": dataflow, "tenant": "ann", "reason": "job 1 died"}
        scene.events.add("dataflow", report | {"state": "degraded"})
        scene.events.add("dataflow", report | {"state": "running", "reason": ""})
        scene.events.add("job", {"job": "1", "state": "died", "trouble": "no room"})
        scene.remove(dataflow)
        scene.made.service.sources.revoke(scene.ann, "street")
        follower.look()
        events = [json.loads(got.body) for got in receiver.got]
    assert {"/api/v1/lineage"} == {got.path for got in receiver.got}
    kinds = {name: FACETS[name] for name, _ in facets_in(events)}
    assert FACETS == kinds | {"errorMessage": FACETS["errorMessage"]}
    for name, facet in facets_in(events):
        kinds[name](**{part: value for part, value in facet.items() if not part.startswith("_")})
        assert facet["_producer"].startswith("urn:braid:")
    changes = [event["dataset"]["facets"]["lifecycleStateChange"] for event in events if "dataset" in event]
    assert ["CREATE", "DROP"] == [change["lifecycleStateChange"] for change in changes]


def test_states_are_sent_with_what_is_wrong(scene: Scene) -> None:
    """A dataflow that runs, or does so badly, and a job that died; nothing of those that are gone."""
    with receiving() as receiver:
        follower = scene.follower(url(receiver))
        scene.register(street())
        dataflow = scene.submit(counting("street"))
        follower.look()
        receiver.got.clear()
        report = {"dataflow": dataflow, "tenant": "ann", "reason": ""}
        scene.events.add("dataflow", report | {"state": "running"})
        scene.events.add("dataflow", report | {"state": "degraded", "reason": "job 1 died"})
        scene.events.add("dataflow", report | {"state": "running", "dataflow": "d-gone"})
        scene.events.add("job", {"job": "1", "state": "died", "trouble": "no room"})
        scene.events.add("job", {"job": "1", "state": "running", "trouble": ""})
        follower.look()
        events = [json.loads(got.body) for got in receiver.got]
    assert [("RUNNING", "counts"), ("RUNNING", "counts")] == runs(events, "braid/ann")
    assert [("RUNNING", "job/1")] == runs(events, "braid")
    errors = [event["run"]["facets"].get("errorMessage", {}).get("message") for event in events]
    assert [None, "job 1 died", "no room"] == errors


def test_no_namespace_has_anything_of_another_tenant(scene: Scene) -> None:
    """Whose tasks and sources are shared; jobs are the operators', and name streams by numbers alone."""
    with receiving() as receiver:
        follower = scene.follower(url(receiver))
        scene.register(street(visibility="public"))
        anns = scene.submit(counting("ann:street", name="anns counts"))
        bobs = scene.submit(counting("ann:street", name="bobs counts"), scene.callers["bob"])
        follower.look()
        events = [json.loads(got.body) for got in receiver.got]

    def events_in(namespace: str) -> str:
        own = [event for event in events if (event.get("job") or event["dataset"])["namespace"] == namespace]
        assert own
        return json.dumps(own)

    assert not any(word in events_in("braid/ann") for word in ("bob", bobs))
    assert "ann:street" in events_in("braid/bob")
    assert not any(word in events_in("braid/bob") for word in ("anns", "braid/ann", anns, "city/street"))
    assert not any(word in events_in("braid") for word in ("ann", "bob", "street", "counts"))
    assert "source/1" in events_in("braid")


def test_nothing_is_lost_while_the_receiver_or_the_manager_is_away(scene: Scene) -> None:
    """It is sent later, once each and with the ids of before; what was over by then is counted, and nobody waits."""
    away = True

    def answer(_got: Got, _times: int) -> Reply:
        return Reply(503 if away else 201)

    with receiving(answer) as receiver:
        follower = scene.follower(url(receiver))
        scene.register(street())
        dataflow = scene.submit(counting("street"))
        follower.look()
        follower.look()
        assert (1, 0, 1) == (follower.counts.failures, follower.counts.sent, len(receiver.got))
        assert is_behind(follower)
        away = False
        receiver.got.clear()
        scene.now = 60.0
        follower.look()
        assert not is_behind(follower)
        begun = next(json.loads(got.body) for got in receiver.got if b"braid/ann" in got.body and b"runId" in got.body)
        gone = scene.submit(passing("street", 5))
        scene.remove(gone)
        for most in (10, 20):
            scene.replace(dataflow, passing("street", most))
        receiver.got.clear()
        later = scene.follower(url(receiver))
        later.look()
        events = [json.loads(got.body) for got in receiver.got]
    assert [
        ("COMPLETE", "counts"),
        ("START", "up to 20"),
        ("START", "up to 5"),
        ("COMPLETE", "up to 5"),
    ] == runs(events, "braid/ann")
    assert begun["run"]["runId"] == next(event for event in events if "run" in event)["run"]["runId"]
    assert (1, 0) == (later.counts.missed, later.counts.failures)


def test_lineage_begins_with_what_runs(scene: Scene, tmp_path: Path) -> None:
    """What was removed before it was asked for is not in it, and no revision of what runs counts as missed."""
    scene.register(street())
    dataflow = scene.submit(counting("street"))
    scene.replace(dataflow, passing("street", 10))
    scene.remove(scene.submit(counting("street")))
    follower = scene.follower(str(tmp_path / "events"))
    follower.look()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [("START", "up to 10")] == runs(events, "braid/ann")
    assert 0 == follower.counts.missed


def test_what_a_receiver_refuses_is_counted_and_holds_up_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be refused again, so it is logged instead."""

    def answer(got: Got, _times: int) -> Reply:
        return Reply(422, body=b"no namespace like that") if b"braid/ann" in got.body else Reply()

    with receiving(answer) as receiver:
        follower = scene.follower(url(receiver))
        scene.register(street())
        scene.submit(counting("street"))
        follower.look()
        follower.look()
    assert (2, 1) == (follower.counts.refused, follower.counts.sent)
    assert "refuses lineage with 422: no namespace like that" in caplog.text


def test_reports_that_are_not_kept_any_more_are_missed_aloud(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """There is room for the newest alone."""
    with receiving() as receiver:
        scene.events = LiveEvents(2, last=0)
        follower = scene.follower(url(receiver))
        for _ in range(5):
            scene.events.add("job", {"job": "1", "state": "running", "trouble": ""})
        follower.look()
    assert 3 == follower.counts.missed
    assert "3 reports of states are missing" in caplog.text


def test_a_manager_that_does_not_lead_misses_nothing(scene: Scene) -> None:
    """The journal goes on meanwhile, and the leader sends what there is."""
    with receiving() as receiver:
        scene.events = LiveEvents(2, last=0)
        follower = scene.follower(url(receiver))
        scene.made.tools.committer.step_down()
        for _ in range(5):
            scene.events.add("operation", {"kind": "submit"})
            follower.look()
        scene.made.tools.committer.lead(1)
        follower.look()
    assert 0 == follower.counts.missed


def test_a_receiver_is_asked_as_standard_variables_say() -> None:
    """By the key and at the path that they name."""
    answer: Answer = lambda _got, _times: Reply()  # noqa: E731 - as tests of receivers have it
    with receiving(answer) as receiver:
        environment = {"OPENLINEAGE_API_KEY": "abc", "OPENLINEAGE_ENDPOINT": "here"}
        given: Callable[[Any], object] = receiver_at(url(receiver), environment).emit
        given({"a": 1})
        (got,) = receiver.got
    assert ("/here", "Bearer abc") == (got.path, got.headers["authorization"])
