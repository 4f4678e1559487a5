"""Threads that run beside a manager, and parts that look again and again at what they see to."""

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from manager.problem import DatabaseAway

log = logging.getLogger("braid.manager")


class Background:
    """A thread that runs from `start` to `stop`, as often as it is started."""

    def __init__(self, run: Callable[[], None], name: str, *, wake: Callable[[], object] = lambda: None) -> None:
        """`run` returns once `stopping` is set; `wake` ends what it waits for otherwise."""
        self.stopping = threading.Event()
        self._run = run
        self._name = name
        self._wake = wake
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self.stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; idempotent."""
        self.stopping.set()
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class ManagerWatch(NamedTuple):
    """A part that looks again and again at what it sees to, and what is missed if it fails."""

    look: Callable[[], None]
    otherwise: str

    def run(self) -> None:
        """Have it look. Whatever fails must not end the service, which does without."""
        try:
            self.look()
        except DatabaseAway as error:
            log.debug("%s until the next look: %s", self.otherwise, error)
        except Exception:  # as above
            log.exception("%s until the next look", self.otherwise)


class RegularLooks(Background):
    """A thread for one watch."""

    def __init__(self, watch: ManagerWatch, *, every: float, at_end: Callable[[], None] = lambda: None) -> None:
        """`every` is the seconds between two looks; `at_end` is called by the thread after the last."""
        super().__init__(self._look, f"else {watch.otherwise}")
        self._watch = watch
        self._every = every
        self._at_end = at_end

    def _look(self) -> None:
        while not self.stopping.wait(self._every):
            self._watch.run()
        self._at_end()
