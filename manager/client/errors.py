"""Why something that was asked of the service was not done."""

from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import ValidationError

from manager.answers import FieldProblem, ProblemAnswer

_SERVER = 500


class NotDone(Exception):
    """What was asked of the service was not done, or nobody knows whether it was."""


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
        """After how many seconds it is worth asking again."""
        super().__init__(detail)

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself an exception is made anew from its message alone: a pool of processes would wait for ever.
        return _made_anew, (self.__dict__,)


class Unreachable(NotDone):
    """No service answered; says which was asked, why, and what to do."""


class NotUnderstood(NotDone):
    """Something answered that this client does not understand: another program, or another version of Braid."""


def refused(answer: httpx.Response) -> Refused:
    """Why the service refused, from its answer; of something else that answers, what can be told."""
    wait = retry_after(answer.headers)
    try:
        problem = ProblemAnswer.model_validate_json(answer.content)
    except ValidationError:
        what = "failed" if answer.status_code >= _SERVER else "refused"
        return Refused(
            status=answer.status_code,
            code="unknown",
            detail=f"{_place(answer)} {what} with {answer.status_code} {answer.reason_phrase} and no reason; "
            "see whether this is the URL of a Braid service, and what its log says",
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


def _made_anew(parts: Mapping[str, Any]) -> Refused:
    return Refused(**parts)


def unreachable(url: str, error: httpx.TransportError, *, unsure: bool) -> Unreachable:
    """Why no answer came, from what the transport met; unsure where what was asked may have been done all the same."""
    after = "it may have been done all the same, so look before you ask again" if unsure else ""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        why, remedy = f"{error}", "start one with: braid serve; or name another in BRAID_URL"
    elif isinstance(error, httpx.TimeoutException):
        why, remedy = "it took too long to answer", after or "ask again later"
    else:
        why, remedy = f"the connection broke: {error}", after or "ask again"
    return Unreachable(f"no service answers at {url}: {why or type(error).__name__}; {remedy}")


def not_understood(answer: httpx.Response) -> NotUnderstood:
    """What to say of an answer that has another form than asked for."""
    return NotUnderstood(
        f"{_place(answer)} answered something else than this client knows; see whether this is the URL of a Braid "
        "service, and use a client of its version"
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """After how many seconds the service wants to be asked again; proxies that name a date instead are passed over."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _place(answer: httpx.Response) -> str:
    """What was asked, without its query, which may name what is nobody's business."""
    return f"{answer.request.method} {answer.request.url.copy_with(query=None)}"
