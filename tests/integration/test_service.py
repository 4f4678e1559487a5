"""The service, with real Spark and a real broker: what tenants submit runs, whatever of it is killed."""

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress

import httpx
import psutil
import pytest

from braid_client.answers.dataflows import DataflowState, Start, Stop, SubmitAnswer
from braid_client.answers.dead_letters import Replayed
from braid_client.answers.jobs import JobAnswer
from braid_client.answers.pipelines import ReplanForm, ReplanKind
from braid_client.answers.reconfigurations import ReconfigurationState
from braid_client.answers.series import HistoryAnswer, HistoryRange
from braid_client.answers.sources import SchemaForm
from braid_client.answers.tenants import KeyForm, PublishingForm
from braid_client.errors import Refused
from braid_client.requests import set_publishing
from bridge import topics
from dags.vocabulary import Basis
from tests.bridge.otlp import spans_of
from tests.integration.hosting import counted, numbers
from tests.integration.serving import BROKER, Served, counting, passing, runs, serving, street
from tests.tasks.receivers import Receiving, receiving

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiving]:
    """Who gets the traces of the service."""
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, collector: Receiving) -> Iterator[Served]:
    """A service for all tests here; each leaves it running."""
    traced = {
        "BRAID_TRACES": f"http://127.0.0.1:{collector.port}",
        "BRAID_TRACED_BATCHES": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "BRAID_LINEAGE": f"http://127.0.0.1:{collector.port}",
    }
    with serving(Served(tmp_path_factory.mktemp("served"), settings=traced)) as made:
        yield made


def test_what_is_submitted_runs_and_what_is_removed_stops_alone(served: Served) -> None:
    """A second tenant reuses what it has in common with the first, and goes on when the first has left."""
    line = served.line
    ann, bob = served.admit("ann"), served.admit("bob")
    with ann, bob:
        ann.register_source(street("shared", visibility="public"))
        first = ann.submit(counting("ann:shared"))
        second = bob.submit(passing("ann:shared", 1_000))
        assert ["in", "low"] == sorted(each.id for each in second.reused)
        served.until_state(ann, first.id, DataflowState.RUNNING)
        served.until_state(bob, second.id, DataflowState.RUNNING)
        served.publish("city/shared", numbers(0, 5))
        assert counted(numbers(0, 5)) == served.until_delivered(first, "out", 5)
        assert numbers(0, 5) == served.until_delivered(second, "out", 5)
        with served.client() as operator:
            (job,) = operator.jobs()
            served.until(lambda: is_measured(operator.job(job.job)), "the job to tell how it does its work")
            assert {5} == {task.events_in for task in operator.running_tasks() if task.type == "range_filter"}
            assert [2.0] == [host.cores for host in operator.hosts()]
            saving = ann.explain(counting("ann:shared")).saving
            assert (4, 3) == (saving.tasks, saving.rests_on[Basis.MEASURED])
        assert DataflowState.REMOVED is ann.remove(first.id, Stop.NOW).state
        with served.client() as operator:
            served.until(
                lambda: all(job.in_effect == job.version for job in operator.jobs()), "every job to run its plan"
            )
            assert [2] == [job.paused for job in operator.jobs()]
        served.publish("city/shared", numbers(5, 9))
        assert numbers(0, 9) == served.until_delivered(second, "out", 9)
        assert 5 == len(served.delivered(first, "out"))
        bob.remove(second.id, Stop.NOW)
        with served.client() as operator:
            served.until(lambda: [] == list(operator.jobs()), "no job")
    assert line is served.line


