"""Answers about the service: counts of what there is, the journal, live events, and task types."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from braid_client.answers.base import Answer
from braid_client.answers.dataflows import DataflowState
from dags import State


class TroubledJobAnswer(Answer):
    """A job in trouble."""

    job: str
    state: str
    trouble: str


class JobsOverview(Answer):
    """All jobs together."""

    states: dict[str, int]
    troubled: tuple[TroubledJobAnswer, ...]
    in_trouble: int
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


class Urgency(StrEnum):
    """How bad something is that needs attention."""

    ERROR = "error"
    WARNING = "warning"


class ConcernKind(StrEnum):
    """What something is about that needs attention."""

    HOST = "host"
    JOB = "job"
    MACHINE = "machine"
    DATAFLOW = "dataflow"
    SOURCE = "source"
    DEAD_LETTERS = "dead letters"
    QUOTA = "quota"


MOST_CONCERNS = 100
"""Concerns that an overview has."""


class ConcernAnswer(Answer):
    """Something that needs attention."""

    urgency: Urgency
    kind: ConcernKind
    subject: str = ""
    """The host, job, machine, dataflow, source or tenant; of dead letters, a dataflow; empty if it is about several."""
    what: str
    """A sentence, to be continued by `at` and `reason` if they are there."""
    at: datetime | None = None
    reason: str = ""
    remedy: str
    """What to do, as a command where there is one."""
    limit: str = ""
    """The limit that is nearly used, in the names of quotas."""


class OverviewAnswer(Answer):
    """Whether all is well, and counts of dataflows, tasks and jobs: all for an operator, its own for a tenant."""

    well: bool = True
    """Whether nothing is wrong. There may be warnings."""
    attention: tuple[ConcernAnswer, ...] = ()
    """What needs attention, the worst first, as far as it is listed."""
    concerns: int = 0
    """The number of all that needs attention."""
    dataflows: dict[DataflowState, int]
    """The number of dataflows in each state, without removed ones."""
    tasks_submitted: int
    tasks_running: int
    """The number of running tasks that do their work."""
    submitted_by_kind: KindsAnswer | None = None
    running_by_kind: KindsAnswer | None = None
    jobs: JobsOverview | None = None
    """None for tenants."""


class OperationKind(StrEnum):
    """The kind of an operation."""

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
    PUT_SECRET = "put secret"  # noqa: S105 - the name of an operation, not a password
    REMOVE_SECRET = "remove secret"  # noqa: S105 - as above
    DISCARD = "discard dead letters"
    REPLAY = "replay dead letters"
    RESTORE = "restore backup"
    MOVE = "move tasks"
    RESCALE = "rescale job"
    REPACE = "repace job"
    WOULD_REPACE = "would repace job"
    RECONFIGURE = "reconfigure"
    REPLAN = "replan"
    ADAPT = "adapt"
    SET_POLICY = "set policy"
    CHOOSE = "choose"
    PUBLISH = "publish module"
    DEPRECATE = "deprecate module"
    VOUCH = "vouch for module"
    WITHDRAW = "withdraw vouch"
    PUBLISHING = "set publishing"
    QUARANTINE = "quarantine tenant"
    BOUND_STATES = "bound states"
    PUT_WHEEL = "put wheel"
    REMOVE_WHEEL = "remove wheel"
    TAKE_OVER = "take over host"
    HAND_OVER = "hand over host"
    MACHINE_WAITS = "machine waits"
    ADMIT_MACHINE = "admit machine"
    DRAIN_MACHINE = "drain machine"
    UNDRAIN_MACHINE = "undrain machine"
    FORGET_MACHINE = "forget machine"
    BALANCE = "balance load"
    ADD_MACHINE = "add machine"
    WOULD_ADD_MACHINE = "would add machine"
    REMOVE_MACHINE = "remove machine"
    WOULD_REMOVE_MACHINE = "would remove machine"
    SCALING_FAILS = "scaling fails"
    MACHINE_LATE = "machine late"
    MACHINE_SLOW = "machine slow"
    PUT_MACHINE_CLASS = "put machine class"
    REMOVE_MACHINE_CLASS = "remove machine class"
    PUT_IMAGE = "put image"
    REMOVE_IMAGE = "remove image"
    MAKE_WEBHOOK = "make webhook"
    ROTATE_WEBHOOK = "rotate webhook"
    REVOKE_WEBHOOK = "revoke webhook"
    TRY = "try"
    LOOK = "look at task"
    ASK_TO_RECONFIGURE = "ask to reconfigure"
    CANCEL_RECONFIGURATION = "cancel reconfiguration"
    SIGN_IN = "sign in"
    SIGN_OUT = "sign out"
    REFUSED = "refused"


AUDIT_ONLY = frozenset(
    {
        *(OperationKind.SIGN_IN, OperationKind.SIGN_OUT, OperationKind.REFUSED),
        *(OperationKind.ASK_TO_RECONFIGURE, OperationKind.CANCEL_RECONFIGURATION),
    }
)
"""The kinds that only the audit shows, because they change nothing yet."""


class OperationAnswer(Answer):
    """One entry of the journal."""

    id: int
    at: datetime
    kind: OperationKind
    who: str
    """A tenant, "operator", or "the service" for what Braid does by itself."""
    subject: str
    """The dataflow, source, module, wheel, tenant, key, secret, host, machine, class of machines or image."""
    started: int = 0
    reused: int = 0
    paused: int = 0
    jobs_started: tuple[str, ...] = ()
    jobs_stopped: tuple[str, ...] = ()
    seconds: float
    """The time that it took to commit; for a move, the time that it took in all."""
    note: str = ""
    """The reason and the result, if the other fields do not say them."""


class AuditOutcome(StrEnum):
    """Whether something was done or refused."""

    DONE = "done"
    REFUSED = "refused"


class AuditAnswer(Answer):
    """One thing that a caller did, or was refused."""

    id: int
    at: datetime
    who: str
    """A tenant, "operator", or "a stranger" for people in no group."""
    caller: str
    """The id of the API key, or the subject of the person at the provider."""
    caller_name: str
    """The note on the key, or the person's name."""
    address: str
    """Where the request came from; behind a proxy that is not trusted, the proxy's."""
    kind: OperationKind
    subject: str
    """As in the journal; the path, if it was refused."""
    outcome: AuditOutcome
    note: str = ""
    """The reason and the result."""


class EventAnswer(Answer):
    """One event of the live stream: an operation, or a new state of a job or a dataflow."""

    id: int
    kind: Literal["operation", "job", "dataflow"]
    told: dict[str, Any]
    """The operation, the status of the job, or the state of the dataflow."""


class TaskTypeAnswer(Answer):
    """A task type that documents may name."""

    name: str
    version: int
    family: str = ""
    """The heading under which the task library has it."""
    summary: str
    inputs: tuple[str, ...] | None
    """Its input ports. None if they depend on the config, as in `outputs`."""
    outputs: tuple[str, ...] | None
    state: State
    """The state that its tasks keep."""
    config: dict[str, Any]
    """The JSON Schema of its configs."""
