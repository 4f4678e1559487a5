"""How a request becomes an answer: when it is sent, when it is sent again, and after how long. Pure.

An exchange is a generator: it yields what to do next, a request to send or seconds to wait, and is sent what came of
it. So both clients follow one set of rules, and differ only in how they send and how they wait.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from manager.client.errors import not_understood, refused, retry_after, unreachable
from manager.client.requests import Request

A = TypeVar("A", bound=BaseModel)
REQUEST_ATTEMPTS = 5
"""How often a request is sent at most."""
RETRY_PATIENCE = 30.0
"""Seconds that are waited between them at most, taken together."""
_FIRST_WAIT = 0.1
_BUSY = 429
_PASSING = frozenset({502, 503, 504})
"""What a service that is starting, or a proxy before it, answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait before going on."""

    seconds: float


ExchangeStep = Request[A] | Wait
Came = httpx.Response | httpx.TransportError | None
"""What came of a step: an answer, none, or for a wait nothing."""


def exchange(url: str, request: Request[A]) -> Generator[ExchangeStep[A], Came, A]:
    """Get the answer to a request, or raise why there is none."""
    attempt, waited = 1, 0.0
    came = yield request
    while (wait := _again(request, came, attempt)) is not None and waited + wait <= RETRY_PATIENCE:
        yield Wait(seconds=wait)
        attempt, waited = attempt + 1, waited + wait
        came = yield request
    return _answer(url, request, came)


def _again(request: Request[A], came: Came, attempt: int) -> float | None:
    """After how many seconds to send a request again; None if it is not to be sent again."""
    if not request.repeatable or attempt >= REQUEST_ATTEMPTS:
        return None
    usual = _FIRST_WAIT * 2.0 ** (attempt - 1)
    if not isinstance(came, httpx.Response):
        return usual
    told = retry_after(came.headers)
    if came.status_code == _BUSY:
        return told
    return (usual if told is None else told) if came.status_code in _PASSING else None


def _answer(url: str, request: Request[A], came: Came) -> A:
    if isinstance(came, httpx.TransportError):
        raise unreachable(url, came, unsure=not request.repeatable) from came
    if came is None:
        raise TypeError("an exchange is told what came of a request")
    if came.is_error:
        raise refused(came)
    try:
        return request.answer.model_validate_json(came.content)
    except ValidationError:
        raise not_understood(came) from None
