"""The batches of a job whose parts are traced: a sample of all, and the first of each plan that a trace has led to.

A worker knows nothing of traces: it reports when each part of such a batch began and ended, and the host makes spans of
that once it has followed the record, beside what each task took. Where there are no traces, no batch is noted.
"""

import threading
import time
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from pydantic import TypeAdapter

from bridge.traces import Attributes, is_batch_sampled, is_tracing, record_span
from engine.kernel.part_times import RUN_TASKS, PartTime
from engine.offset import Span
from engine.plan import Plan
from engine.records.files import Header
from engine.records.record import InstanceMeter

_MOST_NOTED = 8
"""Batches of a job that are known at once; of older ones all has been reported, or nobody recorded them."""
_TIMES = TypeAdapter(tuple[PartTime, ...])


class _Followed(NamedTuple):
    """What is known of a batch once its record was followed."""

    span: str
    """The traceparent of the batch."""
    header: Header
    plan: Plan


@dataclass(slots=True)
class _Traced:
    begun: int
    is_first: bool
    """Whether it is the first of its plan."""
    recorded: int = 0
    shards: dict[int, tuple[PartTime, ...]] = field(default_factory=dict)
    """What shards reported before the record was followed."""
    followed: _Followed | None = None


class _Start(NamedTuple):
    at: int
    trace: str


class TracedBatches:
    """Those of one start of a job; any thread may call it. Times are in nanoseconds since 1970."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._traced: dict[int, _Traced] = {}
        self._started: _Start | None = None
        self._followed = ""
        """The trace of the newest batch that has one; a plan that only fails or retries tasks keeps it."""

    def start(self, plan: Plan | None) -> None:
        """The query begins to start, for a plan."""
        self._started = _Start(time.time_ns(), plan.trace) if plan is not None and plan.trace else None

    def begin(self, number: int, span: Span, plan: Plan | None) -> bool:
        """Whether the parts of a batch are to be timed, which a shard is given."""
        if not is_tracing():
            return False
        with self._guard:
            if number in self._traced:
                return True
            trace = plan.trace if plan is not None else ""
            is_first = trace not in {"", self._followed} and span.start.entry != span.end.entry
            # Also where a start of the job before this one ran the first batch.
            self._followed = trace or self._followed
            if not is_first and not is_batch_sampled():
                return False
            self._traced[number] = _Traced(time.time_ns(), is_first)
            for old in [*islice(self._traced, max(0, len(self._traced) - _MOST_NOTED))]:
                del self._traced[old]
        return True

    def note(self, number: int, shard: int, times: object) -> None:
        """Note what a shard of a batch has reported: several `PartTime`."""
        with self._guard:
            if (traced := self._traced.get(number)) is None:
                return
            parts = _TIMES.validate_python(times)
            if traced.followed is None:
                traced.shards[shard] = parts
                traced.recorded = time.time_ns()
            else:
                # The host was quicker to follow the record than the worker was to report.
                _record_parts(shard, parts, traced.followed)

    def record(self, job: str, header: Header, plan: Plan) -> None:
        """Make the spans of a batch whose record was followed, if it is traced."""
        if not self._traced:
            return
        with self._guard:
            traced = self._traced.get(header.batch)
            if traced is None or traced.followed is not None:
                return
            now = time.time_ns()
            name, parent = "batch", ""
            if traced.is_first:
                name, parent = "first batch", plan.trace
                started, self._started = self._started, None
                if started is not None and started.trace == plan.trace:
                    record_span("start query", started.at, traced.begun, {"braid.job": job}, parent=started.trace)
            seen: Attributes = {"braid.job": job, "braid.batch": header.batch, "braid.plan": plan.version}
            traced.followed = _Followed(record_span(name, traced.begun, now, seen, parent=parent), header, plan)
            for shard, parts in sorted(traced.shards.items()):
                _record_parts(shard, parts, traced.followed)
            if traced.recorded:
                record_span("follow record", traced.recorded, now, parent=traced.followed.span)


def _record_parts(shard: int, parts: tuple[PartTime, ...], followed: _Followed) -> None:
    """Make the spans of the parts of a shard; those of tasks come after the part that they belong to."""
    batch, header, plan = followed
    of_tasks = batch
    for part, begun, ended, instance in parts:
        if instance is not None:
            record_span(part, begun, ended, _task(instance, plan, header), parent=of_tasks)
            continue
        made = record_span(part, begun, ended, {"braid.shard": shard}, parent=batch)
        of_tasks = made if part == RUN_TASKS else of_tasks


def _task(instance: int, plan: Plan, header: Header) -> Attributes:
    """What is known of a task's work in a batch; that of all shards together."""
    kind = next((slot.type for slot in plan.slots if slot.instance == instance), "")
    meter = header.meters.get(instance, InstanceMeter())
    return {
        "braid.instance": instance,
        "braid.type": kind,
        "braid.cpu_ns": meter.cpu_ns,
        "braid.events_in": meter.taken,
        "braid.events_out": meter.emitted,
        "braid.events_dead": meter.dead,
    }