@pytest.mark.full
def test_a_submission_is_one_trace_to_its_first_batch(served: Served, collector: Receiving) -> None:
    """From its caller's own span over the manager to the host; the log names it, too. So is a reconfiguration."""
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    with served.admit("tom") as tom, served.client() as operator:
        tom.register_source(street("traced"))
        key = operator.make_key(KeyForm(tenant="tom")).key
        url, headers = f"http://127.0.0.1:{served.port}/v1/dataflows", {"Authorization": f"Bearer {key}"}
        traced = headers | {"traceparent": f"00-{trace}-{caller}-01"}
        answer = httpx.post(url, json=counting("traced"), headers=traced)
        dataflow = SubmitAnswer.model_validate(answer.raise_for_status().json())
        served.until_state(tom, dataflow.id, DataflowState.RUNNING)
        managers = {"POST /v1/dataflows", "read document", "commit", "publish plan"}
        parts = {"restore state", "run tasks", "write record", "follow record"}
        hosts = {"take up plan", "start query", "first batch", "task", *parts}
        served.until(lambda: managers | hosts <= {span.name for span in spans_of(collector, trace)}, "all of the trace")
        made = {span.name: span for span in spans_of(collector, trace)}
        above = {
            "POST /v1/dataflows": caller,
            **dict.fromkeys(("read document", "commit"), made["POST /v1/dataflows"].id),
            "publish plan": made["commit"].id,
            **dict.fromkeys(("take up plan", "start query", "first batch"), made["publish plan"].id),
            **dict.fromkeys(parts, made["first batch"].id),
            "task": made["run tasks"].id,
        }
        assert above == {name: span.parent for name, span in made.items()}
        assert managers == {span.name for span in made.values() if span.service == "braid-manager"}
        assert hosts == {span.name for span in made.values() if span.service == "braid-host"}
        assert f"trace_id={trace}" in served.log.read_text()
        served.publish("city/traced", numbers(0, 5))
        served.until_delivered(dataflow, "out", 5)
        count = next(task.instance for task in dataflow.started if task.type == "count")

        def counted_here() -> bool:
            tasks = (span.attributes for span in spans_of(collector) if span.name == "task")
            taken: list[int] = [task["braid.events_in"] for task in tasks if task["braid.instance"] == count]
            return 5 == sum(taken)

        served.until(counted_here, "the parts of the batches with the events")
        change = secrets.token_hex(16)
        traced = headers | {"traceparent": f"00-{change}-{caller}-01"}
        changed = {"tasks": {"low": {"config": {"max": 500}}}}
        httpx.post(f"{url}/{dataflow.id}/reconfigurations", json=changed, headers=traced).raise_for_status()
        phases = {"first batch", "reconfiguration switching"}
        served.until(lambda: phases <= {span.name for span in spans_of(collector, change)}, "the reconfiguration")
        tom.remove(dataflow.id, Stop.NOW)


@pytest.mark.full
def test_lineage_says_when_a_dataflow_begins_runs_and_ends(served: Served, collector: Receiving) -> None:
    """In its tenant's namespace; its job is in that of the operators."""

    def states(namespace: str) -> list[str]:
        events = (json.loads(got.body) for got in list(collector.got) if got.path == "/api/v1/lineage")
        own = (event for event in events if event.get("job", {}).get("namespace") == namespace)
        return [event["eventType"] for event in own]

    with served.admit("lin") as lin:
        lin.register_source(street("lined"))
        dataflow = lin.submit(counting("lined"))
        served.until(lambda: ["START", "RUNNING"] == states("braid/lin")[:2], "lineage of what runs")
        lin.remove(dataflow.id, Stop.NOW)
        served.until(lambda: "COMPLETE" == states("braid/lin")[-1], "the end in lineage")
    assert "START" in states("braid")


