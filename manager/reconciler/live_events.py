"""The live stream of events: operations, and new states of jobs and dataflows, in a ring that any thread may read."""

import threading
import time
from collections import deque
from typing import Any, Literal

from manager.answers import EventAnswer, OperationAnswer

_MOST_KEPT = 10_000
"""Events that are kept for whoever comes back; who was away for longer reads the lists instead."""


class Events:
    """The newest events, made once for each manager. Their numbers have no gaps."""

    def __init__(self, most: int = _MOST_KEPT, *, last: int | None = None) -> None:
        """`last` is the number before the first; the milliseconds since 1970 if not given.

        So numbers go on rising from one manager to the next, and whoever comes back with an older one misses none.
        """
        self._kept: deque[EventAnswer] = deque(maxlen=most)
        self._last = time.time_ns() // 1_000_000 if last is None else last
        self._closed = False
        self._changed = threading.Condition()

    @property
    def last(self) -> int:
        """The number of the newest, or the one before the first."""
        with self._changed:
            return self._last

    def tell(self, kind: Literal["operation", "job", "dataflow"], told: dict[str, Any]) -> EventAnswer:
        """Add an event."""
        with self._changed:
            self._last += 1
            event = EventAnswer(id=self._last, kind=kind, told=told)
            self._kept.append(event)
            self._changed.notify_all()
            return event

    def tell_operation(self, operation: OperationAnswer) -> EventAnswer:
        """Add an operation; called by the service once it is committed."""
        return self.tell("operation", operation.model_dump(mode="json"))

    def since(self, event: int) -> tuple[EventAnswer, ...]:
        """The events after one, as far as they are kept; oldest first."""
        with self._changed:
            return self._since(event)

    def wait(self, event: int, timeout: float) -> tuple[EventAnswer, ...]:
        """The events after one, as soon as there are any; none after the timeout, or once the feed is closed."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (found := self._since(event)) and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return found

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        with self._changed:
            return self._closed

    def close(self) -> None:
        """Let everybody go who waits: the manager ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _since(self, event: int) -> tuple[EventAnswer, ...]:
        if event >= self._last:
            return ()
        # Numbers have no gaps, so the place is known.
        skipped = max(0, event - (self._last - len(self._kept)))
        return tuple(self._kept)[skipped:]
