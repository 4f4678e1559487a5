"""The overview: counts of dataflows, tasks and jobs."""

from manager.answers.base import Answer
from manager.answers.dataflows import DataflowState


class TroubledJobAnswer(Answer):
    """A job in trouble."""

    job: str
    state: str
    trouble: str


class JobsOverview(Answer):
    """All jobs together."""

    states: dict[str, int]
    """The number of jobs in each state."""
    troubled: tuple[TroubledJobAnswer, ...]
    """The first jobs in trouble."""
    in_trouble: int
    """The number of all jobs in trouble."""
    bridges: int
    """The number of derived streams between jobs."""
    lag_events: int | None = None
    """The number of events that wait in all spools; None if nothing is known of any."""
    lag_seconds: float | None = None
    """The time that the oldest of them has been waiting."""


class KindsAnswer(Answer):
    """Counts of tasks by kind; steps have inputs and outputs."""

    sources: int
    steps: int
    outputs: int


class OverviewAnswer(Answer):
    """Counts of dataflows, tasks and jobs: all for an operator, its own for a tenant."""

    dataflows: dict[DataflowState, int]
    """The number of dataflows in each state, without removed ones."""
    tasks_submitted: int
    """The number of tasks in their documents."""
    tasks_running: int
    """The number of running tasks that do their work."""
    submitted_by_kind: KindsAnswer | None = None
    """The submitted tasks by kind."""
    running_by_kind: KindsAnswer | None = None
    """The running tasks by kind."""
    jobs: JobsOverview | None = None
    """None for tenants."""
