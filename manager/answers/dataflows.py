"""Dataflows: what submitting one did or would do, and how they stand."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from manager.answers.base import Answer
from merge import Basis


class DataflowState(StrEnum):
    """Where a dataflow is in its life; `manager/reconciler/dataflow_life.py` has the table."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    DEGRADED = "degraded"
    DRAINING = "draining"
    REMOVED = "removed"


class TaskAnswer(Answer):
    """One task of a dataflow."""

    id: str
    type: str
    instance: int
    """Where it runs; equivalent tasks of one dataflow have the same."""
    reused: bool
    """Whether it ran for somebody already when the dataflow was submitted."""
    since: datetime | None = None
    """For a reused task with state, the hour since which it runs: it continues with that history."""
    failed: str = ""
    """Why its events are parked, where it failed."""


class OutputAnswer(Answer):
    """Where what a sink takes is found."""

    sink: str
    topic: str
    latency_seconds_p50: float | None = None
    """How old the events of the last minute were when they left, in the median: since Braid received what caused them.
    None where there was none, or where that is not known."""
    latency_seconds_p99: float | None = None
    """How old all but one in a hundred of them were at most."""


class Start(StrEnum):
    """Where a dataflow begins in its sources: at what comes from now on, or at the earliest that their spools keep."""

    LATEST = "latest"
    EARLIEST = "earliest"


class DataflowAnswer(Answer):
    """A submitted dataflow."""

    id: str
    tenant: str
    name: str
    revision: int
    """Counts the documents that it had, from 1."""
    state: DataflowState
    reason: str = ""
    """What it waits for, or why it is degraded."""
    submitted: datetime
    outputs: tuple[OutputAnswer, ...]
    start: Start = Start.LATEST
    """Where it began in its sources; `earliest` is what their spools kept then: what some job had yet to work off."""


class DataflowDetail(DataflowAnswer):
    """A submitted dataflow with all that belongs to it."""

    tasks: tuple[TaskAnswer, ...]
    document: dict[str, Any]


class EndingStreamAnswer(Answer):
    """A stream that is not sent from job to job any more once a dataflow is removed."""

    task: str
    """Whose it is."""
    instance: int
    port: str


class RemovalAnswer(Answer):
    """What removing a dataflow would do."""

    dataflow: str
    stops: tuple[TaskAnswer, ...]
    """What nobody else needs."""
    goes_on: int
    """How many of its tasks go on, because others need them."""
    streams: tuple[EndingStreamAnswer, ...]
    """What would not be forwarded any more."""


class SampleAnswer(Answer):
    """Some of what left on an output's topic; made by `manager.event_flow.output_look`."""

    at: datetime
    """When the manager took it up."""
    epoch: int
    first: int
    """The number of the first event."""
    events: tuple[Any, ...]
    others: int
    """How many events left since the sample before, as far as that is known, and are not shown."""


class OutputEvent(Answer):
    """One event of an output, or how many were missed before the next; made by `manager.event_flow.tail`."""

    sink: str
    epoch: int = 0
    """Numbers begin anew with a higher one."""
    number: int = 0
    """Counts the events of the sink from 0."""
    event: Any = None
    missed: int = 0
    """How many events before the next one are not shown here, because they came faster than they were read."""


class SubmitAnswer(DataflowAnswer):
    """What a submission did."""

    reused: tuple[TaskAnswer, ...]
    started: tuple[TaskAnswer, ...]


class Saving(Answer):
    """What sharing saves, predicted."""

    tasks: int
    """Tasks that need not run again."""
    of_tasks: int = 0
    """Of so many tasks, equivalent ones being one."""
    cores: float
    """All in all."""
    task_cores: float = 0.0
    """What these tasks would take if they ran again."""
    batch_cores: float = 0.0
    """What the micro-batches of a job of its own would take, whatever they hold, where none is opened; assumed."""
    rests_on: dict[Basis, int] = Field(default={})
    """For how many of the tasks, but for sources, the cost was measured where they run, and for how many it was not."""
    work: float | None = None
    """The part of the dataflow's work that the reused tasks do, between 0 and 1: of events times what one costs at each
    task, and nothing at a source. None where nothing would do any work.
    """
    work_rests_on: dict[Basis, int] = Field(default={})
    """What the work rests on, for all tasks of the dataflow but its sources."""


class ExplainAnswer(Answer):
    """What a submission would do."""

    reused: tuple[TaskAnswer, ...]
    """With instance 0: whose it is stays untold."""
    started: tuple[str, ...]
    collapsed: tuple[tuple[str, ...], ...]
    """Groups of tasks that are equivalent and would run as one."""
    saving: Saving
    start: Start = Start.LATEST
    """Where it would begin in its sources; at the earliest it reuses nothing."""


class Stop(StrEnum):
    """How a dataflow is removed: at once, or after what its sources have sent by now."""

    NOW = "now"
    DRAIN = "drain"
