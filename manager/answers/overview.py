"""What the console begins with: how much there is, and in which state."""

from manager.answers.base import Answer
from manager.answers.dataflows import DataflowState


class TroubledJobAnswer(Answer):
    """A job that is not as it should be."""

    job: str
    state: str
    trouble: str


class JobsOverview(Answer):
    """All jobs together."""

    states: dict[str, int]
    """How many are in each state."""
    troubled: tuple[TroubledJobAnswer, ...]
    """Those in trouble, the first of them."""
    in_trouble: int
    """How many those are altogether."""
    bridges: int
    """Derived streams that go from job to job."""
    lag_events: int | None = None
    """How many events wait in all spools; None where nothing was heard of any."""
    lag_seconds: float | None = None
    """How long the oldest of them has been waiting."""


class KindsAnswer(Answer):
    """How many of some tasks are sources, steps and outputs; steps have inputs and outputs."""

    sources: int
    steps: int
    outputs: int


class OverviewAnswer(Answer):
    """How much there is: of everybody for an operator, of its own for a tenant."""

    dataflows: dict[DataflowState, int]
    """How many are in each state; removed ones are not counted."""
    tasks_submitted: int
    """How many tasks their documents have."""
    tasks_running: int
    """How many running tasks do their work."""
    submitted_by_kind: KindsAnswer | None = None
    """What the submitted tasks are."""
    running_by_kind: KindsAnswer | None = None
    """And the running ones."""
    jobs: JobsOverview | None = None
    """None for tenants."""