def test_a_dataflow_that_drains_delivers_what_was_sent(served: Served) -> None:
    """All that its sources had sent is delivered before it is removed; who shares its tasks goes on."""
    with served.admit("eel") as eel:
        eel.register_source(street("drained"))
        stays, goes = eel.submit(passing("drained", 1_000)), eel.submit(counting("drained"))
        for each in (stays, goes):
            served.until_state(eel, each.id, DataflowState.RUNNING)
        served.publish("city/drained", numbers(0, 40))
        served.until_delivered(stays, "out", 1)
        assert DataflowState.DRAINING is eel.remove(goes.id, Stop.DRAIN).state
        served.until_state(eel, goes.id, DataflowState.REMOVED)
        assert counted(numbers(0, 40)) == served.until_delivered(goes, "out", 40)
        served.publish("city/drained", numbers(40, 44))
        assert numbers(0, 44) == served.until_delivered(stays, "out", 44)
        assert 40 == len(served.delivered(goes, "out"))
        eel.remove(stays.id, Stop.NOW)


def test_a_dead_letter_that_is_replayed_comes_out_once(served: Served) -> None:
    """Its task takes the events again behind all others, the job is then fed no more, and begins elsewhere if asked."""
    with served.admit("hal") as hal:
        hal.register_source(street("mews"))
        dataflow = hal.submit(counting("mews"))
        served.until_state(hal, dataflow.id, DataflowState.RUNNING)
        served.publish("city/mews", numbers(0, 3))
        served.until_delivered(dataflow, "out", 3)
        (task,) = (each for each in dataflow.started if each.type == "count")
        parked = {"instance": task.instance, "port": "in", "reason": "none", "batch": 1, "events": numbers(3, 5)}
        served.line.publish(topics.dead(task.instance), json.dumps(parked).encode())
        (letter,) = served.until(lambda: list(hal.dead_letters(dataflow=dataflow.id)), "the dead letter")
        assert Replayed(dead_letters=1, events=2) == hal.replay_dead_letter(letter.id)
        assert counted(numbers(0, 5)) == served.until_delivered(dataflow, "out", 5)
        second = hal.submit(counting("mews"), start=Start.EARLIEST)
        assert () == second.reused
        served.until_state(hal, second.id, DataflowState.RUNNING)
        with served.client() as operator:
            served.until(
                lambda: all(job.in_effect == job.version for job in operator.jobs()), "every job to run its plan"
            )
        served.publish("city/mews", numbers(5, 7))
        assert counted(numbers(0, 7)) == served.until_delivered(dataflow, "out", 7)
        served.until(lambda: served.delivered(second, "out"), "what the other one delivers")
        assert [] == list(hal.dead_letters())
        hal.remove(dataflow.id)
        hal.remove(second.id)


SCRIPT = """
def process(event):
    if event["n"] == 2:
        raise ValueError(f"{event['n']} is not to its taste")
    return {"twice": event["n"] * 2}
"""


def test_code_that_a_tenant_publishes_runs_at_an_open_place(served: Served) -> None:
    """Its goal chooses it, it reaches the running host, and a dead letter has its traceback for the tenant."""
    with served.admit("ivy") as ivy, served.client() as operator:
        operator.ask(set_publishing("ivy", PublishingForm(code=True)))
        code = {"source": SCRIPT, "input": {"n": "integer"}, "output": {"fields": {"twice": "integer"}}}
        form = {"name": "double", "version": 1, "shape": "filter", "code": code}
        says = {"variables": {"scale": ["one", "two"]}, "ensure": {"scale": "two"}}
        ivy.publish_module({**form, **says})
        ivy.register_source(street("close"))
        dataflow = ivy.submit(
            {
                "version": 1,
                "name": "doubled",
                "variables": {"scale": ["one", "two"]},
                "given": {"in": {"scale": "one"}},
                "goals": [{"holds": {"scale": "two"}}],
                "tasks": [
                    {"id": "in", "type": "source", "config": {"source": "ivy:close"}},
                    {"id": "doubles", "point": {"shape": "filter"}},
                    {"id": "out", "type": "output"},
                ],
                "streams": [{"from": "in", "to": "doubles"}, {"from": "doubles", "to": "out"}],
            }
        )
        served.until_state(ivy, dataflow.id, DataflowState.RUNNING)
        served.publish("city/close", numbers(0, 4))
        doubled = served.until_delivered(dataflow, "out", 3)
        assert [(0, 0), (1, 2), (3, 6)] == [(each["n"], each["twice"]) for each in doubled]
        (letter,) = served.until(lambda: list(ivy.dead_letters(dataflow=dataflow.id)), "the dead letter")
        assert "ValueError: 2 is not to its taste" == letter.reason
        assert "raise ValueError(f" in (letter.traceback or "")
        assert [None] == [each.traceback for each in operator.dead_letters(dataflow=dataflow.id)]
        ivy.remove(dataflow.id)


