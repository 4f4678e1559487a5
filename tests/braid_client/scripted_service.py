"""A service that gives scripted answers, over a transport for both clients."""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from braid_client import AsyncClient, Client
from tests.braid_client.samples import EVENT

URL = "http://braid.example"
KEY = "braid_1_hush"


@dataclass
class Service:
    """Gives its answers in turn, the last one for ever; records the requests and the waits."""

    answers: list[httpx.Response | httpx.TransportError]
    asked: list[httpx.Request] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, httpx.TransportError):
            raise given
        # A response belongs to one request, and the last one is given for ever.
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    def client(self, key: str | None = KEY) -> Client:
        return Client(URL, key, transport=httpx.MockTransport(self.answer), sleep=self.waited.append)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    def async_client(self, key: str | None = KEY) -> AsyncClient:
        return AsyncClient(URL, key, transport=httpx.MockTransport(self.answer), sleep=self.sleep)


def ok(content: Any, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=content)


def page(*items: Any, following: str | None = None) -> httpx.Response:
    return ok({"items": list(items), "next": following})


def refusal(status: int, code: str, *, errors: Any = (), **headers: str) -> httpx.Response:
    problem = {"type": f"/problems/{code}", "title": "No", "status": status, "detail": f"It is {code}; mend it"}
    return httpx.Response(
        status,
        json=problem | {"errors": list(errors)},
        headers={"Content-Type": "application/problem+json"} | headers,
    )


def lines(*texts: str) -> httpx.Response:
    """A live stream that ends after these lines."""
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content="\n".join([*texts, ""]).encode())


def event(number: int) -> list[str]:
    return [f"id: {number}", "event: operation", f"data: {json.dumps(EVENT | {'id': number})}", ""]


Ask = Callable[[Service, str, tuple[Any, ...]], Any]
"""Calls a method of a client by name; returns its answer, or a list of its items."""


def synchronously(service: Service, method: str, given: tuple[Any, ...] = ()) -> Any:
    with service.client() as client:
        found = getattr(client, method)(*given)
        return list(found) if isinstance(found, Iterator) else found


def asynchronously(service: Service, method: str, given: tuple[Any, ...] = ()) -> Any:
    async def ask() -> Any:
        async with service.async_client() as client:
            found = getattr(client, method)(*given)
            return await found if inspect.isawaitable(found) else [each async for each in found]

    return asyncio.run(ask())
