"""The publisher of a job, the latencies of its outputs, and the latest events of one."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Item, Spool, output_topics
from bridge.formats.sparkplug_messages import Payload
from bridge.sender import PlainMessage
from bridge.sparkplug_nodes import NodeSettings, SparkplugNodes
from bridge.spools.log import packed
from bridge.wire import MOST_MESSAGE_BYTES, UNKNOWN_BIRTH, Birth
from dags import Kind
from dags.outputs import OutputSettings, SparkplugOutput
from engine.behaviour import installed_behaviours
from engine.delivery.latencies import _LEAST, _WINDOW, SPAN, DataflowOutput, Latencies
from engine.delivery.publisher import RUNS, JobPublisher, LeftOutSoFar, recent_output
from engine.job.pace import percentile
from engine.plan import Delivery, Plan, Port, Slot
from engine.records.job_folder import job_folder, spool_folder
from engine.records.record import Dead, EmittedEvents
from engine.side_effect import MESSAGES
from tests.engine.follower_scene import Sender
from tests.integration.hosting import delivery, job, raw, slot
from tests.twins.twin_job import TwinJob

NOW = 1_000_000.0
LONG = "x" * (MOST_MESSAGE_BYTES * 2 // 3)
"""Two of them do not fit into one message."""
PLAN = Plan(
    job="j",
    host="h",
    version=1,
    slots=(Slot(instance=7, type="output", inputs=()),),
    deliveries=tuple(Delivery(instance=7, tenant="ann", dataflow=each, sink="s") for each in ("d", "e")),
)


def born(age: float, many: int = 1) -> Birth:
    """Some events of an age, in seconds."""
    return Birth(many, round((NOW - age) * 1000))


def is_about(seconds: float, reported: float) -> bool:
    """Whether a latency is right to a twentieth."""
    return math.isclose(seconds, reported, rel_tol=0.051)


def test_each_event_counts_once_for_each_output_when_the_broker_has_it() -> None:
    """It counts with its own age, even if its neighbours go in another message; dead letters do not count."""
    sender = Sender()
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW)
    events = pa.record_batch({"t": [LONG, LONG, ""]})
    emitted = EmittedEvents(origin=Port(7, "out"), first=5, events=events, births=(born(100.0), born(1.0, 2)))
    publishing.publish(0, PLAN, [emitted])
    publishing.publish_dead_letters(0, [Dead(instance=7, port="in", reason="it is none", events=events)])
    publishing.settle()
    assert {} == publishing.latencies.report(NOW).all
    assert [5, 6, 5, 6] == [each.payload["first"] for each in sender.plain[:4]]
    sender.plain.pop(0).done()
    publishing.settle()
    report = publishing.latencies.report(NOW)
    assert ["d"] == list(report.outputs)
    assert is_about(100.0, report.outputs["d"]["s"]["p50"])
    sender.answer()
    publishing.settle()
    report = publishing.latencies.report(NOW)
    assert ["d", "e"] == list(report.outputs)
    assert [report.all] * 2 == [sinks["s"] for sinks in report.outputs.values()]
    assert (True, True) == (is_about(1.0, report.all["p50"]), is_about(100.0, report.all["p99"]))
    assert (0, 1) == (publishing.waiting_bytes, publishing.first_unsent(1))


def set_as(**settings: Any) -> Plan:
    """A plan with two deliveries of one task, of which the second is set otherwise."""
    first, second = PLAN.deliveries
    return replace(PLAN, deliveries=(first, replace(second, output=OutputSettings.model_validate(settings))))


def test_other_formats_leave_beside_the_envelopes() -> None:
    """Each event is a message with its number; what a format cannot say is reported once a batch, with its number."""
    sent: list[PlainMessage] = []
    sender = Sender()
    sender.send = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]  # to see them whole
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW)
    events = pa.record_batch({"t": [21.5, None, 7.0, None]})
    influx = {"kind": "influx", "measurement": "warm"}
    plan = set_as(format=influx, topic="ann/warm", retain=True, qos=0)
    publishing.publish(3, plan, [EmittedEvents(origin=Port(7, "out"), first=5, events=events, births=(born(1.0, 4),))])
    within = "braid/1/out/ann/e/s"
    first, second, left_out, *envelopes = sent
    assert ["ann/warm", "ann/warm", f"{within}/left-out"] == [first.topic, second.topic, left_out.topic]
    assert ["braid/1/out/ann/d/s", within] == [envelope.topic for envelope in envelopes]
    assert [(b"warm t=21.5", "5"), (b"warm t=7.0", "7")] == [
        (message.payload, dict(message.properties)["number"]) for message in (first, second)
    ]
    epoch = json.loads(envelopes[0].payload)["epoch"]
    assert {"stream": "s", "epoch": str(epoch), "number": "5"} == dict(first.properties)
    notice = json.loads(left_out.payload)
    assert (3, 2, 6, {"t": None}) == (notice["batch"], notice["count"], notice["number"], notice["event"])
    assert [first, second] == [message for message in sent if message.retain]
    assert [first, second] == [message for message in sent if not message.qos]
    reason = "all of its fields are null"
    assert {("e", "s"): LeftOutSoFar(2, NOW, reason, '{"t":null}')} == publishing.left_out
    for message in sent:
        message.done()
    publishing.settle()
    assert (0, 4) == (publishing.waiting_bytes, publishing.first_unsent(4))
    assert ["d", "e"] == list(publishing.latencies.report(NOW).outputs)
    publishing.publish(4, plan, [EmittedEvents(origin=Port(7, "out"), first=9, events=events)])
    assert 4 == publishing.left_out[DataflowOutput("e", "s")].count


def test_an_edge_node_publishes_over_its_own_connection() -> None:
    """It is kept from the first batch of its plan to that of a plan without it; envelopes leave as ever."""
    kept: list[tuple[str, Mapping[str, NodeSettings]]] = []
    lines: list[tuple[str, list[PlainMessage | None]]] = []

    class Nodes(SparkplugNodes):
        def __init__(self) -> None:
            pass

        def keep(self, job: str, nodes: Mapping[str, NodeSettings]) -> None:
            kept.append((job, nodes))

        def send_lazily(self, topic: str, messages: Iterator[PlainMessage | None]) -> None:
            lines.append((topic, list(messages)))

    sender = Sender()
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW, nodes=Nodes())
    node = SparkplugOutput(group="ann", node="press", metrics=(("t", Kind.FLOAT),))
    plan = set_as(format=node.model_dump(), qos=0)
    publishing.publish(0, plan, [])
    events = pa.record_batch({"t": pa.array([21.5, None], pa.float64())})
    publishing.publish(1, plan, [EmittedEvents(origin=Port(7, "out"), first=5, events=events, births=(born(1.0, 2),))])
    publishing.publish(2, PLAN, [])
    topic = "spBv1.0/ann/NDATA/press"
    assert [("j", {topic: NodeSettings(node, 0)})] * 2 + [("j", {})] == kept
    ((sent_on, (first, second)),) = lines
    assert first is not None
    assert second is not None
    assert (topic, topic, 0, "5") == (sent_on, first.topic, first.qos, dict(first.properties)["number"])
    ((value,), (null,)) = (Payload.FromString(message.payload).metrics for message in (first, second))
    assert (21.5, round((NOW - 1.0) * 1000), True) == (value.double_value, value.timestamp, null.is_null)
    assert ["braid/1/out/ann/d/s", "braid/1/out/ann/e/s"] == [each.topic for each in sender.plain]
    sender.answer()
    assert 1 == publishing.first_unsent(3)
    for message in (first, second):
        message.done()
    assert 3 == publishing.first_unsent(3)


def test_each_event_leaves_on_the_topic_of_its_values() -> None:
    """Whatever the values are, no event leaves on a topic of others; those without a topic are reported."""
    sent: list[PlainMessage] = []
    sender = Sender()
    sender.send = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]  # to see them whole
    places = ["a", None, "", "a/b", "+", "#", "\0", "\ufffe", "x" * 600, "ä b", "a"]
    events = pa.record_batch({"place": places, "n": range(len(places)), "hot": [True] * len(places)})
    emitted = EmittedEvents(origin=Port(7, "out"), first=0, events=events, births=(born(1.0, len(places)),))
    plan = set_as(format="plain", topic="ann/{place}/{n}/{hot}/x", retain=True)
    JobPublisher(sender, run=1, clock=lambda: NOW).publish(3, plan, [emitted])
    lines = [message for message in sent if message.retain]
    assert ["ann/a/0/true/x", "ann/ä b/9/true/x", "ann/a/10/true/x"] == [line.topic for line in lines]
    (notice,) = (json.loads(message.payload) for message in sent if message.topic.endswith("/left-out"))
    assert (8, 1) == (notice["count"], notice["number"])
    assert "the field 'place' is null, so it is no level of a topic" == notice["reason"]


def test_an_output_has_a_bounded_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones go on; a plan without the output forgets them."""
    monkeypatch.setattr(output_topics, "MOST_TOPICS", 2)
    sent: list[PlainMessage] = []
    sender = Sender()
    sender.send = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]  # to see them whole
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW)

    def heard(plan: Plan, *places: str) -> list[str]:
        emitted = EmittedEvents(origin=Port(7, "out"), first=0, events=pa.record_batch({"place": places}))
        sent.clear()
        publishing.publish(3, plan, [emitted])
        return [message.topic for message in sent if not message.topic.startswith("braid/")]

    plan = set_as(format="plain", topic="ann/{place}")
    assert ["ann/a", "ann/b", "ann/a"] == heard(plan, "a", "b", "c", "a")
    assert ["ann/b"] == heard(plan, "d", "b")
    assert [] == heard(replace(PLAN, deliveries=()), "a")
    assert ["ann/d"] == heard(plan, "d")


