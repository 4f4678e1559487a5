"""Sessions of the console."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from manager.answers.administration import Role
from manager.answers.base import Answer, Form


class SessionForm(Form):
    """What somebody signs in with."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(repr=False)


class SessionAnswer(Answer):
    """Who asks."""

    kind: Role
    tenant: str | None = None
    """None for an operator."""
    until: datetime | None = None
    """When the session ends by itself; None where an API key asks, which has no end."""


class SessionEnded(Answer):
    """Whether there was a session to end."""

    ended: bool
