"""What Spark calls for each batch, in a Python worker of its own."""

import gc
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from engine.rows import read_rows
from engine.worker import Worker

BATCH = "streaming.sql.batchId"
"""Where Spark tells which batch a task belongs to; a batch that is run again has the same."""
RESULT = "batch long"
"""As Spark declares what comes out, which is nothing: what a batch did is its record."""

_settled = False


def answer(root: str, job: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run as the one task of a batch."""
    global _settled  # noqa: PLW0603 - it says something about this process
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a batch can only be run as a task of Spark")
    batch = int(context.getLocalProperty(BATCH) or 0)
    span, items = read_rows(batches)
    _worker(Path(root), job).work_off(batch, span, items)
    if not _settled:
        # PySpark's worker collects garbage after every task; what is loaded by now need not be looked at again.
        gc.collect()
        gc.freeze()
        _settled = True
    yield from ()


@cache
def _worker(root: Path, job: str) -> Worker:
    return Worker(root, job)