def test_the_topics_of_an_output_retain_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that would be too much is left out and the one before stays; smaller ones go on."""
    monkeypatch.setattr(output_topics, "MOST_RETAINED_BYTES", 60)
    sent: list[PlainMessage] = []
    sender = Sender()
    sender.send = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]  # to see them whole
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW)
    events = pa.record_batch({"k": ["a", "b", "b", "c", "a", "b"], "t": ["1234", "12345", "1" * 9, "", "", "1" * 9]})
    plan = set_as(format="plain", topic="ann/{k}", retain=True)
    publishing.publish(3, plan, [EmittedEvents(origin=Port(7, "out"), first=0, events=events)])
    lines = [(message.topic, len(message.payload)) for message in sent if message.retain]
    assert [("ann/a", 20), ("ann/b", 21), ("ann/b", 25), ("ann/a", 16), ("ann/b", 25)] == lines
    assert 1 == publishing.left_out[DataflowOutput("e", "s")].count


@pytest.mark.parametrize("topic", [None, "ann/copies"])
def test_envelopes_are_retained_on_the_topic_that_was_chosen(topic: str | None) -> None:
    """With a topic of its own, an output's envelopes leave on both, and that one retains them.

    There the broker need not answer; the envelopes on Braid's topic always arrive.
    """
    sent: list[PlainMessage] = []
    sender = Sender()
    sender.send = lambda *messages: sent.extend(messages)  # type: ignore[method-assign]  # to see them whole
    events = pa.record_batch({"t": [1.0]})
    emitted = EmittedEvents(origin=Port(7, "out"), first=5, events=events, births=(born(1.0),))
    JobPublisher(sender, run=1, clock=lambda: NOW).publish(3, set_as(topic=topic, retain=True, qos=0), [emitted])
    own = "braid/1/out/ann/e/s"
    wanted = [(own, True)] if topic is None else [(own, False), (topic, True)]
    assert [("braid/1/out/ann/d/s", False), *wanted] == [(message.topic, message.retain) for message in sent]
    assert [1, *[1 if topic == own else 0 for topic, _ in wanted]] == [message.qos for message in sent]
    assert 1 == len({message.payload for message in sent})


def test_messages_that_a_task_publishes_count_once_for_its_job() -> None:
    """They may have several topics, and take several messages; they count for no output."""
    sender = Sender()
    publishing = JobPublisher(sender, run=1, clock=lambda: NOW)
    texts = [f'{{"t":"{LONG}"}}'] * 2 + ["{}"] * 3
    messages = pa.record_batch({"topic": ["x"] * 2 + ["y"] * 3, "event": texts})
    births = (born(100.0, 2), born(1.0, 3))
    publishing.publish(0, PLAN, [EmittedEvents(origin=Port(7, MESSAGES), first=0, events=messages, births=births)])
    assert ["x", "x", "y"] == [each.topic for each in sender.plain]
    sender.answer()
    publishing.settle()
    report = publishing.latencies.report(NOW)
    assert {} == report.outputs
    assert (True, True) == (is_about(1.0, report.all["p50"]), is_about(100.0, report.all["p99"]))


ONE, OTHER = DataflowOutput("d1", "s"), DataflowOutput("d2", "t")


@given(st.lists(st.tuples(st.floats(_LEAST, 9_999), st.integers(1, 50)), min_size=1, max_size=30))
def test_percentiles_are_exact_to_a_twentieth(aged: list[tuple[float, int]]) -> None:
    """They are never too low, and at most a twentieth too high; each event counts."""
    latencies = Latencies()
    latencies.note(ONE, [born(age, many) for age, many in aged], NOW)
    exact = sorted(NOW - born(age).at / 1000 for age, many in aged for _ in range(many))
    reported = latencies.report(NOW).all
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        least = max(_LEAST, percentile(exact, part))
        # They are rounded to a tenth of a millisecond.
        assert least - 0.0001 <= reported[name] <= least * 1.0501 + 0.0001


def test_each_output_counts_for_itself_and_for_its_job() -> None:
    """Messages on a task's own topics count for the job alone."""
    latencies = Latencies()
    latencies.note(ONE, [born(1.0, 3)], NOW)
    latencies.note(OTHER, [born(4.0)], NOW)
    latencies.note(DataflowOutput(), [born(16.0)], NOW)
    report = latencies.report(NOW)
    assert {"d1": ["s"], "d2": ["t"]} == {dataflow: list(sinks) for dataflow, sinks in report.outputs.items()}
    found = [report.outputs["d1"]["s"]["p99"], report.outputs["d2"]["t"]["p50"], report.all["p50"], report.all["p99"]]
    assert [True] * 4 == [
        math.isclose(each, at, rel_tol=0.0501) for each, at in zip(found, (1.0, 4.0, 1.0, 16.0), strict=True)
    ]


