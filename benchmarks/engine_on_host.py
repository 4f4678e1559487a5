"""What the engine's benchmark measures on a running host."""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.engine_plans import chain, delivering, event, events, quiet, subscribed, topic, twelve
from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures, percentiles
from bridge.wire import Emitted, Stream
from engine.plan import Bridged

_JOBS = 10
PACES = (0.2, 1.0)
SLOW = 10.0
"""Seconds between two batches of a job that nobody waits for."""
_RATES = (100, 1_000)


def start(bed: Bed, job: str, first: int) -> float:
    """Seconds from a job's first plan, with an event waiting in it, to its first output."""
    plan = delivering(job, first, subscribed(job), pace=0.2)
    begun = time.monotonic()
    bed.send(plan)
    # Raw events have nowhere to go before their spool is there, so they are sent until something comes.
    while not bed.outputs[job]:
        bed.client.publish(topic(job), json.dumps(event(0, time.time())).encode())
        time.sleep(0.05)
    took = time.monotonic() - begun
    bed.end(job)
    return round(took, 2)


def idle(bed: Bed, seconds: float) -> Figures:
    """Ten jobs with hardly any events, then the same with one event a second each."""
    before = bed.memory()
    # One event in a million seconds.
    still = [quiet(f"still {at}", 100 + 10 * at, 1e-6) for at in range(_JOBS)]
    bed.run(*still)
    time.sleep(3.0)
    bytes_each = (bed.memory() - before) / _JOBS
    figures: Figures = {
        "memory_mb_per_job": round(bytes_each / 1e6, 1),
        "idle_cores_10_jobs": round(_cores(bed, seconds), 4),
    }
    bed.end(*(plan.job for plan in still))
    resting = _cores(bed, seconds)
    figures["idle_cores_host"] = round(resting, 4)
    slow = [quiet(f"slow {at}", 300 + 10 * at, 1.0) for at in range(_JOBS)]
    bed.run(*slow)
    time.sleep(3.0)
    figures["cpu_ms_per_batch_1_event"] = _per_batch(bed, [plan.job for plan in slow], lambda: time.sleep(seconds))
    bed.end(*(plan.job for plan in slow))
    return figures


def slow(bed: Bed, seconds: float) -> Figures:
    """The cores that many jobs take, by part: at a pace of 10 s, each with a stream and an event a second."""
    jobs = [replace(quiet(f"slow {at}", 2_000 + 10 * at, 1.0), pace=SLOW) for at in range(2 * _JOBS)]
    bed.run(*jobs)
    # Until the first batch with events is over.
    time.sleep(2 * SLOW)
    with bed.measured() as used:
        # Whole paces, so that each job runs as many batches.
        time.sleep(SLOW * max(1, round(seconds / SLOW)))
        took = used()
    bed.end(*(plan.job for plan in jobs))
    return {part: round(cpu / took.seconds, 4) for part, cpu in took.cpu.items()}


def at_rate(bed: Bed, seconds: float) -> Figures:
    """One job with a hundred events a second: generated in the host, and as one raw message each.

    A JVM becomes faster over its first hundreds of batches, so twenty of them a second come first.
    """
    raw = delivering("raw", 510, subscribed("raw"), pace=0.05)
    figures: Figures = {}
    for plan, warming, name in (
        (raw, 3.0 * seconds, "20_a_second"),
        (replace(raw, version=2, pace=0.2), 3.0, "5_a_second"),
        (replace(raw, version=3, pace=1.0), 3.0, "100_messages"),
    ):
        bed.run(plan)
        publish(bed, "raw", 100, warming)
        figures[f"cpu_ms_per_batch_{name}"] = _per_batch(bed, ["raw"], lambda: publish(bed, "raw", 100, seconds))
    bed.end("raw")
    # What generates writes four files a second, so that it feeds no job twenty times a second.
    bed.run(quiet("generated", 500, 100))
    time.sleep(3.0)
    figures["cpu_ms_per_batch_100_generated"] = _per_batch(bed, ["generated"], lambda: time.sleep(seconds))
    bed.end("generated")
    return figures


def _cores(bed: Bed, seconds: float) -> float:
    with bed.measured() as used:
        time.sleep(seconds)
        took = used()
    return took.total / took.seconds


def _per_batch(bed: Bed, jobs: Sequence[str], meanwhile: Callable[[], object]) -> Figures:
    """Milliseconds of CPU for each batch: of all that the host does, by part."""
    before = sum(map(bed.batches, jobs))
    with bed.measured() as used:
        meanwhile()
        took = used()
    batches = max(1, sum(map(bed.batches, jobs)) - before)
    return {
        "all": round(1000 * took.total / batches, 1),
        **{part: round(1000 * cpu / batches, 1) for part, cpu in took.cpu.items()},
        "batches": batches,
    }


