"""Turns: the documents of one tenant are worked on one after the other, and wait for nobody else's.

Reading, checking, planning and explaining a large document takes up to seconds of CPU. So a tenant has one thread at
work, however many documents it sends, and others have theirs. What waits for its turn has no thread yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from manager.problem import TooManyRequests
from manager.rest.dependencies import TheCaller

MOST_WAITING_DOCUMENTS = 32
"""Documents of a tenant that may wait; each takes up to 4 MB of memory."""


@dataclass(slots=True)
class _Line:
    """Those who wait for one lock, which lets them in as they came."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class DocumentTurns:
    """The lines of all tenants; used on the event loop alone."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def of(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it; `TooManyRequests` where too many of the owner's wait already."""
        line = self._lines.setdefault(owner, _Line())
        if line.length > MOST_WAITING_DOCUMENTS:
            raise TooManyRequests(
                f"{MOST_WAITING_DOCUMENTS} documents of {owner!r} wait already; send the next once one is answered",
                retry_after=1.0,
            )
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[owner]


def in_turn(read: Callable[..., Awaitable[Any]]) -> Any:
    """Make the dependency that reads a body, and has its caller's turn until the route has returned."""

    async def turn(request: Request, caller: TheCaller, sent: Annotated[Any, Depends(read)]) -> AsyncIterator[Any]:
        turns: DocumentTurns = request.app.state.turns
        # Only once the body is there, so that nobody waits for a slow connection.
        async with turns.of(caller.tenant or caller.key):
            yield sent

    return Depends(turn, scope="function")
