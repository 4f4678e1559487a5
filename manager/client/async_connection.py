"""A connection to the service: sends requests, follows lists from page to page, and keeps streams going."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, SecretStr

from manager.answers import Page
from manager.client.http_options import TIMEOUT, AsyncSleep, headers, uses_proxies
from manager.client.requests.request import Request, following
from manager.client.retry import ExchangeStep, Outcome, Wait, exchange
from manager.client.stream_reader import STREAM_SILENCE, StreamReader

A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
E = TypeVar("E")


class AsyncServiceConnection:
    """Sends requests with one API key; close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        key: SecretStr | str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: AsyncSleep = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers(key),
            timeout=TIMEOUT,
            transport=transport,
            trust_env=uses_proxies(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

    async def send(self, request: Request[A]) -> A:
        """Send a request, again where that is safe and may help, and return its answer."""
        steps = exchange(self.url, request)
        step: ExchangeStep[A] = next(steps)
        while True:
            outcome: Outcome = None
            if isinstance(step, Wait):
                await self._sleep(step.seconds)
            else:
                try:
                    outcome = await self._http.request(
                        step.method, step.path, params=step.query, headers=step.headers, content=step.body
                    )
                except httpx.TransportError as error:
                    outcome = error
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: A = done.value
                return answer

    async def _items(self, request: Request[Page[P]]) -> AsyncIterator[P]:
        """The items of a list; a page is requested once the one before it is used up."""
        while True:
            page = await self.send(request)
            for item in page.items:
                yield item
            if page.next is None:
                return
            request = following(request, page.next)

    async def _stream(self, reader: StreamReader[E]) -> AsyncIterator[E]:
        """The events of a stream, without end; connects again where the stream breaks."""
        while True:
            try:
                async with self._http.stream(
                    "GET", reader.path, params=reader.query, headers=reader.headers, timeout=STREAM_SILENCE
                ) as answer:
                    if answer.is_error:
                        await answer.aread()
                        wait = reader.reconnect(answer)
                    else:
                        async for line in answer.aiter_lines():
                            for event in reader.read(line, answer):
                                yield event
                        wait = reader.ended()
            except httpx.TransportError as error:
                wait = reader.reconnect(error)
            await self._sleep(wait)
