"""The live events: operations and state changes of jobs and dataflows, in a ring that any thread may read."""

import threading
import time
from collections import deque
from typing import Any, Literal

from manager.answers import EventAnswer, OperationAnswer

_MOST_KEPT = 10_000
"""Events kept for readers that reconnect; one that was away for longer reads the lists instead."""


class LiveEvents:
    """The newest events of a manager, numbered without gaps."""

    def __init__(self, most: int = _MOST_KEPT, *, last: int | None = None) -> None:
        """`last` is the number before the first; by default, the milliseconds since 1970.

        So numbers keep rising from one manager to the next, and a reader that reconnects with an old one misses none.
        """
        self._kept: deque[EventAnswer] = deque(maxlen=most)
        self._last = time.time_ns() // 1_000_000 if last is None else last
        self._closed = False
        self._changed = threading.Condition()

    @property
    def last(self) -> int:
        """The number of the newest event, or the one before the first."""
        with self._changed:
            return self._last

    def add(self, kind: Literal["operation", "job", "dataflow"], content: dict[str, Any]) -> EventAnswer:
        """Add an event."""
        with self._changed:
            self._last += 1
            event = EventAnswer(id=self._last, kind=kind, told=content)
            self._kept.append(event)
            self._changed.notify_all()
            return event

    def add_operation(self, operation: OperationAnswer) -> EventAnswer:
        """Add a committed operation."""
        return self.add("operation", operation.model_dump(mode="json"))

    def since(self, event: int) -> tuple[EventAnswer, ...]:
        """Return the events after one, as far as they are kept, oldest first."""
        with self._changed:
            return self._since(event)

    def wait(self, event: int, timeout: float) -> tuple[EventAnswer, ...]:
        """Return the events after one as soon as there are any; none after the timeout, or once it is closed."""
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
        """Whether the manager has ended, so that no more events come."""
        with self._changed:
            return self._closed

    def close(self) -> None:
        """Release all waiting readers: the manager ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _since(self, event: int) -> tuple[EventAnswer, ...]:
        if event >= self._last:
            return ()
        # Numbers have no gaps, so the index follows from the number.
        skipped = max(0, event - (self._last - len(self._kept)))
        return tuple(self._kept)[skipped:]
