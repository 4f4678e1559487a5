"""How scattered the jobs are, and what moves tasks together, as operators see it."""

from datetime import datetime

from manager.answers.base import Answer


class MoveAnswer(Answer):
    """A move of tasks from job to job that is under way."""

    id: str
    """What the journal calls it."""
    phase: str
    since: datetime
    """When it came into this phase."""
    tasks: int
    """How many instances go together."""
    leaves: tuple[str, ...]
    """The jobs in which they run until the cut."""
    joins: tuple[str, ...]
    """The jobs in which they run after it."""


class FragmentationAnswer(Answer):
    """How scattered the jobs are, against what would do."""

    jobs: int
    fewest: int
    """How many would do."""
    bridges: int
    paused: int
    """Tasks that nobody needs, in plans all the same."""
    hops: int
    """The most bridges in a row."""
    cores: float
    """What all that costs, as it is predicted."""
    latency_seconds: float
    """What the longest row of bridges adds."""
    move: MoveAnswer | None = None
    """What moves tasks right now."""
