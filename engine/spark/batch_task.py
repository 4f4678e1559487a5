"""The task that Spark runs for each shard of a long batch, in a Python worker."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from engine.kernel.batch_rows import read_rows
from engine.kernel.worker import Worker
from engine.spark.garbage_collection import GarbageGuard
from engine.spark.pace_line import PaceLine

RESULT = "batch long"
"""The schema of the task's result, which is empty: the outcome of a batch is its record."""

GARBAGE_GUARD = GarbageGuard()
"""Begun by the process that forks the workers, or on a cluster, where Spark's own does, by each worker."""


def answer(root: str, job: str, pace: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run batch after batch of one shard; `pace` is where records are reported to the host."""
    GARBAGE_GUARD.begin()
    line, batches = PaceLine(pace, job), read_rows(rows)
    # If the host died, it finds the records later. From now on it notices when this process ends.
    with suppress(OSError):
        line.ask({"recorded": None})
    while (given := next(batches, None)) is not None:
        try:
            with GARBAGE_GUARD.batch():
                is_recorded = _worker(Path(root), job).work_off(given.batch, given.span, given.items, given.shard)
        except Exception:
            # Spark looks at what a worker says only once there is nothing more to pass to it.
            with suppress(OSError):
                line.ask({"raised": given.shard})
            raise
        if is_recorded:
            with suppress(OSError):
                line.ask({"recorded": given.batch})
    line.close()
    yield from ()


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
