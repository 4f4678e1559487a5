"""Fragmentation and moves of tasks, for operators."""

from datetime import datetime

from manager.answers.base import Answer


class MoveAnswer(Answer):
    """A move of tasks from job to job that is under way."""

    id: str
    """Its id in the journal."""
    phase: str
    since: datetime
    """The start of this phase."""
    tasks: int
    """The number of instances that move."""
    leaves: tuple[str, ...]
    """The jobs that they leave."""
    joins: tuple[str, ...]
    """The jobs that they join."""


class SavesAnswer(Answer):
    """What sharing and packing saved in the last hour, as in `SavedAnswer`, and what defragmenting would save now."""

    sharing: float | None = None
    """Cores; None if no work was shared."""
    packing: float
    """Cores."""
    defragmenting: float
    """Cores that consolidating the jobs would save now."""
    most: str
    """The one that saves most; empty if none saves anything."""
    work_per_batch_seconds: float
    """CPU seconds of the tasks in a batch, if each dataflow had a job of its own."""
    crossover_seconds: float | None = None
    """The work per batch above which sharing saves more than packing; None if there is none."""


class DefragmentationPreviewAnswer(Answer):
    """What a defragmentation would do now; nothing is moved."""

    tasks: int
    """The number of instances that would move; 0 if none would be better off elsewhere."""
    leaves: tuple[str, ...] = ()
    """The jobs that they would leave."""
    opens: tuple[str, ...] = ()
    """The host of each job that would be opened."""
    jobs: int
    """The jobs that there would be."""
    bridges: int
    planned: bool
    """Whether planning chooses which tasks run together; the strategy `plan` does that."""
    why: str = ""
    """Whether it is worth it, and what it saves and costs."""


class FragmentationAnswer(Answer):
    """The fragmentation of the jobs."""

    jobs: int
    fewest: int
    """The fewest jobs that could run all tasks."""
    bridges: int
    paused: int
    """Paused tasks that plans still have."""
    hops: int
    """The most bridges on one path."""
    cores: float
    """The predicted cost of the fragmentation."""
    latency_seconds: float
    """The latency that the longest path of bridges adds."""
    saves: SavesAnswer
    """The savings by sharing, packing and defragmenting."""
    move: MoveAnswer | None = None
    """The move under way."""
