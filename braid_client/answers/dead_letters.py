"""Dead letters, and the results of discarding and replaying them."""

from datetime import datetime
from typing import Any

from braid_client.answers.base import Answer


class DeadLetterAnswer(Answer):
    """Events that a task failed on."""

    id: int
    at: datetime
    instance: int
    port: str
    dataflows: tuple[str, ...]
    """The dataflows that the task served at that time: the caller's, or all for an operator."""
    reason: str
    events: tuple[Any, ...]
    dropped: int = 0
    """The number of older dead letters of this task that were dropped to make room."""
    traceback: str | None = None
    """The lines of published code that led there, if the caller published it; operators that of operators."""


class DeadLetterGroupAnswer(Answer):
    """The dead letters of one task with one reason."""

    newest: int
    """The id of the newest, by which all of them are replayed or discarded as `alike`."""
    instance: int
    dataflows: tuple[str, ...]
    """The dataflows of the newest."""
    reason: str
    dead_letters: int
    first: datetime
    last: datetime


class Discarded(Answer):
    """The result of discarding dead letters."""

    dead_letters: int


class Replayed(Answer):
    """The result of replaying dead letters."""

    dead_letters: int
    """The number of replayed ones. If the task fails again, its events become new dead letters."""
    events: int
    left: int = 0
    """The number that could not be replayed."""
    why_left: str | None = None
    """The reason for the first of these."""
