"""What time it is, for whoever must be told: from the system, or in tests from a hand that turns it."""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock on the wall."""

    def now(self) -> float:
        """Seconds since the epoch."""


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()


class MemoryClock:
    """The clock's twin in memory: it stands still until it is told to advance."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go back, so not by {seconds} seconds; advance by 0 or more")
        self._now += seconds
