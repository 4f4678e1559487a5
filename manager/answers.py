"""What REST takes and answers: the forms that callers send, and the answers that they get.

The client and the command line read the same models, so that all three say the same.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dags import Kind, Visibility

T = TypeVar("T")

TenantName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""It names topics and a broker's users, so it holds nothing that either gives a meaning."""
SourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""It names spools, and documents refer to it."""

SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""Documents refer to it."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(_Answer, Generic[T]):
    """Part of a list; `next` is the cursor of the part after it, if there is one."""

    items: tuple[T, ...]
    next: str | None = None


class FieldProblem(_Answer):
    """One thing that is wrong with what was sent."""

    pointer: str
    """Where, as a JSON pointer into what was sent."""
    code: str
    message: str
    remedy: str


class ProblemAnswer(_Answer):
    """Why a request was refused (RFC 9457, `application/problem+json`)."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldProblem, ...] = ()


class DataflowState(StrEnum):
    """Where a dataflow is in its life; `manager/reconciler/life.py` has the table."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    DEGRADED = "degraded"
    DRAINING = "draining"
    REMOVED = "removed"


class TaskAnswer(_Answer):
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


class OutputAnswer(_Answer):
    """Where what a sink takes is found."""

    sink: str
    topic: str


class Start(StrEnum):
    """Where a dataflow begins in its sources: at what comes from now on, or at the earliest that their spools keep."""

    LATEST = "latest"
    EARLIEST = "earliest"


class DataflowAnswer(_Answer):
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


class SubmitAnswer(DataflowAnswer):
    """What a submission did."""

    reused: tuple[TaskAnswer, ...]
    started: tuple[TaskAnswer, ...]


class Basis(StrEnum):
    """What the predicted cost of a task rests on."""

    MEASURED = "measured"
    """Its CPU and its events, where it runs already."""
    TYPE = "type"
    """The mean cost of an event to tasks of its type, and the measured rate of its sources."""
    ASSUMED = "assumed"


class Saving(_Answer):
    """What sharing saves, predicted."""

    tasks: int
    """Tasks that need not run again."""
    cores: float
    """All in all."""
    task_cores: float = 0.0
    """What these tasks would take if they ran again."""
    batch_cores: float = 0.0
    """What the micro-batches of a job of its own would take, whatever they hold, where none is opened; assumed."""
    rests_on: dict[Basis, int] = {}
    """For how many of the tasks, but for sources, the cost was measured where they run, and for how many it was not."""


class ExplainAnswer(_Answer):
    """What a submission would do."""

    reused: tuple[TaskAnswer, ...]
    """With instance 0: whose it is stays untold."""
    started: tuple[str, ...]
    collapsed: tuple[tuple[str, ...], ...]
    """Groups of tasks that are equivalent and would run as one."""
    saving: Saving


class Stop(StrEnum):
    """How a dataflow is removed: at once, or after what its sources have sent by now."""

    NOW = "now"
    DRAIN = "drain"


class TopicConnection(_Form):
    """Raw events that somebody publishes on the broker."""

    kind: Literal["topic"]
    topic: Annotated[str, StringConstraints(min_length=1, max_length=512)]


class RateConnection(_Form):
    """Numbered events at an even pace."""

    kind: Literal["rate"]
    per_second: Annotated[float, Field(gt=0, le=1_000_000)]


class TimerConnection(_Form):
    """One event each time that so many seconds have passed."""

    kind: Literal["timer"]
    seconds: Annotated[float, Field(ge=0.001)]


class ReplayConnection(_Form):
    """The events of a file that the hosts can read; operators only."""

    kind: Literal["replay"]
    path: str
    time_field: str | None = None
    speed: Annotated[float, Field(gt=0)] = 1.0
    per_second: Annotated[float | None, Field(gt=0)] = None
    repeat: bool = False


Connection = Annotated[
    TopicConnection | RateConnection | TimerConnection | ReplayConnection, Field(discriminator="kind")
]


class SourceForm(_Form):
    """A source to register; its owner is the caller's tenant, or named by an operator."""

    name: SourceName
    connection: Connection
    fields: Annotated[dict[str, Kind], Field(alias="schema", max_length=250)] = {}
    """The schema: each field's kind. A generated source has its own."""
    visibility: Visibility = Visibility.PRIVATE
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()
    owner: TenantName | None = None


class VisibilityForm(_Form):
    """Who may read a source from now on; dataflows of tenants that may not any more are stopped."""

    visibility: Visibility
    readers: Annotated[frozenset[TenantName], Field(max_length=1_000)] = frozenset()


class SourceAnswer(_Answer):
    """A registered source, as those who may read it see it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    owner: str
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    visibility: Visibility
    connection: Connection | None
    """For its owner and for operators only."""
    readers: tuple[str, ...] | None
    """The same."""
    dataflows: int
    """How many of the caller's dataflows read it; all of them for its owner and for operators."""


class Stopped(_Answer):
    """What a change made stop besides what it was about."""

    dataflows: int


