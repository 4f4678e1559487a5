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


class SavesAnswer(Answer):
    """What sharing, packing and defragmenting save of what runs now, as predicted from what was measured."""

    sharing: float
    """Cores that tasks of their own would take beyond the shared ones, less bridges; below 0 where these cost more."""
    packing: float
    """Cores that the batches of a job for each dataflow would take beyond those of as few jobs as hold them."""
    defragmenting: float
    """Cores that consolidating the jobs would save now."""
    most: str
    """The one that saves most; empty where none saves anything."""
    work_per_batch_seconds: float
    """CPU for the tasks in a batch, were each dataflow in a job of its own."""
    crossover_seconds: float | None = None
    """From how much of that on sharing saves more than packing; None where it never does."""


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
    saves: SavesAnswer
    """What that says of sharing, packing and defragmenting."""
    move: MoveAnswer | None = None
    """What moves tasks right now."""
