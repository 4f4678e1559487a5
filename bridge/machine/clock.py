"""Clocks: the time of day, and the time that has passed.

The time of day is for people and other machines. It may be set back or forth at any moment, so waiting uses the time
that has passed.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def passed(self) -> float:
        """Seconds since some moment; setting the clock does not change it."""


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def passed(self) -> float:
        """Seconds since some moment; setting the clock does not change it."""
        return time.monotonic()