_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""As far as every database counts."""


class Quota(_Form):
    """What a tenant may use."""

    dataflows: _Count = 1_000
    tasks: _Count = 20_000
    submits_per_minute: _Count = 600


class TenantForm(_Form):
    """A tenant to admit."""

    name: TenantName
    quota: Quota = Quota()


class TenantAnswer(_Answer):
    """A tenant."""

    name: str
    quota: Quota
    dataflows: int
    tasks: int
    created: datetime


class Role(StrEnum):
    """What a caller may do: a tenant what is its own, an operator everything."""

    TENANT = "tenant"
    OPERATOR = "operator"


class KeyForm(_Form):
    """An API key to make; without a tenant it is an operator's."""

    tenant: TenantName | None = None
    note: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class SecretForm(_Form):
    """A secret to keep."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] = Field(repr=False)


class SecretAnswer(_Answer):
    """A secret by its name; nobody is told what it holds."""

    tenant: str
    name: str


class KeyAnswer(_Answer):
    """An API key, without its secret."""

    id: str
    role: Role
    tenant: str | None
    note: str
    created: datetime
    revoked: datetime | None


class NewKeyAnswer(KeyAnswer):
    """An API key when it is made; the secret is shown this once."""

    key: str


class BrokerCredentials(_Answer):
    """With what a tenant connects to the broker; the password is shown this once."""

    url: str
    user: str
    password: str
    reads: tuple[str, ...]
    """Topics that it may subscribe to."""
    writes: tuple[str, ...]
    """Topics that it may publish on."""


class RunningTaskAnswer(_Answer):
    """A running or paused instance."""

    instance: int
    type: str
    job: str
    state: Literal["active", "paused", "failed"]
    inputs: tuple[int, ...]
    dataflows: int
    since: datetime
    dag: int | None
    cpu_seconds: float | None = None
    """CPU that it took since its job was last started; this and what follows is None where nothing was heard of it."""
    events_in: int | None = None
    """How many events it took since then."""
    events_out: int | None = None
    """How many it emitted."""
    events_dead: int | None = None
    """How many it could not take."""


class RunningDagAnswer(_Answer):
    """A running DAG."""

    id: int
    tasks: int
    dataflows: int
    jobs: tuple[str, ...]


class JobAnswer(_Answer):
    """A job: what is wanted of it, and what its host says of it."""

    job: str
    host: str
    version: int
    in_effect: int
    state: str
    trouble: str
    active: int
    paused: int
    batch: int
    batch_seconds_p50: float | None = None
    """How long its batches of the last minute took, in the median; None where there was none."""
    batch_seconds_p99: float | None = None
    """How long all but one in a hundred of them took at most."""
    events_in_per_second: float | None = None
    """How many events it took, over the last minute; None until that is known."""
    events_out_per_second: float | None = None
    """How many left it: for tenants, or for other jobs."""
    lag_events: int | None = None
    """How many events wait for it in its spools."""
    lag_seconds: float | None = None
    """How long the oldest of them has been waiting."""
    restarts: int = 0
    """How often it was started again."""
    seen: datetime | None = None
    """When its host last said something of it."""


class StreamAnswer(_Answer):
    """A derived stream that is forwarded over a bridge."""

    instance: int
    port: str
    producer: str
    consumers: tuple[str, ...]


class HostAnswer(_Answer):
    """A host."""

    name: str
    alive: bool
    jobs: tuple[str, ...]
    spools: dict[str, str]
    dropped: int
    cpu: dict[str, float]
    cores: float | None = None
    """How many tasks its Spark runs at once, as it says."""
    tags: tuple[str, ...] = ()
    """What it offers to tasks that need it."""
    release: str = ""
    """Which Braid it runs."""
    seen: datetime | None


class OperationKind(StrEnum):
    """What an operation did."""

    SUBMIT = "submit"
    REMOVE = "remove"
    DRAIN = "drain"
    REPLACE = "replace"
    REGISTER = "register source"
    CHANGE_SOURCE = "change source"
    REVOKE = "revoke source"
    ADMIT = "admit tenant"
    QUOTA = "set quota"
    MAKE_KEY = "make key"
    REVOKE_KEY = "revoke key"
    CREDENTIALS = "make broker credentials"
    PUT_SECRET = "put secret"  # noqa: S105 - what was done, and no password
    REMOVE_SECRET = "remove secret"  # noqa: S105 - as above
    DISCARD = "discard dead letters"
    REPLAY = "replay dead letters"
    RESTORE = "restore backup"


class OperationAnswer(_Answer):
    """One entry of the journal."""

    id: int
    at: datetime
    kind: OperationKind
    who: str
    """A tenant, or "operator"."""
    subject: str
    """The dataflow, source, tenant, key or secret that it is about."""
    started: int = 0
    reused: int = 0
    paused: int = 0
    jobs_started: tuple[str, ...] = ()
    jobs_stopped: tuple[str, ...] = ()
    seconds: float
    """How long it took to commit."""


class DeadLetterAnswer(_Answer):
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


class Discarded(_Answer):
    """What came of discarding dead letters."""

    dead_letters: int
    """How many they were."""


class Replayed(_Answer):
    """What came of replaying dead letters."""

    dead_letters: int
    """How many were handed to their tasks again. What these cannot take once more becomes new dead letters."""
    events: int
    """How many events they held."""
    left: int = 0
    """How many stay as they are."""
    why_left: str | None = None
    """Why the first of these does."""


class EventAnswer(_Answer):
    """One event of the live stream: an operation, or a new state of a job or a dataflow."""

    id: int
    kind: Literal["operation", "job", "dataflow"]
    told: dict[str, Any]
