"""The change of the number of shards of a running job: how long it takes, and what its outputs notice."""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures, p99, percentiles, repeated
from benchmarks.plain.program import printed_by
from benchmarks.shards.scoring_job import PIECE, ScoringJob

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