def publish(bed: Bed, job: str, per_second: float, seconds: float) -> int:
    """Raw events at an even rate, each with the time it was sent at; how many."""
    begun, number = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        while number < passed * per_second:
            bed.client.publish(topic(job), json.dumps(event(number, time.time())).encode())
            number += 1
        time.sleep(0.002)
    return number


def arrow(bed: Bed, messages: int) -> Figures:
    """Twelve tasks over messages of a thousand events from another job."""
    plan = twelve("arrow", 600, Bridged())
    bed.run(plan)
    batch, stream, sent = events(1_000), Stream(600, "out"), 0

    def kept(number: int) -> Iterator[Emitted]:
        for at in range(number // 1_000, sent):
            yield Emitted(first=at * 1_000, events=batch)

    def send(first: int, count: int) -> None:
        nonlocal sent
        for at in range(first, first + count):
            sent = at + 1
            bed.sender.emit(stream, Emitted(first=at * 1_000, events=batch))

    bed.sender.forward(stream, epoch=1, first=0, kept=kept)
    return _throughput(bed, "arrow", messages, 1_000, send)


def raw(bed: Bed, messages: int) -> Figures:
    """Twelve tasks over raw messages of one event in JSON."""
    plan = twelve("json", 620, subscribed("json"))
    bed.run(plan)

    def send(first: int, count: int) -> None:
        for at in range(first, first + count):
            bed.client.publish(topic("json"), json.dumps(event(at, 0.0)).encode())

    return _throughput(bed, "json", messages, 1, send)


def _throughput(bed: Bed, job: str, messages: int, events_each: int, send: Callable[[int, int], None]) -> Figures:
    name = f"to {job}"
    warm = max(1, messages // 10)
    send(0, warm)
    bed.wait(lambda: bed.status[job]["positions"].get(name, 0) >= warm * events_each)
    before = bed.batches(job)
    with bed.measured() as used:
        send(warm, messages)
        bed.wait(lambda: bed.status[job]["positions"][name] >= (warm + messages) * events_each)
        took = used()
    count = messages * events_each
    bed.end(job)
    return {
        "events_per_core_s": round(count / took.total),
        "events_per_s": round(count / took.seconds),
        "batches": bed.batches(job) - before,
        "cpu_s": {part: round(cpu, 2) for part, cpu in took.cpu.items()},
    }


def latency(bed: Bed, seconds: float) -> Figures:
    """Milliseconds from a raw event to its arrival at a subscriber of the sink: the median and the 99th percentile."""
    figures: Figures = {}
    for at, pace in enumerate(PACES):
        first = 700 + 20 * at
        one = delivering(f"one {pace:g}", first, subscribed(f"one {pace:g}"), pace=pace)
        above, below = chain(first + 10, f"two {pace:g}", pace=pace)
        # A receiver subscribes to a stream before it is forwarded.
        bed.run(one, below)
        bed.run(above)
        for rate in _RATES:
            for label, into, out in (("one job", one.job, one.job), ("two jobs", above.job, below.job)):
                figures[f"{label}, pace {pace:g} s, {rate} events/s"] = _latency(bed, into, out, rate, seconds)
        bed.end(one.job, above.job, below.job)
    return figures


def _latency(bed: Bed, into: str, out: str, rate: float, seconds: float) -> Figures:
    begun = time.time()
    sent = publish(bed, into, rate, seconds)

    def came() -> list[float]:
        return [
            1_000 * (output.at - event["sent"])
            for output in bed.outputs[out]
            for event in json.loads(output.payload)["events"]
            if event["sent"] >= begun
        ]

    bed.wait(lambda: len(came()) >= sent)
    times = came()
    bed.outputs[out].clear()
    return percentiles(times)


def swap(bed: Bed, times: int) -> Figures:
    """Milliseconds from a new plan to the status that says that it is in effect, in a job at a pace of a second."""

    def plan(version: int) -> Any:
        return delivering("swapped", 800, subscribed("swapped"), pace=1.0, version=version)

    bed.run(plan(1))
    took = []
    for version in range(2, times + 2):
        publish(bed, "swapped", 100, 0.7 + 0.13 * (version % 5))
        begun = time.monotonic()
        bed.run(plan(version))
        took.append(time.monotonic() - begun)
    bed.end("swapped")
    return {"p50": round(statistics.median(took) * 1000), "max": round(max(took) * 1000)}
