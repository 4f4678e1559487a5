"""Why a use case refuses: one exception for each kind of answer that is no success.

The service raises them, and REST turns them into problem+json: `code` is the last part of the problem's type.
"""

from collections.abc import Iterable
from typing import ClassVar

from dags import Problem
from dags.problems import quoted

FieldError = Problem
"""One thing that is wrong with what was sent; the same record as for documents, so that callers learn one form."""


class Trouble(Exception):
    """A request was refused; the subclass says why, and the detail what to do about it."""

    status: ClassVar[int]
    """The HTTP status."""
    code: ClassVar[str]
    """A stable name for programs."""
    title: ClassVar[str]
    """The kind of trouble in a few words; the same for each of its kind."""
    about: ClassVar[str]
    """What people read at the problem's type: when it comes, and what to do."""

    def __init__(self, detail: str, *, errors: Iterable[FieldError] = (), retry_after: float | None = None) -> None:
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        """After how many seconds it is worth asking again."""
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
    """The caller is known, and may not do this."""

    status = 403
    code = "forbidden"
    title = "Not allowed"
    about = (
        "The API key is valid, but its holder may not do this: some use cases are the operators', and a tenant changes "
        "only what it owns. Ask an operator."
    )

    def __init__(self, why: str) -> None:
        super().__init__(why)


class ForeignPage(Trouble):
    """A browser sent a change with the console's cookie, and not the console."""

    status = 403
    code = "foreign-page"
    title = "Not sent by the console"
    about = (
        "The request would change something and came with the console's cookie, which a browser sends by itself, but "
        "not from the console's own page. The console sends the header `X-Braid-Console: 1`, and from the same origin; "
        "programs send `Authorization: Bearer` and an API key. A proxy before the service must leave the header `Host` "
        "as it is."
    )

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; use the console at this service's own address, or send an API key as Bearer")


class NotFound(Trouble):
    """There is no such thing, or none that the caller may know of."""

    status = 404
    code = "not-found"
    title = "Not found"
    about = (
        "There is no such thing, or none that the holder of this API key may know of; the answer is the same for both. "
        "List what there is, and use an id from there."
    )

    def __init__(self, what: str, id: str | int) -> None:  # noqa: A002 - the word that callers know it by
        super().__init__(f"there is no {what} {quoted(str(id))}; list what there is and use an id from there")


class MethodNotAllowed(Trouble):
    """There is something at this path, but nothing that this method does."""

    status = 405
    code = "method-not-allowed"
    title = "Method not allowed"
    about = "There is something at this path, but not for this method. `Allow` lists the methods that there are."

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{quoted(method)} does nothing here; use {' or '.join(self.allowed)}")


class Conflict(Trouble):
    """The request is in conflict with what there is already."""

    status = 409
    code = "conflict"
    title = "Conflicts with what is there"
    about = (
        "What is there already stands against the request: a name is taken, something is being removed, or an "
        "idempotency key was used for another document. The detail says which."
    )

    def __init__(self, why: str) -> None:
        super().__init__(why)


class TooLarge(Trouble):
    """The body is larger than any that is taken."""

    status = 413
    code = "too-large"
    title = "The body is too large"
    about = (
        "The body of the request has more bytes or events than are taken. Split the dataflow, shorten the form, or "
        "send fewer events at a time."
    )

    def __init__(self, most: int, what: str = "bytes") -> None:
        super().__init__(f"the body has more than {most} {what}; send a smaller one")


class UnsupportedMediaType(Trouble):
    """The body is no JSON as it stands."""

    status = 415
    code = "unsupported-media-type"
    title = "The body is not JSON"
    about = (
        "Bodies are JSON. Send them with `Content-Type: application/json`, events also as JSON lines with "
        "`application/x-ndjson`, and not compressed."
    )

    def __init__(self, header: str, value: str, taken: Iterable[str] = ("application/json",)) -> None:
        said = f"{header} is {quoted(value)}" if value else f"{header} is missing"
        super().__init__(f"{said}; send JSON, uncompressed, with Content-Type: {' or '.join(taken)}")


