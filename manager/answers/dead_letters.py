"""Dead letters: what they hold, and what became of those that were discarded or replayed."""

from datetime import datetime
from typing import Any

from manager.answers.base import Answer


class DeadLetterAnswer(Answer):
    """Events that a task could not take."""

    id: int
    at: datetime
    instance: int
    port: str
    dataflows: tuple[str, ...]
    """The caller's that the task served when it came; an operator sees everybody's."""
    reason: str
    events: tuple[Any, ...]
    dropped: int = 0
    """How many older ones of this task had to go, because newer ones needed their place."""


class Discarded(Answer):
    """What came of discarding dead letters."""

    dead_letters: int
    """How many they were."""


class Replayed(Answer):
    """What came of replaying dead letters."""

    dead_letters: int
    """How many were handed to their tasks again. What these cannot take once more becomes new dead letters."""
    events: int
    """How many events they held."""
    left: int = 0
    """How many stay as they are."""
    why_left: str | None = None
    """Why the first of these does."""
