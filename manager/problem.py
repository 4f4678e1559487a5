"""The refusals of use cases: one exception for each kind of problem.

REST answers them as problem+json; `code` is the last part of the problem's type.
"""

from collections.abc import Iterable
from typing import ClassVar

from dags import Problem
from dags.problems import quoted

FieldError = Problem
"""One thing that is wrong with a request. Documents have the same record, so that callers learn one form."""


class Trouble(Exception):
    """A request was refused. The subclass says why, and the detail what to do."""

    status: ClassVar[int]
    """The HTTP status."""
    code: ClassVar[str]
    """A stable name for programs."""
    title: ClassVar[str]
    """The kind of trouble in a few words."""
    about: ClassVar[str]
    """The text at the problem's type: when it occurs, and what to do."""

    def __init__(self, detail: str, *, errors: Iterable[FieldError] = (), retry_after: float | None = None) -> None:
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        """Seconds after which a retry is worthwhile."""
        super().__init__(detail)


class Unauthenticated(Trouble):
    """The API key is missing, unknown or revoked."""

    status = 401
    code = "unauthenticated"
    title = "No valid API key"
    about = (
        "The request carries no API key, or one that is unknown or revoked. Send `Authorization: Bearer` and a key; "
        "an operator makes keys, and a tenant makes more of its own."
    )

    def __init__(self, detail: str = "the API key is missing, unknown or revoked; send a valid one as Bearer") -> None:
        super().__init__(detail)


class Forbidden(Trouble):
    """The caller is known but may not do this."""

    status = 403
    code = "forbidden"
    title = "Not allowed"
    about = (
        "The API key is valid, but its holder may not do this: some routes are for operators only, and a tenant "
        "changes only what it owns. Ask an operator."
    )


class ForeignPage(Trouble):
    """A page other than the console sent a change with the console's cookie."""

    status = 403
    code = "foreign-page"
    title = "Not sent by the console"
    about = (
        "The request would change something and has the console's cookie, but did not come from the console's own "
        "page. The console sends the header `X-Braid-Console: 1` from the same origin; programs send "
        "`Authorization: Bearer` and an API key. A proxy before the service must leave the header `Host` unchanged."
    )

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; use the console at this service's own address, or send an API key as Bearer")


class NotFound(Trouble):
    """The thing does not exist, or the caller may not know of it."""

    status = 404
    code = "not-found"
    title = "Not found"
    about = (
        "The thing does not exist, or the holder of this API key may not know of it; the answer is the same. "
        "List what there is, and use an id from the list."
    )

    def __init__(self, what: str, id: str | int) -> None:  # noqa: A002 - its public name
        super().__init__(f"there is no {what} {quoted(str(id))}; list what there is and use an id from there")


class MethodNotAllowed(Trouble):
    """The path exists, but not with this method."""

    status = 405
    code = "method-not-allowed"
    title = "Method not allowed"
    about = "The path exists, but not with this method. `Allow` lists its methods."

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{quoted(method)} does nothing here; use {' or '.join(self.allowed)}")


class Conflict(Trouble):
    """The request is in conflict with what there is already."""

    status = 409
    code = "conflict"
    title = "Conflicts with what is there"
    about = (
        "The request conflicts with what exists: a name is taken, something is being removed, or an idempotency key "
        "was used for something else. The detail says which."
    )


class TooLarge(Trouble):
    """The body is too large."""

    status = 413
    code = "too-large"
    title = "The body is too large"
    about = (
        "The body of the request has too many bytes or events. Split the dataflow, shorten the form, or send fewer "
        "events at a time."
    )

    def __init__(self, most: int, what: str = "bytes") -> None:
        super().__init__(f"the body has more than {most} {what}; send a smaller one")


class UnsupportedMediaType(Trouble):
    """The body is not of the kind that is taken."""

    status = 415
    code = "unsupported-media-type"
    title = "The body is not JSON"
    about = (
        "Bodies are JSON. Send them uncompressed, with `Content-Type: application/json`; events may also be JSON lines "
        "with `application/x-ndjson`, and wheels are sent as they are, with `application/octet-stream`."
    )

    def __init__(self, header: str, value: str, taken: Iterable[str] = ("application/json",)) -> None:
        said = f"{header} is {quoted(value)}" if value else f"{header} is missing"
        super().__init__(f"{said}; send it uncompressed, with Content-Type: {' or '.join(taken)}")


class Invalid(Trouble):
    """The base of refusals of what was sent, with all its problems."""

    status = 422
    what: ClassVar[str]

    def __init__(self, errors: Iterable[FieldError]) -> None:
        every = tuple(errors)
        more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
        super().__init__(f"{every[0]}{more}" if every else f"the {self.what} is not valid", errors=every)


