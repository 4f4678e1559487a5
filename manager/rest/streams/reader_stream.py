"""The stream of a reader of outputs: one loop for samples and for all events, and a response that closes the reader."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from typing import Protocol

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from manager.rest.streams.signs_of_life import LONGEST_WAIT, SignsOfLife


class _Reader(Protocol):
    @property
    def over(self) -> bool:
        """Whether nothing more comes."""

    def on_news(self, notify: Callable[[], object], /) -> None:
        """Call back, from any thread, whenever there is something to take."""


class ClosingStreamResponse(StreamingResponse):
    """A stream whose reader is closed in any case, even if nobody reads the beginning of the answer."""

    def __init__(self, content: AsyncIterator[str], reader: ExitStack, *, media_type: str) -> None:
        super().__init__(content, media_type=media_type)
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and have a thread close the reader, because that waits for the broker."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            asyncio.get_running_loop().run_in_executor(None, self._reader.close)


async def read_until_over(  # noqa: PLR0913 - each is a part of the stream
    reader: _Reader,
    pieces: Callable[[], Iterable[str]],
    *,
    ends: Callable[[], bool],
    still_let_in: Callable[[], bool],
    greeting: str,
    sign: str,
    pace: float = 0.0,
) -> AsyncIterator[str]:
    """Send the greeting, then the pieces of each news, at least `pace` seconds apart, and signs of life."""
    loop, news, signs = asyncio.get_running_loop(), asyncio.Event(), SignsOfLife(still_let_in)
    reader.on_news(lambda: loop.call_soon_threadsafe(news.set))
    yield greeting
    while not reader.over and not ends():
        try:
            await asyncio.wait_for(news.wait(), LONGEST_WAIT)
        except TimeoutError:
            pass
        else:
            news.clear()
            for piece in pieces():
                yield piece
                await asyncio.sleep(pace)
        if signs.is_due:
            if not await signs.renew():
                return
            yield sign