def test_unknown_births_and_old_outputs_do_not_count() -> None:
    """Nor do outputs from a future that the clock was set back from."""
    latencies = Latencies()
    assert ({}, {}) == latencies.report(NOW)
    latencies.note(ONE, [Birth(5, UNKNOWN_BIRTH)], NOW)
    assert ({}, {}) == latencies.report(NOW)
    latencies.note(ONE, [born(1.0)], NOW)
    latencies.note(OTHER, [born(1.0)], NOW + _WINDOW / 2)
    latencies.note(OTHER, [born(1.0)], NOW + 10 * _WINDOW)
    assert {"d1", "d2"} == set(latencies.report(NOW + _WINDOW / 2).outputs)
    assert {"d2"} == set(latencies.report(NOW + _WINDOW + SPAN).outputs)
    assert ({}, {}) == latencies.report(NOW + 10 * _WINDOW)


def test_a_clock_that_is_behind_reports_the_least_latency() -> None:
    """An event that was born after its output, by another host's clock, counts with the least latency."""
    latencies = Latencies()
    latencies.note(ONE, [born(-5.0)], NOW)
    assert {"p50": _LEAST, "p99": _LEAST} == latencies.report(NOW).all


COUNTING = job("1", slot(2, "output", 1), slot(3, "count", 1, by=[]), slot(4, "output", 3), reads=(raw("t", 1),))


