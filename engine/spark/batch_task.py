"""The task that Spark runs for each shard of a long batch, in a Python worker.

**Garbage.** PySpark collects garbage after every task, and scans every object of the process each time. There are more
of them with each job that the process runs: modules, behaviours, caches of libraries. To scan a plotting library alone
takes longer than most batches. So once a collection between two batches takes long, the objects that outlive it are
frozen. Not so within a batch, because a frozen object is only freed if no cycle holds it.
"""

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.kernel.batch_rows import read_rows
from engine.kernel.part_times import PartTimes
from engine.kernel.worker import Worker
from engine.port_events import PortSampling
from engine.spark.source import PaceLine

_LONG_COLLECTION: Final = 0.002
"""CPU seconds of a collection after which the objects that it left are not scanned again."""


class GarbageGuard:
    """Freezes what outlives long collections in a worker process."""

    def __init__(self) -> None:
        self._in_batch = False
        self._begun = 0.0

    def begin(self) -> None:
        """Begin to freeze, in this process and those forked from it; idempotent."""
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Freeze nothing within this: many objects live only as long as their batch."""
        self._in_batch = True
        try:
            yield
        finally:
            self._in_batch = False

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if self._in_batch or info["generation"] < 2:  # noqa: PLR2004 - the oldest generation of `gc`
            return
        if phase == "start":
            self._begun = time.thread_time()
        elif time.thread_time() - self._begun > _LONG_COLLECTION:
            gc.freeze()


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
        sampling = PortSampling(given.looked_at) if given.looked_at else None
        times = PartTimes() if given.timed else None
        try:
            with GARBAGE_GUARD.batch():
                worker = _worker(Path(root), job)
                is_recorded = worker.work_off(
                    given.batch, given.span, given.items, given.shard, sampling=sampling, times=times
                )
        except Exception:
            # Spark looks at what a worker says only once there is nothing more to pass to it.
            with suppress(OSError):
                line.ask({"raised": given.shard})
            raise
        if is_recorded or times is not None:
            timed = {} if times is None else {"timed": [given.batch, given.shard, times.all()]}
            with suppress(OSError):
                line.ask({"recorded": given.batch if is_recorded else None, **timed})
        if sampling is not None:
            # Last, so that nothing waits for it.
            with suppress(OSError):
                line.ask({"recorded": None, "sampled": [*sampling.samples()], "of": [*sampling.instances]})
    line.close()
    yield from ()


_workers: dict[tuple[Path, str], Worker] = {}
"""The jobs of which this process has run batches, with their states."""


def _worker(root: Path, job: str) -> Worker:
    known = _workers.get((root, job))
    if known is None or known.is_over():
        # Otherwise the states of all jobs that ever ran would stay in memory.
        for over in [key for key, worker in _workers.items() if worker.is_over()]:
            del _workers[over]
        known = _workers[root, job] = Worker(root, job)
    return known
