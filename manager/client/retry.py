"""The retry rules: when a request is sent again, and after how long. Pure.

An exchange is a generator. It yields the next step, a request to send or a wait, and is sent the outcome. So both
clients follow one set of rules, and differ only in how they send and wait.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from manager.client.errors import not_understood, refused, unreachable
from manager.client.requests.request import Request
from manager.client.retry_after import retry_after

A = TypeVar("A", bound=BaseModel)
REQUEST_ATTEMPTS = 5
"""How often a request is sent at most."""
RETRY_PATIENCE = 30.0
"""The seconds that are waited between attempts at most, in all."""
TRANSIENT = frozenset({502, 503, 504})
"""The statuses of a service that is starting, or of a proxy before it."""
_FIRST_WAIT = 0.1
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait before going on."""

    seconds: float


ExchangeStep = Request[A] | Wait
Outcome = httpx.Response | httpx.TransportError | None
"""The outcome of a step; None after a wait."""


def exchange(url: str, request: Request[A]) -> Generator[ExchangeStep[A], Outcome, A]:
    """Get the answer to a request, or raise why there is none."""
    attempt, waited = 1, 0.0
    outcome = yield request
    while (wait := _wait(request, outcome, attempt)) is not None and waited + wait <= RETRY_PATIENCE:
        yield Wait(seconds=wait)
        attempt, waited = attempt + 1, waited + wait
        outcome = yield request
    return _answer(url, request, outcome)


def _wait(request: Request[A], outcome: Outcome, attempt: int) -> float | None:
    """The seconds until the next attempt; None if there is none."""
    if not request.idempotent or attempt >= REQUEST_ATTEMPTS:
        return None
    backoff = _FIRST_WAIT * 2.0 ** (attempt - 1)
    if not isinstance(outcome, httpx.Response):
        return backoff
    asked_for = retry_after(outcome.headers)
    if outcome.status_code == _TOO_MANY_REQUESTS:
        return asked_for
    if outcome.status_code in TRANSIENT:
        return backoff if asked_for is None else asked_for
    return None


def _answer(url: str, request: Request[A], outcome: Outcome) -> A:
    if isinstance(outcome, httpx.TransportError):
        raise unreachable(url, outcome, unsure=not request.idempotent) from outcome
    if outcome is None:
        raise TypeError("a sent request has an answer or an error as its outcome")
    if outcome.is_error:
        raise refused(outcome)
    try:
        return request.answer.model_validate_json(outcome.content)
    except ValidationError:
        raise not_understood(outcome) from None