def test_a_new_version_of_code_takes_effect_in_a_running_pipeline(served: Served) -> None:
    """The next plan takes it, for events after those that the old one has seen; the count below goes on."""
    with served.admit("una") as una, served.client() as operator:
        operator.ask(set_publishing("una", PublishingForm(code=True)))

        def publish(version: int) -> None:
            source = f"def process(event):\n    return {{'version': {version}}}\n"
            code = {"source": source, "input": {"n": "integer"}, "output": {"fields": {"version": "integer"}}}
            una.publish_module({"name": "mark", "version": version, "shape": "filter", "code": code})

        publish(1)
        una.register_source(street("ford"))
        dataflow = una.submit(
            {
                "version": 1,
                "name": "marked",
                "goals": [{"at": "marks", "fields": {"version": "integer"}}],
                "tasks": [
                    {"id": "in", "type": "source", "config": {"source": "una:ford"}},
                    {"id": "marks", "point": {"shape": "filter"}},
                    {"id": "out", "type": "output"},
                    {"id": "tally", "type": "count"},
                    {"id": "counts", "type": "output"},
                ],
                "streams": [
                    {"from": "in", "to": "marks"},
                    {"from": "marks", "to": "out"},
                    {"from": "marks", "to": "tally"},
                    {"from": "tally", "to": "counts"},
                ],
            }
        )
        served.until_state(una, dataflow.id, DataflowState.RUNNING)
        served.publish("city/ford", numbers(0, 4))
        served.until_delivered(dataflow, "out", 4)
        publish(2)
        assert ReplanKind.RECONFIGURATION is una.replan(dataflow.id, ReplanForm(), dry_run=True).how
        answer = una.replan(dataflow.id, ReplanForm())
        assert ("marks",) == answer.changed
        assert answer.reconfiguration is not None
        number = answer.reconfiguration.id
        switched = {ReconfigurationState.SWITCHED, ReconfigurationState.DONE}
        served.until(lambda: una.reconfiguration(dataflow.id, number).state in switched, "the new version to run")
        assert "mark@2" == una.dataflow(dataflow.id).document["tasks"][1].get("module")
        served.publish("city/ford", numbers(4, 8))
        assert [1] * 4 + [2] * 4 == [each["version"] for each in served.until_delivered(dataflow, "out", 8)]
        assert list(range(1, 9)) == [each["count"] for each in served.until_delivered(dataflow, "counts", 8)]
        una.remove(dataflow.id)


