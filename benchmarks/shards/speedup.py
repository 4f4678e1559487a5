"""The events per second of a job that computes for each event, by its shards."""

import statistics
from typing import Any

from benchmarks.engine_test_bed import Bed
from benchmarks.reconfiguration.installation import work_of
from benchmarks.shards.scoring_job import ScoringJob

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
