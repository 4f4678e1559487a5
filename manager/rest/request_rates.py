"""Rates of requests: how often each tenant may ask, and each address may send a key that lets nobody in.

Each has an allowance that refills steadily, and holds a minute's worth. Nobody uses up another's: a tenant's requests
count for it alone, and a right key is taken from any address.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from manager.problem import TooManyRequests
from manager.submissions.quota import MINUTE

WRONG_KEYS_PER_MINUTE = 60
MOST_ALLOWANCES = 10_000
"""Allowances that are kept; the one that was used longest ago is full again by then, or is given up."""


class RequestRates:
    """The allowances of all tenants and addresses. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """What is left of each, and when that was."""

    @property
    def remembered(self) -> int:
        """How many allowances are kept."""
        return len(self._left)

    def take(self, tenant: str, per_minute: int) -> None:
        """Count a tenant's request; `TooManyRequests` where it asks too often."""
        if (wait := self._wait(("tenant", tenant), per_minute)) is not None:
            why = f"tenant {tenant!r} may ask {per_minute:,} times a minute"
            raise TooManyRequests(
                f"{why}; ask less often" if wait else f"{why}; ask an operator for more", retry_after=wait or None
            )

    def count_wrong_key(self, address: str) -> None:
        """Count a key from an address that lets nobody in; `TooManyRequests` where there are too many."""
        if (wait := self._wait(("address", address), WRONG_KEYS_PER_MINUTE)) is not None:
            raise TooManyRequests(
                f"too many wrong keys came from {address}; correct the key that is sent there", retry_after=wait
            )

    def _wait(self, which: tuple[str, str], per_minute: int) -> float | None:
        """Take one; None if there is one, else the seconds until there is, which are 0 if there never will be."""
        if per_minute == 0:
            return 0.0
        now = self._clock()
        with self._lock:
            left, then = self._left.pop(which, (float(per_minute), now))
            left = min(float(per_minute), left + (now - then) * per_minute / MINUTE)
            self._left[which] = (left - 1.0 if left >= 1.0 else left, now)
            if len(self._left) > MOST_ALLOWANCES:
                self._left.popitem(last=False)
        return None if left >= 1.0 else (1.0 - left) * MINUTE / per_minute
