"""The clock's twin: time passes as a test says."""


class MemoryClock:
    """The clock's twin in memory: it stands still until `advance`."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = self._passed = now

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def passed(self) -> float:
        """Seconds since some moment; setting the clock does not change it."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go back, so not by {seconds} seconds; advance by 0 or more")
        self._now += seconds
        self._passed += seconds

    def set(self, now: float) -> None:
        """Set the time of day; no time passes."""
        self._now = now
