"""The garbage collection of a worker process, kept short by freezing what stays.

PySpark collects garbage after every task, and scans every object of the process each time. There are more of them with
each job that the process runs: modules, behaviours, caches of libraries. To scan a plotting library alone takes longer
than most batches. So once a collection between two batches takes long, the objects that outlive it are frozen. Not so
within a batch, because a frozen object is only freed if no cycle holds it.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LONG: Final = 0.002
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
        elif time.thread_time() - self._begun > _LONG:
            gc.freeze()
