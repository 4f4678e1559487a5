"""What all forms and answers stand on: names, parts of lists, and problems."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

T = TypeVar("T")

TenantName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""It names topics and a broker's users, so it holds nothing that either gives a meaning."""
SourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""It names spools, and documents refer to it."""
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""Documents refer to it."""


class Form(BaseModel):
    """What a caller sends; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(BaseModel):
    """What a caller gets; more may come with a later release."""

    model_config = ConfigDict(frozen=True)


class Page(Answer, Generic[T]):
    """Part of a list; `next` is the cursor of the part after it, if there is one."""

    items: tuple[T, ...]
    next: str | None = None


class FieldProblem(Answer):
    """One thing that is wrong with what was sent."""

    pointer: str
    """Where, as a JSON pointer into what was sent."""
    code: str
    message: str
    remedy: str


class ProblemAnswer(Answer):
    """Why a request was refused (RFC 9457, `application/problem+json`)."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldProblem, ...] = ()
