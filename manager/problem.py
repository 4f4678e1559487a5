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
    what: ClassVar[str]
    """What was sent that is not valid, where that is the trouble."""
    about: ClassVar[str]
    """The text at the problem's type, which is the docstring: when it occurs, and what to do."""

    def __init_subclass__(cls, status: int = 422, code: str = "", title: str = "", what: str = "") -> None:
        cls.status, cls.code, cls.title, cls.what = status, code, title, what
        cls.about = " ".join((cls.__doc__ or "").split())

    def __init__(self, detail: str, *, errors: Iterable[FieldError] = (), retry_after: float | None = None) -> None:
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        """Seconds after which a retry is worthwhile."""
        super().__init__(detail)


class Unauthenticated(Trouble, status=401, code="unauthenticated", title="No valid API key"):
    """The request carries no API key, or one that is unknown or revoked.

    Send `Authorization: Bearer` and a key; an operator makes keys, and a tenant makes more of its own.
    """

    def __init__(self, detail: str = "the API key is missing, unknown or revoked; send a valid one as Bearer") -> None:
        super().__init__(detail)


class Forbidden(Trouble, status=403, code="forbidden", title="Not allowed"):
    """The API key is valid, but its holder may not do this: some routes are for operators only, and a tenant
    changes only what it owns. Ask an operator.
    """  # noqa: D205 - callers read it as it is, and its first sentence takes more than a line


class ForeignPage(Trouble, status=403, code="foreign-page", title="Not sent by the console"):
    """The request would change something and has the console's cookie, but did not come from the console's own page.

    The console sends the header `X-Braid-Console: 1` from the same origin; programs send `Authorization: Bearer`
    and an API key. A proxy before the service must leave the header `Host` unchanged.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; use the console at this service's own address, or send an API key as Bearer")


class NotFound(Trouble, status=404, code="not-found", title="Not found"):
    """The thing does not exist, or the holder of this API key may not know of it; the answer is the same.

    List what there is, and use an id from the list.
    """

    def __init__(self, what: str, id: str | int) -> None:  # noqa: A002 - its public name
        super().__init__(f"there is no {what} {quoted(str(id))}; list what there is and use an id from there")


class MethodNotAllowed(Trouble, status=405, code="method-not-allowed", title="Method not allowed"):
    """The path exists, but not with this method.

    `Allow` lists its methods.
    """

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{quoted(method)} does nothing here; use {' or '.join(self.allowed)}")


class Conflict(Trouble, status=409, code="conflict", title="Conflicts with what is there"):
    """The request conflicts with what exists: a name is taken, something is being removed, or an idempotency key
    was used for something else. The detail says which.
    """  # noqa: D205 - callers read it as it is, and its first sentence takes more than a line


class Changed(Trouble, status=412, code="changed", title="Changed meanwhile"):
    """The dataflow has another document than the one that `If-Match` names, for which the change was made.

    `errors` lists what differs now, if that document is not too long ago or too long; the header `ETag` has the tag of
    what is there. Take over what differs, or send the change with that tag.
    """

    def __init__(self, dataflow: str, tag: str, differences: Iterable[FieldError]) -> None:
        self.tag = tag
        every = tuple(differences)
        more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
        said = f": {every[0].message}{more}" if every else ""
        super().__init__(
            f"the dataflow {dataflow!r} has another document by now{said}; look at it before you overwrite it",
            errors=every,
        )


class TooLarge(Trouble, status=413, code="too-large", title="The body is too large"):
    """The body of the request has too many bytes or events.

    Split the dataflow, shorten the form, or send fewer events at a time.
    """

    def __init__(self, most: int, what: str = "bytes") -> None:
        super().__init__(f"the body has more than {most} {what}; send a smaller one")


class UnsupportedMediaType(Trouble, status=415, code="unsupported-media-type", title="The body is not JSON"):
    """Bodies are JSON.

    Send them uncompressed, with `Content-Type: application/json`; wheels are sent as they are, with
    `application/octet-stream`. Events may also be JSON lines with `application/x-ndjson`, or in the format of their
    source with its content type, and compressed with `Content-Encoding: gzip`.
    """

    def __init__(self, header: str, value: str, taken: Iterable[str] = ("application/json",)) -> None:
        said = f"{header} is {quoted(value)}" if value else f"{header} is missing"
        super().__init__(f"{said}; send it uncompressed, with Content-Type: {' or '.join(taken)}")


class Invalid(Trouble):
    """The base of refusals of what was sent, with all its problems."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        every = tuple(errors)
        more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
        super().__init__(f"{every[0]}{more}" if every else f"the {self.what} is not valid", errors=every)


