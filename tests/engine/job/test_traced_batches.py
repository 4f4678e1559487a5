"""Traced batches: which of them are, and the spans that are made once their records are followed."""

import json
from dataclasses import replace

from bridge.traces import TRACED_BATCHES_VARIABLE
from engine.behaviour import Unwatched
from engine.job.traced_batches import TracedBatches
from engine.kernel.part_times import RUN_TASKS, PartTimes
from engine.offset import Offset, Span
from engine.plan import Edge, Plan, Slot
from engine.records.files import Header
from engine.records.record import BatchRecord, InstanceMeter, RecordPart
from tests.bridge.otlp import CALLER, tracing

PLAN = Plan(job="7", host="h", version=3, slots=(Slot(instance=5, type="count", inputs=(Edge(parent=1),)),))
TRACED = replace(PLAN, trace=CALLER)
BEGINS, GOES_ON = Span(Offset(), Offset(entry=1)), Span(Offset(entry=1), Offset(entry=1))
TRACE = CALLER.split("-")[1]


def header(batch: int) -> Header:
    meters = {5: InstanceMeter(cpu_ns=9, taken=4, emitted=2, dead=1)}
    nothing = RecordPart(0, 0, 0)
    return BatchRecord(batch=batch, start=Offset(), end=Offset(), changes=nothing, imaged={}, meters=meters)


def timed() -> object:
    """What a worker reports, as it comes over the line."""
    times = PartTimes()
    watch = times.watched(Unwatched())
    with times.part("restore state"):
        pass
    with times.part(RUN_TASKS):
        for _ in range(2):
            watch.running(5)
            watch.idle()
    return json.loads(json.dumps(times.all()))


def test_the_first_batch_of_a_traced_plan_is_traced_with_its_parts() -> None:
    """In the trace of the plan, after the start of its query; the task once, with what it did in the batch."""
    with tracing(**{TRACED_BATCHES_VARIABLE: "0"}) as sent_spans:
        batches = TracedBatches()
        batches.start(TRACED)
        assert batches.begin(0, BEGINS, TRACED)
        assert batches.begin(0, BEGINS, TRACED)
        batches.note(0, 0, timed())
        batches.record("7", header(0), TRACED)
        # A plan that only retries a task, and batches that begin none.
        assert not batches.begin(1, BEGINS, replace(TRACED, version=4))
        assert not batches.begin(2, GOES_ON, TRACED)
        batches.record("7", header(2), TRACED)
        made = sent_spans()
    above = {
        name: next((other for other, up in made.items() if up.id == span.parent), "") for name, span in made.items()
    }
    parts = ("restore state", RUN_TASKS, "follow record")
    assert {"start query": "", "first batch": "", **dict.fromkeys(parts, "first batch"), "task": RUN_TASKS} == above
    assert {TRACE} == {span.trace for span in made.values()}
    task = made["task"].attributes
    assert (5, "count", 9, 4, 2, 1) == tuple(
        task[f"braid.{name}"] for name in ("instance", "type", "cpu_ns", "events_in", "events_out", "events_dead")
    )


def test_other_batches_are_traced_by_themselves_as_far_as_they_are_sampled() -> None:
    """Each in a trace of its own; one that no worker reports on has no parts, and one that is never recorded ends."""
    with tracing(**{TRACED_BATCHES_VARIABLE: "1"}) as sent_spans:
        batches = TracedBatches()
        for number in range(20):
            assert batches.begin(number, GOES_ON, PLAN)
        batches.note(0, 0, timed())
        batches.record("7", header(0), PLAN)
        batches.record("7", header(19), PLAN)
        (made,) = sent_spans().values()
    assert ("batch", "", 19) == (made.name, made.parent, made.attributes["braid.batch"])


def test_parts_that_are_reported_after_the_record_was_followed_are_not_lost() -> None:
    """They follow the batch all the same."""
    with tracing(**{TRACED_BATCHES_VARIABLE: "1"}) as sent_spans:
        batches = TracedBatches()
        assert batches.begin(0, GOES_ON, PLAN)
        batches.record("7", header(0), PLAN)
        batches.record("7", header(0), PLAN)
        batches.note(0, 0, timed())
        made = sent_spans()
    assert {"batch", "restore state", RUN_TASKS, "task"} == made.keys()
    assert {made["batch"].id} == {made["restore state"].parent, made[RUN_TASKS].parent}
    assert (made[RUN_TASKS].id, 4) == (made["task"].parent, made["task"].attributes["braid.events_in"])


def test_a_job_that_starts_again_adds_nothing_to_the_trace_of_its_plan() -> None:
    """Neither the start of its query nor a plan that retries a task: the first batch was before."""
    with tracing(**{TRACED_BATCHES_VARIABLE: "1"}) as sent_spans:
        batches = TracedBatches()
        batches.start(TRACED)
        assert batches.begin(4, GOES_ON, TRACED)
        batches.record("7", header(4), TRACED)
        retried = replace(TRACED, version=4)
        assert batches.begin(5, Span(Offset(entry=1), Offset(entry=2)), retried)
        batches.record("7", header(5), retried)
        made = sent_spans()
    assert {"batch"} == made.keys()
    assert TRACE not in {span.trace for span in made.values()}


def test_without_traces_no_batch_is_timed() -> None:
    """Whatever its plan says."""
    batches = TracedBatches()
    batches.start(TRACED)
    assert not batches.begin(0, BEGINS, TRACED)
    batches.note(0, 0, timed())
    batches.record("7", header(0), TRACED)
