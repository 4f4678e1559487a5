"""A look at an output: samples of what leaves it, a few times a second, for one reader.

Of all messages between two samples only the newest is parsed. The numbers of its events show how many others there
were, so a busy output costs little more than an idle one.
"""

import json
import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from manager.answers import SampleAnswer
from manager.event_flow.output_reader import OutputReader

MOST_SAMPLE_EVENTS = 20
"""Events that a sample shows at most."""
MOST_SAMPLE_CHARACTERS = 50_000
"""Characters of JSON that the events of a sample have at most."""
log = logging.getLogger("braid.watching")


class OutputLook(OutputReader):
    """A look at one output; made by `manager.event_flow.output_watcher.OutputWatcher`. Thread-safe."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self._guard = threading.Lock()
        self._newest: bytes | None = None
        """The latest message, if it was not taken yet."""
        self._last: tuple[int, int] | None = None
        """The epoch of the last sample, and the number after its last event."""

    def receive(self, payload: bytes) -> None:
        """Keep a message of the output instead of the one before."""
        with self._guard:
            known, self._newest = self._newest is not None, payload
        if not known:
            self._notify()

    def take(self) -> SampleAnswer | None:
        """Take a sample of the latest message, if there is a new one; for one thread at a time."""
        with self._guard:
            payload, self._newest = self._newest, None
        if payload is None:
            return None
        try:
            return self._sample(json.loads(payload))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: passed over, because it is no output: %s", self.topic, error)
            return None

    def _sample(self, content: Mapping[str, Any]) -> SampleAnswer:
        epoch, first, events = int(content["epoch"]), int(content["first"]), tuple(content["events"])
        # A message that is sent again after a broken connection has numbers that were sampled before.
        unseen = max(0, first - self._last[1]) if self._last is not None and self._last[0] == epoch else 0
        self._last = epoch, first + len(events)
        sizes = accumulate(len(json.dumps(event)) for event in events[:MOST_SAMPLE_EVENTS])
        shown = events[: sum(size <= MOST_SAMPLE_CHARACTERS for size in sizes)]
        return SampleAnswer(
            at=datetime.now(UTC), epoch=epoch, first=first, events=shown, others=unseen + len(events) - len(shown)
        )
