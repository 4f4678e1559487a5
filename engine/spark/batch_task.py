"""The task that Spark runs for each shard of a batch, in a Python worker."""

import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from engine.kernel.batch_rows import read_rows
from engine.kernel.worker import Worker
from engine.spark.garbage_collection import GarbageGuard

_BATCH_PROPERTY = "streaming.sql.batchId"
"""The property of a task that holds its batch; a batch that is run again has the same."""
RESULT = "batch long"
"""The schema of the task's result, which is empty: the outcome of a batch is its record."""
_REPORT_SECONDS = 1.0
"""The most seconds that a worker waits for a host that does not listen."""

GARBAGE_GUARD = GarbageGuard()
"""Begun by the process that forks the workers, or on a cluster, where Spark's own does, by each worker."""


def answer(root: str, job: str, pace: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run one shard of a batch; `pace` is the socket where records are reported to the host."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a batch can only be run as a task of Spark")
    batch = int(context.getLocalProperty(_BATCH_PROPERTY) or 0)
    GARBAGE_GUARD.begin()
    with GARBAGE_GUARD.batch():
        span, items, shard = read_rows(batches)
        if _worker(Path(root), job).work_off(batch, span, items, shard):
            report_recorded(pace, job)
    yield from ()


def report_recorded(pace: str, job: str) -> None:
    """Have the host follow the record now, and not only once Spark has committed the batch and asks again."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_REPORT_SECONDS)
            connection.connect(pace)
            connection.sendall(json.dumps({"job": job, "recorded": True}).encode() + b"\n")
    except OSError:
        # The worker is on another machine, or the host died or hangs: the job's follower finds the record later.
        return


_workers: dict[tuple[Path, str], Worker] = {}
"""The jobs of which this process has run batches, with their states."""


def _worker(root: Path, job: str) -> Worker:
    known = _workers.get((root, job))
    if known is None or known.is_over():
        # Otherwise the states of all jobs that ever ran would stay in memory.
        for over in [each for each, worker in _workers.items() if worker.is_over()]:
            del _workers[over]
        known = _workers[root, job] = Worker(root, job)
    return known
