"""The keeper of adaptations: a thread of the leading manager that has dynamic dataflows looked at."""

import threading

from manager.cases.adaptive.adapter import Adapter
from manager.cases.tools import Tools
from manager.event_flow.domain_event_line import DomainEventLine, EventConnector
from manager.process.regular_looks import look_with

_EVERY = 1.0
"""Seconds between two looks."""


class AdaptationKeeper:
    """Looks from `start` to `stop`, as often as this manager comes to lead."""

    def __init__(self, tools: Tools, connect: EventConnector) -> None:
        self._adapter = Adapter(tools, DomainEventLine(connect))
        self.latencies = self._adapter.latencies
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="adapts dataflows", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(_EVERY):
            look_with(self._adapter.look, otherwise="dynamic dataflows stay as they are")
        self._adapter.stop()
