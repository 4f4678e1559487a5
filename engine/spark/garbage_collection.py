"""Garbage: PySpark's worker collects it after every task, and looks at everything that a process keeps each time.

What it keeps grows with the jobs that it meets: modules, behaviours, what libraries remember. A library for plots alone
takes longer to look at than most batches take. So what outlives a collection between two batches is frozen, as soon as
looking at it takes long. Not so within a batch, because what is frozen is freed only where no cycle holds it.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

LONG: Final = 0.002
"""CPU seconds of a collection, after which what it left is not looked at again."""


class GarbageGuard:
    """What a worker process does not look at again."""

    def __init__(self) -> None:
        self._in_batch = False
        self._begun = 0.0

    def begin(self) -> None:
        """From now on, in this process and those forked from it, freeze what outlives long collections."""
        gc.callbacks.append(self._collecting)

    def end(self) -> None:
        """Freeze nothing any more."""
        gc.callbacks.remove(self._collecting)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A batch is run: what lives now may be done with after it."""
        self._in_batch = True
        try:
            yield
        finally:
            self._in_batch = False

    def _collecting(self, phase: str, told: dict[str, Any]) -> None:
        if self._in_batch or told["generation"] < 2:  # noqa: PLR2004 - the oldest, as `gc` counts them
            return
        if phase == "start":
            self._begun = time.thread_time()
        elif time.thread_time() - self._begun > LONG:
            gc.freeze()
