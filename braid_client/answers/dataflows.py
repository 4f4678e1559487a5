"""Dataflows: submissions and their previews, states, outputs and removals."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from braid_client.answers.base import Answer, FieldProblem, Form, SentDocument
from braid_client.answers.pipelines import GivenUpModule, PlanAnswer
from dags.outputs import EnvelopeOutput, OutputFormat
from dags.schema import Kind
from dags.vocabulary import Basis


class DataflowState(StrEnum):
    """The state of a dataflow; the table is in `manager/kernel/dataflow_life.py`."""

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
    """The running task. Equivalent tasks of one dataflow share an instance."""
    reused: bool
    """True if it ran already when the dataflow was submitted."""
    since: datetime | None = None
    """The hour in which a reused task with state started. The dataflow continues with that state."""
    failed: str = ""
    """The reason why its events are parked, if it failed."""


class TaskState(StrEnum):
    """The state of a task of a dataflow: starting until its job has run the plan that it needs; down with that job."""

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    DOWN = "down"


class TaskFiguresAnswer(Answer):
    """What is known of a task now; made by `task_figures`. Rates are means over the last minute; None is not known."""

    id: str
    """Its id in the document."""
    state: TaskState
    reason: str = ""
    """Why it failed, so that its events are parked, or why its job is down."""
    since: datetime
    """When the running task started; to the hour if it ran already when the dataflow was submitted."""
    others: int
    """The number of other dataflows that use the same running task now."""
    events_in_per_second: float | None = None
    """None for a source."""
    events_out_per_second: float | None = None
    events_dead_per_second: float | None = None
    """The events that it failed on."""
    events_dead: int | None = None
    """All that it failed on since its job was last started."""
    cores: float | None = None
    """The CPU that it takes. A source takes none of its own."""
    lag_events: int | None = None
    """The events that wait for it: those of a source for its first readers, else those that came from other jobs."""
    state_bytes: int | None = None
    """The size of its state; 0 if that is less than 10,000 bytes. None for a task without state, too."""


class DataflowTasksAnswer(Answer):
    """The figures of a dataflow's tasks."""

    dataflow: str
    tasks: tuple[TaskFiguresAnswer, ...]
    """Empty once it was removed."""


class LeftOutAnswer(Answer):
    """The events that an output left out since its job started, because its format or topic cannot say them."""

    count: int
    at: datetime
    """When the newest was left out."""
    reason: str
    event: str
    """The beginning of that event, as JSON."""


class OutputAnswer(Answer):
    """An output: the topics of a sink, and its latency."""

    sink: str
    topic: str
    """The topic of its envelopes."""
    format: OutputFormat = EnvelopeOutput()
    """The format of the messages that its document asks for."""
    retain: bool = False
    qos: Literal[0, 1] = 1
    also_on: str | None = None
    """The topic of these messages, if it is another one. A level in braces is the value of that field."""
    latency_seconds_p50: float | None = None
    """Median age of the events of the last minute when they left, since Braid received the events that caused them.
    None if there were none, or if it is not known."""
    latency_seconds_p99: float | None = None
    left_out: LeftOutAnswer | None = None
    """The events that are missing in these messages, and in the envelopes are not; None if there are none."""


class Start(StrEnum):
    """Where a dataflow starts in its sources: at new events, or at the oldest that their spools keep."""

    LATEST = "latest"
    EARLIEST = "earliest"


class DataflowAnswer(Answer):
    """A submitted dataflow."""

    id: str
    tenant: str
    name: str
    revision: int
    """The number of documents that it has had."""
    state: DataflowState
    reason: str = ""
    """The reason why it waits or is degraded, and what a source of its tenant has rejected in the last hour."""
    submitted: datetime
    outputs: tuple[OutputAnswer, ...]
    start: Start = Start.LATEST
    """Where it started in its sources. Spools keep events until every job has processed them."""


class DataflowDetail(DataflowAnswer):
    """A submitted dataflow with its tasks and its document."""

    tasks: tuple[TaskAnswer, ...]
    document: dict[str, Any]
    pipeline: dict[str, Any] | None = None
    """The document with open places of which `document` was planned, if it was."""
    dynamic: dict[str, Any] | None = None
    """The document with alternates, guards or a policy that `document` is resolved from, if it is."""
    given_up: tuple[GivenUpModule, ...] = ()
    """The modules that failed in it, and what came of that."""
    tag: str = ""
    """The tag of the document as it was sent; a change can be made for this one alone."""
    unplanned: str = ""
    """Of a pipeline that follows its modules and sources: why it could not be planned again last time."""


class EndingStreamAnswer(Answer):
    """A stream between jobs that ends with a removal."""

    task: str
    instance: int
    port: str