@pytest.mark.full
def test_a_schema_that_changes_leaves_what_runs_as_it_is(served: Served) -> None:
    """Beside it, in the same job, another dataflow reads a field declared since, also in events that came before."""
    with served.admit("abe") as abe:
        abe.register_source(street("wide"))
        before = abe.submit(passing("abe:wide", 100))
        served.until_state(abe, before.id, DataflowState.RUNNING)
        _ = served.line
        served.publish("city/wide", [{"n": 0, "k": "a", "depth": 7}])
        served.until_delivered(before, "out", 1)
        fields = {"n": "string", "depth": "integer"}
        answer = abe.declare_fields("wide", SchemaForm.model_validate({"schema": fields}))
        assert (1, [before.id]) == (answer.going_on, [each.dataflow for each in answer.dependent])
        deep = {
            "version": 1,
            "name": "deep",
            "tasks": [
                {"id": "in", "type": "source", "config": {"source": "abe:wide"}},
                {
                    "id": "deep",
                    "type": "range_filter",
                    "config": {"field": "depth", "min": 5, "max": 9, "outside": "drop"},
                },
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": "in", "to": "deep"}, {"from": "deep", "to": "out"}],
        }
        after = abe.submit(deep)
        served.until_state(abe, after.id, DataflowState.RUNNING)
        served.publish(
            "city/wide",
            [{"n": 1, "k": "b", "depth": 8}, {"n": "two", "k": "c", "depth": 6}, {"n": "three", "k": "d", "depth": 1}],
        )
        kept = served.until_delivered(before, "out", 2)
        assert [{"n": 0, "k": "a", "depth": 7}, {"n": 1, "k": "b", "depth": 8}] == kept
        assert [{"n": "two", "k": "c", "depth": 6}] == served.until_delivered(after, "out", 1)
        letters = served.until(
            lambda: found if len(found := list(abe.dead_letters())) == 3 else None, "what fits only one of them"
        )
        assert {1, "two", "three"} == {event["n"] for each in letters for event in each.events}
        for each in (before, after):
            abe.remove(each.id)


def test_fields_of_kind_json_reach_tenants_as_json(served: Served) -> None:
    """One that the source declares, one that a task derives, and those of a dead letter that is replayed."""
    with served.admit("ida") as ida:
        ida.register_source(street("plaza", schema={"n": "integer", "k": "string", "j": "json"}))
        tasks = {
            "plaza": ("source", {"source": "plaza"}),
            "all": ("output", {}),
            "some": ("accumulate", {"fields": ["n"], "by": ["k"], "window": 2}),
            "sums": ("output", {}),
        }
        dataflow = ida.submit(
            {
                "version": 1,
                "name": "nested",
                "tasks": [{"id": name, "type": kind, "config": config} for name, (kind, config) in tasks.items()],
                "streams": [
                    {"from": "plaza", "to": "all"},
                    {"from": "plaza", "to": "some"},
                    {"from": "some", "to": "sums"},
                ],
            }
        )
        served.until_state(ida, dataflow.id, DataflowState.RUNNING)
        events = [{"n": n, "k": "a", "j": j} for n, j in enumerate(({"x": [1, None]}, "text", [2.5], None))]
        served.publish("city/plaza", events)
        assert events == served.until_delivered(dataflow, "all", 4)
        assert [{"k": "a", "n": [0, 1]}, {"k": "a", "n": [2, 3]}] == served.until_delivered(dataflow, "sums", 2)
        (sink,) = (each for each in dataflow.started if each.id == "all")
        parked = {"instance": sink.instance, "port": "in", "reason": "none", "batch": 1, "events": events[:2]}
        served.line.publish(topics.dead(sink.instance), json.dumps(parked).encode())
        (letter,) = served.until(lambda: list(ida.dead_letters(dataflow=dataflow.id)), "the dead letter")
        ida.replay_dead_letter(letter.id)
        assert [*events, *events[:2]] == served.until_delivered(dataflow, "all", 6)
        ida.remove(dataflow.id, Stop.NOW)


@pytest.mark.full
def test_the_history_of_a_dataflow_has_what_it_did(served: Served) -> None:
    """Events that came and went, their ages, and its share of cores; nobody else's, and nothing from before it."""

    def written() -> HistoryAnswer | None:
        answer = fay.history(flow.id, reach=HistoryRange.QUARTER_HOUR)
        return answer if any(answer.events_out_per_second) else None

    with served.admit("fay") as fay, served.admit("guy") as guy:
        fay.register_source(street("noted"))
        flow = fay.submit(passing("noted", 1_000))
        served.until_state(fay, flow.id, DataflowState.RUNNING)
        served.publish("city/noted", numbers(0, 60))
        served.until_delivered(flow, "out", 60)
        answer = served.until(written, "a step in which events came out")
        place = max(place for place, rate in enumerate(answer.events_out_per_second) if rate)
        assert any(answer.events_in_per_second)
        assert 0.0 < (answer.latency_seconds_p50[place] or 0.0) <= (answer.latency_seconds_p99[place] or 0.0)
        assert (0, 0) == (answer.waiting[place], answer.dead_letters[place])
        assert 0.0 < (answer.cores[place] or 0.0) <= (answer.cores_alone[place] or 0.0)
        assert answer.events_in_per_second[0] is None
        with pytest.raises(Refused) as refused:
            guy.history(flow.id)
        assert 404 == refused.value.status
        fay.remove(flow.id)


def test_while_nobody_manages_jobs_run_on(served: Served) -> None:
    """Killed, the manager takes nothing with it; the next one finds host, broker and jobs, and changes nothing."""
    with served.admit("cat") as cat:
        cat.register_source(street("lane"))
        dataflow = cat.submit(counting("cat:lane"))
        served.until_state(cat, dataflow.id, DataflowState.RUNNING)
        served.publish("city/lane", numbers(0, 3))
        served.until_delivered(dataflow, "out", 3)
        served.look()
        before = lasting(served)
        served.kill()
        served.publish("city/lane", numbers(3, 7))
        served.until_delivered(dataflow, "out", 7)
        served.start()
        served.until_state(cat, dataflow.id, DataflowState.RUNNING)
        assert before == lasting(served)
        served.publish("city/lane", numbers(7, 9))
        assert counted(numbers(0, 9)) == served.until_delivered(dataflow, "out", 9)
        second = cat.submit(passing("cat:lane", 1_000))
        served.until_state(cat, second.id, DataflowState.RUNNING)
        cat.remove(dataflow.id)
        cat.remove(second.id)


def test_what_is_committed_while_the_broker_is_away_is_done_when_it_is_back(served: Served) -> None:
    """A broker that is killed is started again where it was, and gets what it missed."""
    with served.admit("dan") as dan:
        dan.register_source(street("road"))
        first = dan.submit(counting("dan:road"))
        served.until_state(dan, first.id, DataflowState.RUNNING)
        broker = served.below_keeper(BROKER)
        broker.kill()
        second = dan.submit(passing("dan:road", 1_000))
        served.until(lambda: not runs(broker), "the end of the broker")
        served.until_state(dan, second.id, DataflowState.RUNNING)
        served.publish("city/road", numbers(0, 4))
        assert counted(numbers(0, 4)) == served.until_delivered(first, "out", 4)
        assert numbers(0, 4) == served.until_delivered(second, "out", 4)
        dan.remove(first.id)
        dan.remove(second.id)


@pytest.mark.slow
@pytest.mark.parametrize("many", [2, pytest.param(20, marks=pytest.mark.chaos)])
def test_all_jobs_outlive_their_host_and_the_machine(served: Served, many: int) -> None:
    """Killed alone, or at once with all else, the host comes back with its jobs, and no output lacks or doubles any."""
    names = [f"{many}-{number}" for number in range(many)]
    with served.admit(f"tenant-{many}") as tenant:
        for name in names:
            tenant.register_source(street(name))
        # What starts at the earliest has a job of its own.
        dataflows = [tenant.submit(counting(name), start=Start.EARLIEST) for name in names]
        with served.client() as operator:
            assert many == len(list(operator.jobs()))

        def sent(first: int, end: int) -> None:
            for name in names:
                served.publish(f"city/{name}", numbers(first, end))

        def settled(end: int) -> None:
            for dataflow in dataflows:
                assert counted(numbers(0, end)) == served.until_delivered(dataflow, "out", end)

        for dataflow in dataflows:
            served.until_state(tenant, dataflow.id, DataflowState.RUNNING)
        sent(0, 4)
        settled(4)
        served.below_keeper("engine.machines.process").kill()
        served.until_state(tenant, dataflows[0].id, DataflowState.DEGRADED)
        sent(4, 8)
        settled(8)
        served.await_save()
        served.look()
        served.kill()
        for each in served.alive():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        served.until(lambda: [] == served.alive(), "the end of everything")
        served.start()
        for dataflow in dataflows:
            served.until_state(tenant, dataflow.id, DataflowState.RUNNING)
        sent(8, 10)
        settled(10)
        for dataflow in dataflows:
            tenant.remove(dataflow.id)


@pytest.mark.full
def test_a_keeper_that_is_killed_is_started_again(served: Served) -> None:
    """Broker and host die with it, and come back at the same address, with everything that ran."""
    with served.admit("viv") as viv:
        viv.register_source(street("bridge"))
        dataflow = viv.submit(counting("viv:bridge"))
        served.until_state(viv, dataflow.id, DataflowState.RUNNING)
        served.publish("city/bridge", numbers(0, 4))
        served.until_delivered(dataflow, "out", 4)
        keeper = served.keeper
        served.look()
        keeper.kill()
        served.until(lambda: served.keeper_pid != keeper.pid, "another keeper")
        served.until_state(viv, dataflow.id, DataflowState.DEGRADED)
        served.until_state(viv, dataflow.id, DataflowState.RUNNING)
        served.publish("city/bridge", numbers(4, 8))
        assert counted(numbers(0, 8)) == served.until_delivered(dataflow, "out", 8)
        viv.remove(dataflow.id)


@pytest.mark.full
def test_a_service_that_stops_leaves_no_process(served: Served) -> None:
    """It drains its host and ends its broker; started again it goes on with what was submitted."""
    with served.admit("gil") as gil:
        gil.register_source(street("quay"))
        dataflow = gil.submit(counting("gil:quay"))
        served.until_state(gil, dataflow.id, DataflowState.RUNNING)
        served.publish("city/quay", numbers(0, 4))
        served.until_delivered(dataflow, "out", 4)
        before = hosts_cpu(served)
        grown = served.until(lambda: hosts_cpu(served) - before, "more CPU of the host")
        assert 0 == served.stop()
        assert [] == served.alive()
        assert [] == [each for each in psutil.process_iter() if named(each, str(served.root))]
        served.start()
        served.until_state(gil, dataflow.id, DataflowState.RUNNING)
        served.publish("city/quay", numbers(4, 6))
        assert counted(numbers(0, 6)) == served.until_delivered(dataflow, "out", 6)
        with served.client() as operator:
            every, (own,) = operator.savings(), gil.savings(dataflow=dataflow.id).dataflows
        assert every.whole is not None
        measured = every.whole.measured.cpu_ns
        assert measured == every.whole.overhead.cpu_ns + sum(each.share.cpu_ns for each in every.shares)
        assert 0 < own.share.cpu_ns
        assert own.share.cores <= own.alone.likely
        broker = every.whole.parts["broker"]
        assert broker is not None
        assert 0 < broker.cpu_ns <= measured - round(grown * 1e9)
        gil.remove(dataflow.id)


def hosts_cpu(served: Served) -> float:
    """Seconds of CPU that the hosts have reported."""
    with served.client() as operator:
        return sum(sum(host.cpu.values()) for host in operator.hosts())


def is_measured(job: JobAnswer) -> bool:
    """Whether a job shows batches, and events in and out, and that none waits."""
    known = (job.batch_seconds_p50, job.batch_seconds_p99, job.events_in_per_second, job.events_out_per_second)
    return all(known) and (0, 0.0) == (job.lag_events, job.lag_seconds)


def lasting(served: Served) -> set[psutil.Process]:
    """The processes that last: keeper, broker, host and JVM. Those that work for Spark come and go."""
    return {served.keeper, *(served.below_keeper(name) for name in (BROKER, "engine.machines.process", "java"))}


def named(process: psutil.Process, word: str) -> bool:
    """Whether a word is in the command line of a process that runs."""
    try:
        return any(word in each for each in process.cmdline()) and runs(process)
    except psutil.Error:
        return False