class InvalidRequest(Invalid):
    """The body or a parameter does not have the required form."""

    what = "request"
    code = "invalid-request"
    title = "The request is not valid"
    about = (
        "A parameter or a field of the body is missing, unknown or has a wrong value. `errors` names each by a JSON "
        "pointer (into the body, or `/query/...`, `/path/...`, `/header/...`) and says what to do."
    )


def invalid(pointer: str, code: str, message: str, remedy: str) -> InvalidRequest:
    """The refusal of a request in which one thing is wrong."""
    return InvalidRequest([FieldError(pointer=pointer, code=code, message=message, remedy=remedy)])


class InvalidDataflow(Invalid):
    """A document was refused."""

    what = "document"
    code = "invalid-dataflow"
    title = "The dataflow is not valid"
    about = (
        "The dataflow in the document is not valid. `errors` lists all problems in the order of the document; each "
        "has its place and says what to do."
    )


class InvalidModule(Invalid):
    """A module was refused."""

    what = "module"
    code = "invalid-module"
    title = "The module is not valid"
    about = "The form of the module is not valid. `errors` lists all problems; each has its place and says what to do."


class InvalidWheel(Invalid):
    """A wheel was refused."""

    what = "wheel"
    code = "invalid-wheel"
    title = "The wheel is not valid"
    about = "Code cannot import from the file that was sent as a wheel. `errors` says why, and what to do."


class QuotaExceeded(Trouble):
    """The tenant would exceed its quota."""

    status = 429
    code = "quota-exceeded"
    title = "Quota exceeded"
    about = (
        "The request would exceed the tenant's quota, as of dataflows, tasks, submissions per minute or wheels, or "
        "too many of its requests that send events or watch outputs are under way. If waiting helps, `Retry-After` "
        "says for how many seconds; otherwise remove something, or ask an operator for more."
    )


class TooManyRequests(Trouble):
    """Requests, or wrong keys, come too fast, or too many documents wait."""

    status = 429
    code = "too-many-requests"
    title = "Too many requests"
    about = (
        "A tenant sends more requests than it may, or more documents at once, or an address too many wrong keys. Wait "
        "for `Retry-After`."
    )


class Unexpected(Trouble):
    """The service failed; the caller is not to blame."""

    status = 500
    code = "unexpected"
    title = "Something went wrong"
    about = (
        "The service failed. Its log says why, under the id of the request, which is in the detail and in the header "
        "`X-Request-Id`. The change may have been made: check before you retry."
    )

    def __init__(self, request: str) -> None:
        super().__init__(f"the service's log says what went wrong, under request {request}; look before you ask again")


class StateNotReady(Trouble):
    """This manager does not lead, or is still loading."""

    status = 503
    code = "not-ready"
    title = "Not ready yet"
    about = (
        "This manager does not lead: it is starting, or another one leads. Retry after the seconds in `Retry-After`, "
        "or ask the leader."
    )

    def __init__(self, why: str, retry_after: float = 1.0) -> None:
        super().__init__(why, retry_after=retry_after)


class NotTaken(Trouble):
    """The spool of a source did not have sent events in time."""

    status = 503
    code = "not-taken"
    title = "Not taken in time"
    about = (
        "The spool of the source did not have the events in time: its host or the broker is away, or the spool is "
        "full. Some events may be there. Send the same numbers again after the seconds in `Retry-After`: those that "
        "are there already are ignored."
    )

    def __init__(self, retry_after: float = 2.0) -> None:
        super().__init__(
            "the source's spool did not have the events in time: its host or the broker is away, or it is full until "
            "its readers have read; send the same numbers again, what is there already adds nothing",
            retry_after=retry_after,
        )


class DatabaseAway(Trouble):
    """The database cannot be used; raised by the store, which logs why."""

    status = 503
    code = "database-away"
    title = "The database is away"
    about = (
        "The service cannot use its database now: it is stopped, locked for too long, full or read-only. Dataflows run "
        "on meanwhile, and the service recovers by itself. Retry after the seconds in `Retry-After`; check first "
        "whether a change was made. The service's log tells operators what is wrong."
    )

    def __init__(self, retry_after: float = 5.0) -> None:
        super().__init__(
            "the database cannot be used now; ask again in a moment, and look first whether what you asked was done",
            retry_after=retry_after,
        )


TROUBLES: tuple[type[Trouble], ...] = tuple(
    sorted(
        {*Trouble.__subclasses__(), *Invalid.__subclasses__()} - {Invalid}, key=lambda kind: (kind.status, kind.code)
    )
)
"""Every kind, by status."""
