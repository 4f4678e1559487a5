"""Examples of requests, answers and problems for the OpenAPI description: of a city, and of its tenant ann.

Those of bodies are in `examples.json`, by the name of their schema. An operation has one of its own under its name, and
an answer with another status than usual under its schema and that status.
"""

import json
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import BaseModel

from manager.problem import (
    Changed,
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
    ProviderAway,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    TooManyRequests,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)

A = TypeVar("A", bound=BaseModel)
BODIES: dict[str, Any] = json.loads((files("manager.rest") / "examples.json").read_bytes())
DOCUMENT: dict[str, Any] = BODIES["Document"]
MODULE_FORM: dict[str, Any] = BODIES["ModuleForm"]
SENT_EVENTS = [{"sensor": "s1", "temperature": 21.5}, {"sensor": "s2", "temperature": 19.0}]
EVENT_LINES = "".join(f"{json.dumps(event)}\n" for event in SENT_EVENTS)
EVENT_ROWS = "sensor,temperature\ns1,21.5\ns2,19.0\n"


def example(model: type[A], name: str = "") -> A:
    """The example of a model, or the one of that name."""
    return model.model_validate(BODIES[name or model.__name__])


def example_of(schema: str, operation: str = "", status: str = "") -> Any:
    """The example of a body with this schema: the operation's own if it has one; None if there is none."""
    for name in (operation if status else "", f"{schema} {status}", schema):
        if name in BODIES:
            return BODIES[name]
    item = BODIES.get(schema.removeprefix("Page_").removesuffix("_"))
    return None if item is None else {"items": [item], "next": None}


TROUBLE_EXAMPLES: dict[type[Trouble], Trouble] = {
    type(trouble): trouble
    for trouble in (
        Unauthenticated(),
        Forbidden("this is for operators only; ask one"),
        ForeignPage("a page from elsewhere sent the request"),
        NotFound("dataflow", BODIES["DataflowAnswer"]["id"]),
        MethodNotAllowed("PATCH", ["GET", "PUT", "DELETE"]),
        Conflict("there is a tenant 'ann' already; choose another name"),
        Changed(BODIES["DataflowAnswer"]["id"], BODIES["DataflowDetail"]["tag"], [FieldError(**BODIES["Changed"])]),
        TooLarge(4 * 1024 * 1024),
        UnsupportedMediaType("Content-Type", "text/xml"),
        *(
            kind([FieldError(**BODIES[kind.__name__])])
            for kind in (InvalidRequest, InvalidDataflow, InvalidModule, InvalidWheel)
        ),
        QuotaExceeded("60 submissions a minute are allowed; wait, or ask an operator for more", retry_after=12.0),
        TooManyRequests("tenant 'ann' may ask 6,000 times a minute; ask less often", retry_after=1.0),
        Unexpected("5e1f8a2b9c3d4e6f"),
        StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads"),
        NotTaken(),
        DatabaseAway(),
        ProviderAway("the provider at https://login.example does not answer: timed out", retry_after=10.0),
    )
}