class InvalidRequest(Trouble):
    """The body or a parameter does not have the required form."""

    status = 422
    code = "invalid-request"
    title = "The request is not valid"
    about = (
        "A parameter or a field of the body is missing, unknown or has a value that is not allowed. `errors` names "
        "each by a JSON pointer (into the body, or `/query/...`, `/path/...`, `/header/...`) and says what to do."
    )

    def __init__(self, errors: Iterable[FieldError]) -> None:
        every = tuple(errors)
        super().__init__(_summed(every, "request"), errors=every)


class InvalidDataflow(Trouble):
    """A document was refused."""

    status = 422
    code = "invalid-dataflow"
    title = "The dataflow is not valid"
    about = (
        "The document was read and its dataflow refused. `errors` lists every problem, in the document's order; each "
        "points to its place and says what to do about it."
    )

    def __init__(self, problems: Iterable[Problem]) -> None:
        every = tuple(problems)
        super().__init__(_summed(every, "document"), errors=every)


class QuotaExceeded(Trouble):
    """The tenant has or asks for more than its quota."""

    status = 429
    code = "quota-exceeded"
    title = "Quota exceeded"
    about = (
        "The tenant's quota of dataflows, tasks or submissions per minute does not allow this now, or too many of its "
        "requests that send events or look at outputs are under way. Where waiting "
        "helps, `Retry-After` says for how many seconds; otherwise remove a dataflow, or ask an operator for more."
    )

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why, retry_after=retry_after)


class Unexpected(Trouble):
    """Something went wrong that is not the caller's fault."""

    status = 500
    code = "unexpected"
    title = "Something went wrong"
    about = (
        "Something went wrong in the service. Its log says what, under the request's id, which is in the detail and in "
        "the header `X-Request-Id`. What was asked may have been done: look before you ask again."
    )

    def __init__(self, request: str) -> None:
        super().__init__(f"the service's log says what went wrong, under request {request}; look before you ask again")


class StateNotReady(Trouble):
    """This manager does not lead, or has not loaded what it leads yet."""

    status = 503
    code = "not-ready"
    title = "Not ready yet"
    about = (
        "This manager does not lead yet: it is starting, or another one leads. Ask again after the seconds in "
        "`Retry-After`, or ask the one that leads."
    )

    def __init__(self, why: str, retry_after: float = 1.0) -> None:
        super().__init__(why, retry_after=retry_after)


class NotTaken(Trouble):
    """No spool had the events in time; raised while they are sent to a source."""

    status = 503
    code = "not-taken"
    title = "Not taken in time"
    about = (
        "The source's spool did not have the events in time: its host or the broker is away, or the spool is full "
        "until its readers have read. Some of them may be there. Send the same numbers again after the seconds in "
        "`Retry-After`: what is there already adds nothing."
    )

    def __init__(self, retry_after: float = 2.0) -> None:
        super().__init__(
            "the source's spool did not have the events in time: its host or the broker is away, or it is full until "
            "its readers have read; send the same numbers again, what is there already adds nothing",
            retry_after=retry_after,
        )


class DatabaseAway(Trouble):
    """The database answers nothing, or takes nothing; raised by the store, whose log says why."""

    status = 503
    code = "database-away"
    title = "The database is away"
    about = (
        "The service cannot use its database now: it is stopped, locked for too long, full or read-only. The service "
        "goes on by itself once it is back, and dataflows run on meanwhile. Ask again after the seconds in "
        "`Retry-After`; of a change, look first whether it was done. The service's log says to operators what is wrong."
    )

    def __init__(self, retry_after: float = 5.0) -> None:
        super().__init__(
            "the database cannot be used now; ask again in a moment, and look first whether what you asked was done",
            retry_after=retry_after,
        )


TROUBLES: tuple[type[Trouble], ...] = (
    Unauthenticated,
    Forbidden,
    ForeignPage,
    NotFound,
    MethodNotAllowed,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    InvalidRequest,
    InvalidDataflow,
    QuotaExceeded,
    Unexpected,
    StateNotReady,
    NotTaken,
    DatabaseAway,
)
"""Every kind, by status."""


def _summed(errors: tuple[FieldError, ...], what: str) -> str:
    if not errors:
        return f"the {what} is not valid"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"
