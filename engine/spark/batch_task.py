"""What Spark calls for each batch, in a Python worker of its own."""

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
"""Where Spark tells which batch a task belongs to; a batch that is run again has the same."""
RESULT = "batch long"
"""As Spark declares what comes out, which is nothing: what a batch did is its record."""
_REPORT_SECONDS = 1.0
"""Seconds that a worker waits at most for a host that does not listen."""

GARBAGE_GUARD = GarbageGuard()
"""Begun by the process that workers are forked from."""


def answer(root: str, job: str, pace: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run as the one task of a batch; `pace` is where the host answers, and hears of records."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a batch can only be run as a task of Spark")
    batch = int(context.getLocalProperty(_BATCH_PROPERTY) or 0)
    with GARBAGE_GUARD.batch():
        span, items = read_rows(batches)
        _worker(Path(root), job).work_off(batch, span, items)
        report_recorded(pace, job)
    yield from ()


def report_recorded(pace: str, job: str) -> None:
    """Have the host take up the record now, and not only once Spark has committed the batch and asks again."""
    try:
        with socket.socket(socket.AF_UNIX) as telling:
            telling.settimeout(_REPORT_SECONDS)
            telling.connect(pace)
            telling.sendall(json.dumps({"job": job, "recorded": True}).encode() + b"\n")
    except OSError:
        # A worker on another machine, or a host that died or hangs: whoever follows the job finds the record later.
        return


_workers: dict[tuple[Path, str], Worker] = {}
"""The jobs that this process has met, with their states."""


def _worker(root: Path, job: str) -> Worker:
    known = _workers.get((root, job))
    if known is None or known.is_over():
        # Else the states of all jobs that ever ran would stay in memory.
        for over in [each for each, worker in _workers.items() if worker.is_over()]:
            del _workers[over]
        known = _workers[root, job] = Worker(root, job)
    return known