def test_batches_are_read_backwards_until_there_are_enough_events(tmp_path: Path) -> None:
    """The oldest event comes first, with its number; other outputs and markers are passed over."""
    spool = Spool(spool_folder(tmp_path, "raw/t"), most_bytes=1 << 30)
    twin = TwinJob(tmp_path, "1", installed_behaviours())
    twin.log(COUNTING)
    for first in (0, 2, 4):
        events = pa.record_batch({"n": pa.array([first, first + 1], pa.int64())})
        spool.append([Item(count=2, stamp=1, payload=packed(events))])
        twin.settle()
    spool.close()
    folder, output = job_folder(tmp_path, "1"), delivery(2)

    def found(most: int) -> list[tuple[int, int, list[int]]]:
        messages = [json.loads(each) for each in recent_output(folder, output.dataflow, output.sink, most)]
        return [(each["epoch"], each["first"], [event["n"] for event in each["events"]]) for each in messages]

    whole = [(RUNS + 1, first, [first, first + 1]) for first in (0, 2, 4)]
    assert [whole, whole[1:], whole[2:]] == [found(100), found(3), found(1)]
    (folder.records / f"{twin.batch - 2:020d}").unlink()
    assert whole[2:] == found(100)
    assert not [*recent_output(folder, output.dataflow, "none", 5)]
