"""What becomes of requests: why one was not done, and when it is sent again. Pure.

An exchange is a generator. It yields the next step, a request to send or a wait, and is sent the outcome. So both
clients follow one set of rules, and differ only in how they send and wait.
"""

import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from braid_client.answers.base import FieldProblem, ProblemAnswer
from braid_client.request import Request
from braid_client.version import CLIENT_VERSION
from dags.internet_addresses import unmapped


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds until the service wants to be asked again; None if it does not say, or names a date as proxies do.

    >>> retry_after({"retry-after": "7"}), retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"})
    (7.0, None)
    """
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


_SERVER = 500


class NotDone(Exception):
    """A request was not done, or may not have been."""


class Refused(NotDone):
    """The service refused; made from its problem+json."""

    def __init__(  # noqa: PLR0913 - each is a part of a problem, and callers go by all of them
        self,
        *,
        status: int,
        code: str,
        title: str = "",
        detail: str,
        errors: tuple[FieldProblem, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.code = code
        """A stable name for programs: the last part of the problem's type."""
        self.title = title
        self.detail = detail
        self.errors = errors
        self.retry_after = retry_after
        """The seconds after which it is worth asking again."""
        super().__init__(detail)

    def __reduce__(self) -> tuple[Any, ...]:
        # By default it is unpickled from its message alone, which fails, and blocks a process pool for ever.
        return partial(type(self), **self.__dict__), ()


class NotRunning(NotDone):
    """A dataflow does not run, or not in time; the message says why."""


class Unreachable(NotDone):
    """No service answered; the message says where, why, and what to do."""


class NotUnderstood(NotDone):
    """The answer has an unknown form: another program answered, or another version of Braid."""


def refused(answer: httpx.Response) -> Refused:
    """The refusal that an answer holds; another program's answer gives its status alone."""
    wait = retry_after(answer.headers)
    try:
        problem = ProblemAnswer.model_validate_json(answer.content)
    except ValidationError:
        what = "failed" if answer.status_code >= _SERVER else "refused"
        return Refused(
            status=answer.status_code,
            code="unknown",
            detail=f"{_place(answer)} {what} with {answer.status_code} {answer.reason_phrase} and no reason; "
            "check that this is the URL of a Braid service, and read its log",
            retry_after=wait,
        )
    return Refused(
        status=answer.status_code,
        code=problem.type.rstrip("/").rpartition("/")[2],
        title=problem.title,
        detail=problem.detail,
        errors=problem.errors,
        retry_after=wait,
    )


def unreachable(url: str, error: httpx.TransportError, *, unsure: bool) -> Unreachable:
    """Explain an error of the transport; unsure means that the request may have been done all the same."""
    after = "it may have been done all the same, so check before you try again" if unsure else ""
    if "CERTIFICATE_VERIFY_FAILED" in f"{error}":
        remedy = "have the system trust its authority, or name the authority's file in BRAID_CA"
        return Unreachable(f"the certificate of {url} is not trusted: {error}; {remedy}")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        why, remedy = f"{error}", "start one with: braid serve; or name another in BRAID_URL"
    elif isinstance(error, httpx.TimeoutException):
        why, remedy = "it took too long to answer", after or "try again later"
    else:
        why, remedy = f"the connection broke: {error}", after or "try again"
    return Unreachable(f"no service answers at {url}: {why or type(error).__name__}; {remedy}")


def not_understood(answer: httpx.Response) -> NotUnderstood:
    """The error for an answer of unknown form."""
    return NotUnderstood(
        f"{_place(answer)} gave an answer that this client does not understand; check that this is the URL of a Braid "
        "service, and use a client of its version"
    )


def _place(answer: httpx.Response) -> str:
    """The method and URL of the request, without its query, which may be confidential."""
    return f"{answer.request.method} {answer.request.url.copy_with(query=None)}"


A = TypeVar("A", bound=BaseModel)
Sleep = Callable[[float], None]
AsyncSleep = Callable[[float], Awaitable[None]]


def headers(key: SecretStr | str | None) -> dict[str, str]:
    """The headers of every request."""
    secret = key.get_secret_value() if isinstance(key, SecretStr) else key
    named = {"User-Agent": f"braid-client/{CLIENT_VERSION}", "Content-Type": "application/json"}
    return named if secret is None else named | {"Authorization": f"Bearer {secret}"}


def trusting(certificates: Path | str | None, *, by_name: bool = True) -> ssl.SSLContext:
    """The trust in the certificates of a file, or in those of the system without one.

    Without `by_name` a trusted certificate may name any host.
    """
    try:
        context = ssl.create_default_context(cafile=certificates)
    except OSError as error:
        why = error.strerror or "it holds no certificate"
        raise Unreachable(f"{certificates}: cannot be used as trusted certificates: {why}; name another file") from None
    # A certificate that is among them is trusted by itself, without the one that signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = by_name
    return context


def uses_proxies(url: str) -> bool:
    """Use the environment's proxies, except to this machine: they could not reach it, and would see the API key."""
    host = urlsplit(url).hostname or ""
    try:
        return not unmapped(ipaddress.ip_address(host)).is_loopback
    except ValueError:
        return host != "localhost"


REQUEST_ATTEMPTS = 5
"""How often a request is sent at most."""
RETRY_PATIENCE = 30.0
"""The seconds that are waited between attempts at most, in all."""
TRANSIENT = frozenset({502, 503, 504})
"""The statuses of a service that is starting, or of a proxy before it."""
_FIRST_WAIT = 0.1
_TOO_MANY_REQUESTS = 429


ExchangeStep = Request[A] | float
"""A request to send, or the seconds to wait before going on."""
Outcome = httpx.Response | httpx.TransportError | None
"""The outcome of a step; None after a wait."""


def exchange(url: str, request: Request[A]) -> Generator[ExchangeStep[A], Outcome, A]:
    """Get the answer to a request, or raise why there is none."""
    attempt, waited = 1, 0.0
    outcome = yield request
    while (wait := _wait(request, outcome, attempt)) is not None and waited + wait <= RETRY_PATIENCE:
        yield wait
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
