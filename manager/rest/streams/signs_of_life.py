"""Signs of life of a stream: sent while it is quiet, and only to callers that are still let in."""

import asyncio
from collections.abc import Callable

QUIET = 15.0
"""Seconds between two signs of life."""
LONGEST_WAIT = 1.0
"""Seconds that a stream waits for news at most, so that it soon notices that the manager ends."""


class SignsOfLife:
    """When a stream is due to send a sign of life, and whether its caller is still let in."""

    def __init__(self, still_let_in: Callable[[], bool]) -> None:
        self._still_let_in = still_let_in
        self._last = asyncio.get_running_loop().time()

    @property
    def is_due(self) -> bool:
        """Whether the last sign was long ago."""
        return asyncio.get_running_loop().time() - self._last >= QUIET

    async def renew(self) -> bool:
        """Look the caller up again; False if it is no longer let in, so that the stream has to end."""
        if not await asyncio.to_thread(self._still_let_in):
            return False
        self._last = asyncio.get_running_loop().time()
        return True
