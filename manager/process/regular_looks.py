"""Regular looks: what the manager has its parts do again and again, and does without if it fails."""

import logging
import threading
from collections.abc import Callable

from manager.problem import DatabaseAway

log = logging.getLogger("braid.manager")


def look_with(look: Callable[[], None], *, otherwise: str) -> None:
    """Have a part look at what it sees to. Whatever fails must not end the service, which does without."""
    try:
        look()
    except DatabaseAway as error:
        log.debug("%s until the next look: %s", otherwise, error)
    except Exception:  # as above
        log.exception("%s until the next look", otherwise)


class RegularLooks:
    """A thread of the leading manager that has a part look, from `start` to `stop`, as often as it comes to lead."""

    def __init__(
        self, look: Callable[[], None], *, every: float, otherwise: str, at_end: Callable[[], None] = lambda: None
    ) -> None:
        """`every` is the seconds between two looks; `at_end` is called by the thread after the last."""
        self._look = look
        self._every = every
        self._otherwise = otherwise
        self._at_end = at_end
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), name=f"else {self._otherwise}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._every):
            look_with(self._look, otherwise=self._otherwise)
        self._at_end()
