"""Merge and unmerge: how long they take and how much memory they hold, from a thousand submitted dataflows up.

    python -m benchmarks.merge [STORED ...]

Merging is timed with its change applied, unmerging too. Prints a line per measurement; the last is one JSON object.
"""

import gc
import json
import random
import statistics
import sys
from datetime import UTC, datetime

import psutil

from benchmarks import drawn_dataflows
from benchmarks.instruments import alone, clocked
from dags import Dataflow, Source
from dags.canonical import canonicalise
from merge import RunningGraph, merge, unmerge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES = 5_000
A_MILLION = 1_000_000
STORED = (1_000, 10_000, 100_000)
_SOURCES = 2_000


def main(stored: tuple[int, ...]) -> None:
    """Measure everything at each number of stored dataflows."""
    prepare, merging, unmerging = timed_by_stored(drawn_dataflows.Shape(sources=_SOURCES), stored)
    _, merging_tied, unmerging_tied = timed_by_stored(drawn_dataflows.Shape(sources=_SOURCES, hub="hub"), stored)
    result = {
        "prepare_p99_ms": prepare,
        "merge_p99_ms": merging,
        "unmerge_p99_ms": unmerging,
        "merge_one_component_p99_ms": merging_tied,
        "unmerge_one_component_p99_ms": unmerging_tied,
        "bytes_per_task": alone(bytes_per_task, A_MILLION if max(stored) >= max(STORED) else 10 * max(stored)),
        "document_10000_s": alone(long_document_seconds, 10_000),
    }
    print(json.dumps(result))


def timed_by_stored(shape: drawn_dataflows.Shape, stored: tuple[int, ...]) -> tuple[dict[str, float], ...]:
    """The 99th percentiles of prepare, merge and unmerge, by the number of stored dataflows."""
    draw = random.Random(7)
    sources = drawn_dataflows.registered(shape)
    running = RunningGraph()
    percentiles: tuple[dict[str, float], ...] = ({}, {}, {})
    for size in sorted(stored):
        while len(running.dataflows) < size:
            submit_drawn(running, draw, shape, sources)
        # What happened before is not what is measured: start each level with its garbage collected.
        gc.collect()
        times = sampled(running, draw, shape, sources)
        for by_size, what in zip(percentiles, times, strict=True):
            by_size[str(size)] = round(statistics.quantiles(what, n=100)[98] * 1000, 3)
        medians = [round(statistics.median(what) * 1000, 3) for what in times]
        print(
            f"{size:,} dataflows, {len(running.tasks):,} running tasks, hub {shape.hub}: "
            f"p99 {[by_size[str(size)] for by_size in percentiles]} ms, median {medians} ms (prepare, merge, unmerge)",
            flush=True,
        )
    return percentiles


def sampled(
    running: RunningGraph, draw: random.Random, shape: drawn_dataflows.Shape, sources: dict[str, Source]
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of prepare, merge and unmerge, while one dataflow comes and a random one goes, by turns."""
    prepares: list[float] = []
    merges: list[float] = []
    unmerges: list[float] = []
    there = list(running.dataflows)
    for _ in range(SAMPLES):
        text = drawn_dataflows.document(draw, shape, running.version)
        dataflow, took = clocked(prepared, text, f"flow {running.version}", sources)
        prepares.append(took)
        merges.append(clocked(submit, running, dataflow)[1])
        place = draw.randrange(len(there))
        gone, there[place] = there[place], dataflow.id
        unmerges.append(clocked(remove, running, gone)[1])
    return prepares, merges, unmerges


def bytes_per_task(tasks: int) -> int:
    """Resident memory for each running task, at so many."""
    draw = random.Random(8)
    shape = drawn_dataflows.Shape(sources=_SOURCES)
    sources = drawn_dataflows.registered(shape)
    running = RunningGraph()
    gc.collect()
    before: int = psutil.Process().memory_info().rss
    while len(running.tasks) < tasks:
        submit_drawn(running, draw, shape, sources)
    gc.collect()
    bytes_each = (psutil.Process().memory_info().rss - before) / len(running.tasks)
    print(f"{len(running.tasks):,} running tasks of {len(running.dataflows):,} dataflows: {bytes_each:.0f} bytes each")
    return round(bytes_each)


def long_document_seconds(tasks: int) -> float:
    """Seconds to parse, canonicalise and merge a document of so many tasks: the median of five."""
    text = drawn_dataflows.long_document(tasks)
    sources = drawn_dataflows.registered(drawn_dataflows.Shape(sources=1))
    took = [clocked(lambda: submit(RunningGraph(), prepared(text, "long", sources)))[1] for _ in range(5)]
    print(f"a document of {tasks:,} tasks and {len(text):,} bytes: {[round(seconds, 2) for seconds in took]} s")
    return round(statistics.median(took), 3)


def submit_drawn(
    running: RunningGraph, draw: random.Random, shape: drawn_dataflows.Shape, sources: dict[str, Source]
) -> None:
    """Submit one more dataflow."""
    submit(
        running, prepared(drawn_dataflows.document(draw, shape, running.version), f"flow {running.version}", sources)
    )


def prepared(text: str, dataflow: str, sources: dict[str, Source]) -> Dataflow:
    """Parse and canonicalise."""
    return canonicalise(text, dataflow=dataflow, tenant="t", catalogue=drawn_dataflows.CATALOGUE, sources=sources)


def submit(running: RunningGraph, dataflow: Dataflow) -> None:
    """Merge, and apply what that says."""
    running.advance(merge(running, dataflow, NOW))


def remove(running: RunningGraph, dataflow: str) -> None:
    """Unmerge, and apply what that says."""
    running.advance(unmerge(running, dataflow))


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or STORED)