class RemovalAnswer(Answer):
    """The preview of a removal."""

    dataflow: str
    stops: tuple[TaskAnswer, ...]
    goes_on: int
    """The number of its tasks that run on for other dataflows."""
    streams: tuple[EndingStreamAnswer, ...]
    """The streams that are no longer forwarded."""


class SampleAnswer(Answer):
    """A sample of the events of an output; made by `manager.outputs.readers`."""

    at: datetime
    epoch: int
    first: int
    events: tuple[Any, ...]
    others: int
    """The number of other events since the previous sample, as far as it is known."""


class OutputPlace(NamedTuple):
    """A place in the output of a sink: the number that comes next in an epoch."""

    epoch: int
    next: int


class OutputEvent(Answer):
    """One event of an output, or the number of missed ones before the next; made by `manager.outputs.readers`."""

    sink: str
    epoch: int = 0
    """Numbers restart with each higher epoch."""
    number: int = 0
    """The number of the event at its sink, from 0."""
    event: Any = None
    missed: int = 0
    """Events before the next one that are left out, because the reader was too slow."""


class SubmitAnswer(DataflowAnswer):
    """The answer to a submission."""

    reused: tuple[TaskAnswer, ...]
    started: tuple[TaskAnswer, ...]
    plan: PlanAnswer | None = None
    """The plan of its places, if it has any."""
    tag: str = ""
    """The tag of its document."""


class Saving(Answer):
    """The predicted saving, in the figures of `SavedAnswer`."""

    tasks: int
    of_tasks: int = 0
    """All tasks, with equivalent ones counted once."""
    work_by_sharing: float | None = None
    """The part of the dataflow's work that the reused tasks do, between 0 and 1. The work of a task is its events times
    the cost of one; sources have none. None if no task with work is reused.
    """
    cores_by_sharing: float | None = None
    """The cores that the reused tasks would take if they ran again; None likewise."""
    cores_by_packing: float
    """The cores that empty micro-batches of a job of its own would take, if no job is opened; assumed."""
    rests_on: dict[Basis, int] = Field(default={})
    """The number of reused tasks, without sources, by the basis of their cost."""
    work_rests_on: dict[Basis, int] = Field(default={})
    """The number of all tasks, without sources, by the basis of their work."""


class FieldRead(Answer):
    """A field that a task reads."""

    field: str
    kinds: tuple[Kind, ...]
    """The kinds that it may have."""
    at: str
    """The config field that names it, as part of a JSON pointer; empty if the type does."""


class InputPreview(Answer):
    """An input port of a task."""

    fields: dict[str, Kind] | None
    """The fields of the events that arrive; None where none do, or where that is not known yet."""
    reads: tuple[FieldRead, ...] = ()
    """The fields that the task reads there; none are known while its config has a problem."""


class TaskPreview(Answer):
    """One task of a draft, as far as it is known."""

    id: str
    runs: bool | None = None
    """True if it runs already, false if it would start. None while it or a task above it lacks something."""
    since: datetime | None = None
    """The hour in which a running task with state started."""
    cores: float | None = None
    """The cores that a task is predicted to take if it starts, as far as the tenant's own figures tell."""
    inputs: dict[str, InputPreview] = Field(default={})
    outputs: dict[str, dict[str, Kind] | None] = Field(default={})
    """The fields of the events that leave each output port; None while that is not known."""


class ExplainAnswer(Answer):
    """The preview of a submission."""

    reused: tuple[TaskAnswer, ...]
    """Always with instance 0, which reveals nothing of others."""
    started: tuple[str, ...]
    collapsed: tuple[tuple[str, ...], ...]
    """Groups of tasks that are equivalent and would run as one."""
    saving: Saving
    start: Start = Start.LATEST
    """Where it would start in its sources. With `earliest` it reuses nothing."""
    plan: PlanAnswer | None = None
    tasks: tuple[TaskPreview, ...] = ()
    """Of a draft: each of its tasks that could be read."""
    problems: tuple[FieldProblem, ...] = ()
    """Of a draft: the problems because of which it would be refused. With any, the rest is empty but for `tasks`."""


class BundleForm(Form):
    """Documents to submit together."""

    documents: Annotated[tuple[SentDocument, ...], Field(min_length=1, max_length=100)]


class BundleAnswer(Answer):
    """The answer to documents that were submitted together."""

    dataflows: tuple[SubmitAnswer, ...]
    """The answers in the order of the documents."""


class BundleExplainAnswer(Answer):
    """The preview of documents that are submitted together."""

    documents: tuple[ExplainAnswer, ...]
    """The previews in their order; each as if it came alone, but with the plan that they have together."""
    started: int
    """The tasks that would start in all. One that several documents need starts once."""


class Stop(StrEnum):
    """How a dataflow is removed: at once, or after it has processed what its sources have sent so far."""

    NOW = "now"
    DRAIN = "drain"
