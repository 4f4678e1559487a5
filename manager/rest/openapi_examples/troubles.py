"""An example of each kind of problem."""

from manager.problem import (
    Conflict,
    DatabaseAway,
    FieldError,
    Forbidden,
    ForeignPage,
    InvalidDataflow,
    InvalidModule,
    InvalidRequest,
    InvalidWheel,
    MethodNotAllowed,
    NotFound,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    TooManyRequests,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)
from manager.rest.openapi_examples.resources import DATAFLOW

_TOO_SMALL = FieldError(
    pointer="/query/limit",
    code="wrong-value",
    message="the value should be greater than or equal to 1",
    remedy="change it to follow this rule",
)
_UNKNOWN = FieldError(
    pointer="/tasks/1/type",
    code="unknown-type",
    message="there is no task type 'range_fliter'",
    remedy="did you mean 'range_filter'?",
)
_OUTSIDE = FieldError(
    pointer="/ensure/unit",
    code="outside-domain",
    message="'unit' cannot be '\"kelvn\"'",
    remedy="it may be '\"celsius\"', '\"kelvin\"' or null",
)
_NO_WHEEL = FieldError(
    pointer="",
    code="not-a-wheel",
    message="this is no zip archive, or a damaged one",
    remedy="send the file `.whl` of a package as it is",
)
TROUBLE_EXAMPLES: dict[type[Trouble], Trouble] = {
    type(trouble): trouble
    for trouble in (
        Unauthenticated(),
        Forbidden("this is for operators only; ask one"),
        ForeignPage("a page from elsewhere sent the request"),
        NotFound("dataflow", DATAFLOW.id),
        MethodNotAllowed("PATCH", ["GET", "PUT", "DELETE"]),
        Conflict("there is a tenant 'ann' already; choose another name"),
        TooLarge(4 * 1024 * 1024),
        UnsupportedMediaType("Content-Type", "text/xml"),
        InvalidRequest([_TOO_SMALL]),
        InvalidDataflow([_UNKNOWN]),
        InvalidModule([_OUTSIDE]),
        InvalidWheel([_NO_WHEEL]),
        QuotaExceeded("60 submissions a minute are allowed; wait, or ask an operator for more", retry_after=12.0),
        TooManyRequests("tenant 'ann' may ask 6,000 times a minute; ask less often", retry_after=1.0),
        Unexpected("5e1f8a2b9c3d4e6f"),
        StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads"),
        NotTaken(),
        DatabaseAway(),
    )
}
