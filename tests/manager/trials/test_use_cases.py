"""Trials: what a draft makes of events, what its process may use, and what a tenant sees of others."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import SourceForm, VisibilityForm
from braid_client.answers.trials import TrialAnswer, TriedTask
from bridge.raw_events import arrow_schema
from bridge.spools.log import Item, packed
from bridge.spools.spool import Spool
from dags import Kind, Schema, Visibility
from engine import installed_catalogue
from engine.records.job_folder import spool_folder
from manager.problem import InvalidDataflow, InvalidRequest, NotFound, QuotaExceeded, TooLarge
from manager.trials.processes import TrialBounds, TrialProcesses
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, leading

FIELDS = {"t": Kind.FLOAT, "room": Kind.STRING}
WARM = {"id": "warm", "type": "range_filter", "config": {"field": "t", "min": 0, "max": 30}}
COUNT = {"id": "count", "type": "count", "config": {"by": ["room"]}}
BOUNDS = TrialBounds(seconds=120.0)
"""Other tests may run beside."""
OUT = {"id": "out", "type": "output"}


@pytest.fixture
def manager(sqlite: str, tmp_path: Path) -> Iterator[Manager]:
    for made in leading(sqlite, tenants=("ann", "bob"), catalogue=installed_catalogue()):
        made.equip(jobs_root=tmp_path / "root", catalogue=installed_catalogue(), trials=TrialProcesses(BOUNDS))
        register(made, "ann", "rooms")
        yield made


def register(manager: Manager, owner: str, name: str, visibility: Visibility = Visibility.PRIVATE) -> None:
    connection = {"kind": "topic", "topic": f"{owner}/{name}"}
    form = {"name": name, "owner": owner, "connection": connection, "schema": FIELDS, "visibility": visibility}
    manager.service.sources.register(OPERATOR, SourceForm.model_validate(form))


def spool(manager: Manager, name: str, events: list[dict[str, Any]], stamp: int = 1) -> None:
    """Append events to the spool of a source, one item each, as its host does."""
    assert manager.tools.jobs_root is not None
    with manager.committer.looking() as state:
        stream = state.sources[name].supplied.stream
    made = Spool(spool_folder(manager.tools.jobs_root, stream), most_bytes=100_000_000)
    schema = arrow_schema(Schema.of(FIELDS))
    for event in events:
        rows = pa.RecordBatch.from_pylist([event], schema=schema)
        made.append([Item(count=1, stamp=stamp, payload=packed(rows))], {})
    made.close()


def flow(*tasks: dict[str, Any], source: str = "rooms", name: str = "draft") -> dict[str, Any]:
    """A source, and tasks one after the other."""
    every = [{"id": "s", "type": "source", "config": {"source": source}}, *tasks]
    streams = [{"from": one["id"], "to": other["id"]} for one, other in pairwise(every)]
    return {"version": 1, "name": name, "tasks": every, "streams": streams}


def tried(manager: Manager, caller: Caller, document: dict[str, Any], **more: Any) -> TrialAnswer:
    return manager.service.trials.run(caller, json.dumps({"document": document, **more}).encode())


def task(answer: TrialAnswer, id_: str) -> TriedTask:
    return next(one for one in answer.tasks if one.id == id_)


def events(texts: tuple[str, ...]) -> list[Any]:
    return [json.loads(text) for text in texts]


def test_pasted_events_run_through_a_draft(manager: Manager) -> None:
    """Each task says what it took, emitted and has seen; an event that does not fit is rejected with the reason."""
    pasted = [{"t": 1.0, "room": "a"}, {"t": "warm", "room": "a"}, {"t": 2.0, "room": "a"}]
    answer = tried(manager, ANN, flow(COUNT, OUT), events={"s": pasted})
    assert ["s", "count", "out"] == [one.id for one in answer.tasks]
    source, count, out = answer.tasks
    assert ("pasted", 3, 1, None) == (source.origin, source.taken, source.rejected, source.seen)
    (rejection,) = source.rejections
    assert ("out", "the field 't' should be of kind float") == (rejection.port, rejection.reason)
    assert [pasted[1]] == events(rejection.events.newest)
    assert [pasted[0], pasted[2]] == events(count.inputs["in"].newest)
    assert (2, 2) == (count.taken, count.seen)
    assert [{"room": "a", "count": 1}, {"room": "a", "count": 2}] == events(count.outputs["out"].newest)
    assert count.outputs["out"].newest == out.inputs["in"].newest
    assert () == answer.problems


def test_the_newest_spooled_events_are_tried_where_none_are_pasted(manager: Manager) -> None:
    """As many as asked for, in order; the answer shows the last of them."""
    spool(manager, "ann:rooms", [{"t": float(number), "room": "a"} for number in range(50)])
    answer = tried(manager, ANN, flow(WARM, OUT), newest=30)
    source = task(answer, "s")
    assert ("kept", 30) == (source.origin, source.taken)
    assert [float(number) for number in range(30, 50)] == [one["t"] for one in events(source.outputs["out"].newest)]
    assert 30 == task(answer, "out").inputs["in"].count


def test_a_source_that_is_read_twice_is_one_source(manager: Manager) -> None:
    """Unless it is read anew, which a job does from the same spool; pasted events are given once."""
    spool(manager, "ann:rooms", [{"t": 1.0, "room": "a"}] * 3)
    twice = flow(OUT)
    twice["tasks"].append(twice["tasks"][0] | {"id": "u"})
    twice["streams"].append({"from": "u", "to": "out"})
    for fresh in (False, True):
        twice["tasks"][2]["fresh"] = fresh
        answer = tried(manager, ANN, twice)
        assert [3, 3, 6] == [
            task(answer, "s").taken,
            task(answer, "u").taken,
            task(answer, "out").inputs["in"].count,
        ]
    twice["tasks"][2]["fresh"] = False
    with pytest.raises(InvalidRequest, match="has events here already"):
        tried(manager, ANN, twice, events={"s": [{"t": 1.0}], "u": [{"t": 1.0}]})
    twice["tasks"][2]["fresh"] = True
    answer = tried(manager, ANN, twice, events={"s": [{"t": 1.0}], "u": [{"t": 2.0}, {"t": 3.0}]})
    assert (1, 2, 3) == (
        task(answer, "s").taken,
        task(answer, "u").taken,
        task(answer, "out").inputs["in"].count,
    )


def test_without_any_event_the_answer_says_so(manager: Manager) -> None:
    """A source that nothing has read has no spool."""
    answer = tried(manager, ANN, flow(WARM, OUT))
    assert [("none", 0), (None, 0), (None, 0)] == [(one.origin, one.taken) for one in answer.tasks]


def test_the_sound_part_of_a_draft_runs(manager: Manager) -> None:
    """Its problems are in the answer, as a submission would say them."""
    answer = tried(manager, ANN, flow(COUNT, {"id": "x", "type": "nothing"}), events={"rooms": [{"room": "a"}]})
    assert ["s", "count"] == [one.id for one in answer.tasks]
    assert 1 == task(answer, "count").outputs["out"].count
    assert "/tasks/2/type" in {problem.pointer for problem in answer.problems}


def test_nothing_is_written_or_read_outside(manager: Manager) -> None:
    """What would be written is shown, and tasks below what does not run say what they lack."""
    publish = {"id": "publish", "type": "mqtt_publish", "config": {"topic": "ann/rooms"}}
    answer = tried(manager, ANN, flow(WARM, publish), events={"s": [{"t": 1.0, "room": "a"}]})
    shown = task(answer, "publish")
    assert "it writes outside" in shown.not_run
    assert [{"t": 1.0, "room": "a"}] == events(shown.inputs["in"].newest)
    assert ({}, 0) == (shown.outputs, shown.taken)


def test_what_a_trial_does_not_run_is_said_with_the_tasks_that_lack_its_events(manager: Manager) -> None:
    """Reads outside, and files and secrets that hosts alone have; the tasks below run on what else enters them."""
    fetch = {"id": "fetch", "type": "blob_download", "config": {"of": {"place": "blobs"}, "field": "room"}}
    members = {"field": "room", "file": {"place": "model"}, "sha256": "0" * 64}
    known = {"id": "known", "type": "bloom_filter", "config": members}
    document = flow(fetch, COUNT, OUT)
    document["tasks"].append(known)
    document["streams"] += [{"from": "s", "to": "known"}, {"from": "known", "to": "out"}, {"from": "s", "to": "count"}]
    answer = tried(manager, ANN, document, events={"s": [{"t": 1.0, "room": "a"}]})
    assert () == answer.problems
    assert "reads outside" in task(answer, "fetch").not_run
    assert "names a secret or a file" in task(answer, "known").not_run
    assert [(), (), ("fetch",), ("fetch", "known"), ()] == [one.lacks for one in answer.tasks]
    assert 1 == task(answer, "count").taken == task(answer, "out").inputs["in"].count


@pytest.mark.parametrize("added", [{"goals": []}, {"policy": {}}])
def test_pipelines_and_what_adapts_are_tried_as_they_would_begin(manager: Manager, added: dict[str, Any]) -> None:
    """By the plan that a submission would have."""
    answer = tried(manager, ANN, flow(WARM, OUT) | added, events={"s": [{"t": 1.0}]})
    assert [1, 1, 1] == [one.taken for one in answer.tasks]


def test_a_trial_reads_no_source_that_its_tenant_may_not(manager: Manager) -> None:
    """The answer is that for a source that never was, and no event of others comes with it."""
    spool(manager, "ann:rooms", [{"t": 21.5, "room": "secret"}])
    answers = [tried(manager, BOB, flow(WARM, OUT, source=name)) for name in ("ann:rooms", "ann:never")]
    assert "secret" not in answers[0].model_dump_json()
    assert () == answers[0].tasks == answers[1].tasks
    assert answers[0].model_dump_json().replace("rooms", "never") == answers[1].model_dump_json()
    for name in ("ann:rooms", "rooms"):
        with pytest.raises(InvalidRequest, match="reads no source"):
            tried(manager, BOB, flow(WARM, OUT, source="ann:rooms"), events={name: [{"t": 1.0}]})


def test_a_tenant_sees_only_events_since_it_may_read_a_source(manager: Manager) -> None:
    """Those from before stay with the owner."""
    spool(manager, "ann:rooms", [{"t": 1.0, "room": "before"}])
    manager.service.sources.set_visibility(ANN, "rooms", VisibilityForm(visibility=Visibility.PUBLIC))
    spool(manager, "ann:rooms", [{"t": 2.0, "room": "since"}], stamp=10**14)
    answers = {caller.who: tried(manager, caller, flow(WARM, OUT, source="ann:rooms")) for caller in (ANN, BOB)}
    seen = {
        who: [one["room"] for one in events(task(answer, "s").outputs["out"].newest)] for who, answer in answers.items()
    }
    assert {"ann": ["before", "since"], "bob": ["since"]} == seen


def test_a_trial_is_noted_in_the_journal_and_nothing_else_changes(manager: Manager) -> None:
    """With who tried what, and on how many events."""
    tried(manager, ANN, flow(WARM, OUT, name="rooms that are warm"), events={"s": [{"t": 1.0}]})
    newest = manager.service.operations.page(OPERATOR, Paging()).items[0]
    assert (OperationKind.TRY, "ann", "rooms that are warm", "events: 1") == (
        newest.kind,
        newest.who,
        newest.subject,
        newest.note,
    )
    assert () == manager.service.dataflows.page(ANN, Paging()).items


def test_a_task_that_takes_too_much_is_named_and_killed(manager: Manager) -> None:
    """By its place in the document; the tenant can try again at once."""
    manager.equip(trials=TrialProcesses(replace(BOUNDS, cpu_seconds=3)))
    pi = {"id": "pi", "type": "pi_viete", "config": {"iterations": 10_000}}
    pasted = [{"t": 1.0, "room": "a"}] * 500
    with pytest.raises(InvalidDataflow) as refused:
        tried(manager, ANN, flow(WARM, pi, pi | {"id": "more"}, OUT), events={"s": pasted})
    (problem,) = refused.value.errors
    assert problem.pointer in {"/tasks/2", "/tasks/3"}
    assert ("trial-ended", True) == (problem.code, "used more than 3 s of CPU" in problem.message)
    assert 1 == tried(manager, ANN, flow(WARM, OUT), events={"s": pasted[:1]}).tasks[0].taken


def test_an_answer_is_bounded(manager: Manager) -> None:
    """However long events are, a few of each are shown, and of a long one its beginning."""
    pasted = [{"t": 1.0, "room": "a" * 3_000_000}]
    answer = tried(manager, ANN, flow(WARM, OUT), events={"s": pasted})
    assert len(answer.model_dump_json()) < 50_000
    (shown,) = task(answer, "out").inputs["in"].newest
    assert shown.endswith("…")


@pytest.mark.parametrize("more", [{"newest": 501}, {"newest": -1}, {"event": {}}, {"events": {"s": {}}}])
def test_what_is_no_trial_is_refused(manager: Manager, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="the body is no trial"):
        tried(manager, ANN, flow(WARM, OUT), **more)


def test_too_many_events_are_refused(manager: Manager) -> None:
    with pytest.raises(TooLarge):
        tried(manager, ANN, flow(WARM, OUT), events={"s": [{}] * 501})


def test_a_tenant_has_one_trial_at_a_time_and_all_have_few() -> None:
    """Each refusal says when to come back."""
    processes = TrialProcesses()
    with processes.admitted("ann"):
        with pytest.raises(QuotaExceeded, match="ann is under way") as refused, processes.admitted("ann"):
            pass
        assert refused.value.retry_after
        with processes.admitted("bob"), pytest.raises(QuotaExceeded, match="as many trials"), processes.admitted("eve"):
            pass
    with processes.admitted("ann"):
        pass


def test_a_tenant_tries_for_itself_only(manager: Manager) -> None:
    sent = json.dumps({"document": flow(WARM, OUT)}).encode()
    with pytest.raises(NotFound):
        manager.service.trials.run(BOB, sent, tenant="ann")
    assert 3 == len(manager.service.trials.run(OPERATOR, sent, tenant="ann").tasks)
