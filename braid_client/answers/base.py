"""The base of forms and answers: names, pages and problems."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, WithJsonSchema

T = TypeVar("T")

TENANT_NAME = "^[a-z0-9][a-z0-9-]{0,62}$"
TenantName = Annotated[str, StringConstraints(pattern=TENANT_NAME)]
"""Part of topics and of the names of the broker's users, so it has no character that is special in either."""
SourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""Documents refer to it, and spools are named after it."""
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""Documents refer to it."""


ImageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""Hosts name it when they are started."""


SentDocument = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "format": "document"})]
"""A document within a form, which is read apart from it. Its schema is that of documents."""


class Form(BaseModel):
    """The base of bodies that callers send. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(BaseModel):
    """The base of answers. Later releases may add fields."""

    model_config = ConfigDict(frozen=True)


class Page(Answer, Generic[T]):
    """A page of a list; `next` is the cursor of the next page, if there is one."""

    items: tuple[T, ...]
    next: str | None = None


class FieldProblem(Answer):
    """One thing that is wrong with what was sent."""

    pointer: str
    """The place, as a JSON pointer."""
    code: str
    message: str
    remedy: str


class ProblemAnswer(Answer):
    """Why a request was refused (RFC 9457, `application/problem+json`)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    """The path of the request; its id is in the header `X-Request-Id`."""
    errors: tuple[FieldProblem, ...] = ()