class InvalidRequest(Invalid, code="invalid-request", title="The request is not valid", what="request"):
    """A parameter or a field of the body is missing, unknown or has a wrong value.

    `errors` names each by a JSON pointer (into the body, or `/query/...`, `/path/...`, `/header/...`) and says what
    to do.
    """


def invalid(pointer: str, code: str, message: str, remedy: str) -> InvalidRequest:
    """The refusal of a request in which one thing is wrong."""
    return InvalidRequest([FieldError(pointer=pointer, code=code, message=message, remedy=remedy)])


class InvalidDataflow(Invalid, code="invalid-dataflow", title="The dataflow is not valid", what="document"):
    """The dataflow in the document is not valid.

    `errors` lists all problems in the order of the document; each has its place and says what to do.
    """


class InvalidModule(Invalid, code="invalid-module", title="The module is not valid", what="module"):
    """The form of the module is not valid.

    `errors` lists all problems; each has its place and says what to do.
    """


class InvalidWheel(Invalid, code="invalid-wheel", title="The wheel is not valid", what="wheel"):
    """Code cannot import from the file that was sent as a wheel.

    `errors` says why, and what to do.
    """


class QuotaExceeded(Trouble, status=429, code="quota-exceeded", title="Quota exceeded"):
    """The request would exceed the tenant's quota, as of dataflows, tasks, submissions per minute or wheels, or too
    many of its requests that send events, watch outputs or try documents are under way. If waiting helps,
    `Retry-After` says for how many seconds; otherwise remove something, or ask an operator for more.
    """  # noqa: D205 - callers read it as it is, and its first sentence takes more than a line


class TooManyRequests(Trouble, status=429, code="too-many-requests", title="Too many requests"):
    """A tenant sends more requests than it may, or more documents at once, or an address too many wrong keys.

    Wait for `Retry-After`.
    """


class Unexpected(Trouble, status=500, code="unexpected", title="Something went wrong"):
    """The service failed.

    Its log says why, under the id of the request, which is in the detail and in the header `X-Request-Id`. The
    change may have been made: check before you retry.
    """

    def __init__(self, request: str) -> None:
        super().__init__(f"the service's log says what went wrong, under request {request}; look before you ask again")


class StateNotReady(Trouble, status=503, code="not-ready", title="Not ready yet"):
    """This manager does not lead: it is starting, or another one leads.

    Retry after the seconds in `Retry-After`, or ask the leader.
    """

    def __init__(self, why: str, retry_after: float = 1.0) -> None:
        super().__init__(why, retry_after=retry_after)


class NotTaken(Trouble, status=503, code="not-taken", title="Not taken in time"):
    """The spool of the source did not have the events in time: its host or the broker is away, or the spool is full.

    Some events may be there. Send the same numbers again after the seconds in `Retry-After`: those that are there
    already are ignored.
    """

    def __init__(self, retry_after: float = 2.0) -> None:
        super().__init__(
            "the source's spool did not have the events in time: its host or the broker is away, or it is full until "
            "its readers have read; send the same numbers again, what is there already adds nothing",
            retry_after=retry_after,
        )


class DatabaseAway(Trouble, status=503, code="database-away", title="The database is away"):
    """The service cannot use its database now: it is stopped, locked for too long, full or read-only.

    Dataflows run on meanwhile, and the service recovers by itself. Retry after the seconds in `Retry-After`; check
    first whether a change was made. The service's log tells operators what is wrong.
    """

    def __init__(self, retry_after: float = 5.0) -> None:
        super().__init__(
            "the database cannot be used now; ask again in a moment, and look first whether what you asked was done",
            retry_after=retry_after,
        )


class ProviderAway(Trouble, status=503, code="provider-away", title="The provider is away"):
    """The provider of OpenID Connect does not answer, and the token or sign-in cannot be checked without it.

    API keys let in meanwhile. The detail tells operators what is wrong.
    """


TROUBLES: tuple[type[Trouble], ...] = tuple(
    sorted(
        {*Trouble.__subclasses__(), *Invalid.__subclasses__()} - {Invalid}, key=lambda kind: (kind.status, kind.code)
    )
)
"""Every kind, by status."""
