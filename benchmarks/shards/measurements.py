"""What is measured of shards: events per second, the CPU of a batch, and how a running job changes their number."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.engine_on_host import publish
from benchmarks.engine_plans import delivering, subscribed
from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures, p99, percentiles, repeated
from benchmarks.plain.program import printed_by
from benchmarks.reconfiguration.installation import work_of
from benchmarks.shards.scoring_job import PIECE, ScoringJob

_WORK_MS = 0.2
_EVENTS = 20_000
_WARM = 4_000


def speedup(bed: Bed, *, rounds: int, first: int = 10_000) -> dict[str, Any]:
    """One shard and two in turn: the ratio of each pair, and the median."""
    work = work_of(_WORK_MS)
    rates: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for shards, measured_rates in rates.items():
            job = ScoringJob(bed, first + 100 * number + 10 * shards, work=work, shards=shards)
            job.work_off(_WARM)
            with bed.measured() as used:
                measured_rates.append(job.work_off(_EVENTS))
                cpu[shards].append(used().total / _EVENTS * 1_000)
            job.end()
    ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    return {
        "median": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "events_per_s": {shards: round(statistics.median(values)) for shards, values in rates.items()},
        "cpu_ms_per_event": {shards: round(statistics.median(values), 3) for shards, values in cpu.items()},
    }


_QUICK_PACE = 0.2
_RATE = 50.0


def batch_cost(bed: Bed, *, seconds: float, first: int = 20_000) -> Figures:
    """Milliseconds of CPU of all processes for each batch, and what a further shard adds."""
    figures: Figures = {}
    plan = delivering("batches", first, subscribed("batches"), pace=_QUICK_PACE)
    bed.run(plan)
    # A JVM becomes faster over its first hundreds of batches.
    publish(bed, "batches", _RATE, 2 * seconds)
    for version, shards in enumerate((1, 8, 32), 2):
        bed.run(replace(plan, version=version, shards=shards))
        publish(bed, "batches", _RATE, seconds / 2)
        before = bed.batches("batches")
        with bed.measured() as used:
            publish(bed, "batches", _RATE, seconds)
            time.sleep(_QUICK_PACE)
            took = used()
        batches = bed.batches("batches") - before
        figures[str(shards)] = {
            "ms": round(took.total / batches * 1_000, 1),
            "parts": {part: round(cpu / batches * 1_000, 1) for part, cpu in took.cpu.items()},
        }
    one = figures["1"]["ms"]
    for shards in (8, 32):
        figures[f"each_of_{shards}"] = round((figures[str(shards)]["ms"] - one) / (shards - 1), 1)
    bed.end("batches")
    return figures


_BYTES_OF_USER = 120
"""About the bytes that the state keeps for a user."""
_PACE = 1.0
_PER_SECOND = 100
_FILL = 50_000
_BESIDE = 30.0
"""Seconds before and after a change over which its latency is measured."""


def rescale(bed: Bed, *, megabytes: float, times: int, first: int) -> Figures:
    """A job with so much state and a hundred events a second, that has one shard and two in turn."""
    users = int(megabytes * 1_000_000 / _BYTES_OF_USER)
    job = ScoringJob(bed, first, work=0, shards=1, users=users, pace=_PACE)
    for begin in range(0, users, _FILL):
        job.work_off(min(_FILL, -(-(users - begin) // PIECE) * PIECE))
    with repeated(lambda: job.send(PIECE), PIECE / _PER_SECOND):
        begun = time.time()
        time.sleep(_BESIDE)
        quiet = around = _latencies(job, begun)
        took, silences = [], []
        for number in range(times):
            took.append(job.become(2 - number % 2))
            # After the first change nothing else happens for a while.
            watched = _BESIDE if not number else 3.0
            silences.append(_longest_silence(job, time.time() - took[-1] / 1_000, watched))
            if not number:
                around = _latencies(job, begun)
    bed.end(job.plan.job)
    return {
        "state_mb": megabytes,
        "ms": _summed(took),
        "silence_ms": _summed(silences),
        "p99_ms_before": round(p99(quiet)),
        "p99_ms_around": round(p99(around)),
        "peak_latency_ratio": round(p99(around) / p99(quiet), 2),
    }


def plain_restart(folder: Path, *, megabytes: float, times: int) -> Figures:
    """A plain query with as many users, that is stopped and started instead; Spark fixes its number of partitions."""
    printed = printed_by("restarts", folder, int(megabytes * 1_000_000 / _BYTES_OF_USER), times)
    return {"state_mb": megabytes, "ms": _summed([seconds * 1_000 for seconds in printed["seconds"]])}


def _latencies(job: ScoringJob, begun: float) -> list[float]:
    return [(at - event["sent"]) * 1_000 for at, event in job.outputs() if event["sent"] >= begun]


def _longest_silence(job: ScoringJob, begun: float, seconds: float) -> float:
    """The longest time without an output from then on, over a while, in milliseconds."""
    time.sleep(seconds)
    came = (message.at for message in job.bed.outputs[job.plan.job] if message.at >= begun)
    return max((two - one) * 1_000 for one, two in pairwise([begun, *sorted(came), time.time()]))


def _summed(values: Sequence[float]) -> Figures:
    return {**percentiles(values), "samples": len(values)}
