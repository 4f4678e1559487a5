"""The errors of the client: why a request was not done."""

from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import ValidationError

from manager.answers import FieldProblem, ProblemAnswer
from manager.client.retry_after import retry_after

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
        return _unpickle, (self.__dict__,)


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


def _unpickle(parts: Mapping[str, Any]) -> Refused:
    return Refused(**parts)


def unreachable(url: str, error: httpx.TransportError, *, unsure: bool) -> Unreachable:
    """Explain an error of the transport; unsure means that the request may have been done all the same."""
    after = "it may have been done all the same, so check before you try again" if unsure else ""
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
