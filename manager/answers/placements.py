"""Where the tasks of a dataflow run, and why; for operators."""

from pydantic import Field

from manager.answers.base import Answer


class PlacedTaskAnswer(Answer):
    """A task where it runs."""

    task: str
    instance: int
    job: str
    host: str
    image: str = ""
    """The image of its host; empty if that names none."""
    tags: tuple[str, ...] = ()
    """What its host must offer, as it was started."""
    own: bool = True
    """Whether no other dataflow uses it."""
    why: str = ""


class PlacementAnswer(Answer):
    """Where a dataflow runs, what that costs, and what would cost less.

    Costs are in cores, for batches, bridges and the slowest path, beyond what other dataflows cause anyway.
    """

    dataflow: str
    tasks: tuple[PlacedTaskAnswer, ...]
    cost: float
    """Of the tasks that no other dataflow uses, where they are."""
    cheapest: float
    """Of the same, in the cheapest groups that were found."""
    bound: float | None = None
    """What no groups cost less than; None if nothing was proven."""
    saves: dict[str, float] = Field(default_factory=dict)
    """What one host would save of each registered image that has none, if it does."""
