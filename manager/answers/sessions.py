"""Sessions of the console."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from manager.answers.administration import Role
from manager.answers.base import Answer, Form


class SessionForm(Form):
    """The API key to sign in with."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(repr=False)


class SessionAnswer(Answer):
    """The caller."""

    kind: Role
    tenant: str | None = None
    """None for an operator."""
    until: datetime | None = None
    """The end of the session; None for a caller with an API key."""


class SessionEnded(Answer):
    """The result of signing out: whether there was a session."""

    ended: bool
