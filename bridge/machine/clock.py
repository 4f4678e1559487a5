"""What time it is, and how much has passed: from the system, or in tests from a hand that turns the clock.

The clock on the wall tells people and other machines when something was. It may be set at any moment, to before or
after; whoever waits goes by what has passed.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def passed(self) -> float:
        """Seconds since some moment, whatever the clock was set to meanwhile."""


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def passed(self) -> float:
        """Seconds since some moment, whatever the clock was set to meanwhile."""
        return time.monotonic()


class MemoryClock:
    """The clock's twin in memory: it stands still until it is told to advance."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = self._passed = now

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def passed(self) -> float:
        """Seconds since some moment, whatever the clock was set to meanwhile."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go back, so not by {seconds} seconds; advance by 0 or more")
        self._now += seconds
        self._passed += seconds

    def set(self, now: float) -> None:
        """Set it, as people and machines do with clocks on walls: no time passes."""
        self._now = now
