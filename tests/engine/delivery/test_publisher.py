"""The publisher of a job: the latencies of its outputs, whatever messages they go out in."""

import math

import pyarrow as pa

from bridge.wire import MOST_MESSAGE_BYTES, Birth
from engine.delivery.publisher import JobPublisher
from engine.plan import Delivery, Plan, Port, Slot
from engine.records.record import Dead, EmittedEvents
from engine.side_effect import MESSAGES
from tests.engine.follower_scene import Sender

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
