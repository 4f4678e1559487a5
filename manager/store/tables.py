"""The tables of the database.

Times are seconds since 1970 in UTC, because SQLite has no time zones.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, Table, Text, false, text
from sqlmodel import Field, SQLModel

from manager.store.requester import requester

ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself only if the column type is INTEGER, which is large enough there."""


def table_of(rows: type[SQLModel]) -> Table:
    """Return the table of a row class, for statements that take and give plain values.

    Every submission uses these: with mapped objects, a row takes thirty times as long.
    """
    table: Table = rows.__table__  # type: ignore[attr-defined]  # SQLModel tells the type checker nothing of it
    return table


def _text(default: Callable[[], str] | None = None) -> Column[str]:
    """A column of a text that is empty where nothing is known."""
    return Column(Text, nullable=False, default=default, server_default=text("''"))


DEFAULT_WHEEL_BYTES = 64 * 1024 * 1024


class TenantRow(SQLModel, table=True):
    """A tenant and its quota."""

    __tablename__ = "tenant"
    name: str = Field(primary_key=True)
    dataflows: int
    tasks: int
    streams: int = Field(default=100_000, sa_column_kwargs={"server_default": "100000"})
    submits_per_minute: int
    created: float
    publishes: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether an operator allows it to publish code."""
    wheel_bytes: int = Field(default=DEFAULT_WHEEL_BYTES, sa_column_kwargs={"server_default": str(DEFAULT_WHEEL_BYTES)})
    """How large the wheels may be in all that its code imports from."""
    sources: int = Field(default=200, sa_column_kwargs={"server_default": "200"})
    secrets: int = Field(default=200, sa_column_kwargs={"server_default": "200"})
    modules: int = Field(default=1_000, sa_column_kwargs={"server_default": "1000"})
    keys: int = Field(default=100, sa_column_kwargs={"server_default": "100"})
    requests_per_minute: int = Field(default=6_000, sa_column_kwargs={"server_default": "6000"})
    from_earliest: int = Field(default=20, sa_column_kwargs={"server_default": "20"})
    state_mb: int = Field(default=4_000, sa_column_kwargs={"server_default": "4000"})
    """How large the states of all its tasks may be."""
    budget: int = Field(default=1_000_000, sa_column_kwargs={"server_default": "1000000"})
    """The money a day that its dataflows with alternates may cost."""
    stopped_at: float | None = None
    """When one of its tasks was last stopped because it asked for too much."""
    quarantined_until: float | None = None


class KeyRow(SQLModel, table=True):
    """An API key; its secret is kept as a hash."""

    __tablename__ = "api_key"
    id: str = Field(primary_key=True)
    hash: str
    role: str
    tenant: str | None = Field(default=None, index=True)
    note: str = ""
    created: float
    revoked: float | None = None
    expires: float | None = None
    used: float | None = None
    """When it last let somebody in, to about a minute."""


class SessionRow(SQLModel, table=True):
    """A session of the console, whose token is kept as a hash: of an API key, or of a person whom a provider knows."""

    __tablename__ = "console_session"
    hash: str = Field(primary_key=True)
    key: str
    """The id of the key; empty for a person."""
    until: float
    subject: str = Field(default="", sa_column=_text())
    """How the provider knows the person."""
    name: str = Field(default="", sa_column=_text())
    groups: list[str] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    """The person's groups at the sign-in that the settings name."""


class CredentialRow(SQLModel, table=True):
    """A tenant's credentials for the broker; the password is kept as the broker's hash."""

    __tablename__ = "broker_credential"
    tenant: str = Field(primary_key=True)
    hash: str
    created: float


class SourceRow(SQLModel, table=True):
    """A registered source."""

    __tablename__ = "source"
    # Ids are never used again.
    __table_args__ = {"sqlite_autoincrement": True}
    id: int | None = Field(default=None, primary_key=True)
    """Names its spool, so that a source that is registered again does not find the old spool."""
    name: str = Field(unique=True)
    """The full name, `owner:name`."""
    owner: str = Field(index=True)
    connection: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    fields: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    visibility: str
    readers: list[str] = Field(sa_column=Column(JSON, nullable=False))
    registered: float
    granted: dict[str, float] | None = Field(default=None, sa_column=Column(JSON))
    """The time since when each named reader may read it."""
    opened: float | None = None
    """The time since when it is public; None if it is not."""


class WebhookRow(SQLModel, table=True):
    """The webhook of a source, deleted with the source."""

    __tablename__ = "webhook"
    token: str = Field(primary_key=True)
    """The last part of its path, which nobody guesses."""
    source: str = Field(unique=True)
    form: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """How the service signs, without a secret."""
    secret: str = Field(sa_column=Column(Text, nullable=False))
    """Encrypted by the vault."""
    former: str | None = Field(default=None, sa_column=Column(Text))
    """The secret before, likewise."""
    former_until: float | None = None
    made: float


class WebhookDeliveryRow(SQLModel, table=True):
    """A delivery that a webhook has taken. The newest of each webhook are kept."""

    __tablename__ = "webhook_delivery"
    token: str = Field(primary_key=True)
    delivery: str = Field(primary_key=True)
    """The digest of its id."""
    at: float


class ImageRow(SQLModel, table=True):
    """A registered image."""

    __tablename__ = "image"
    name: str = Field(primary_key=True)
    tags: list[str] = Field(sa_column=Column(JSON, nullable=False))
    cores: float
    start: float
    price: float
    most: int | None = None


class ModuleRow(SQLModel, table=True):
    """A version of a module. Its form never changes."""

    __tablename__ = "module"
    __table_args__ = (Index("ux_module_version", "owner", "name", "version", unique=True),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    owner: str
    """The tenant who published it; empty for an operator, whose modules everybody may use."""
    name: str
    version: int
    form: str = Field(sa_column=Column(Text, nullable=False))
    """The form as it was published, in JSON."""
    digest: str | None = None
    """The digest of its source, if it is code."""
    wheels: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The digests of the wheels that its code imports from, as a list in JSON; None without any."""
    published: float
    deprecated: float | None = None
    """When it was deprecated; only pipelines that name this version, or hold it, may use it since."""
    vouched: float | None = None


class WheelRow(SQLModel, table=True):
    """A wheel as somebody sent it. It never changes; its file lies in the root, under its digest."""

    __tablename__ = "wheel"
    __table_args__ = (Index("ux_wheel_version", "owner", "name", "version", unique=True),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    owner: str
    """The tenant who sent it; empty for an operator."""
    name: str
    """The name of the package, in its normal form."""
    version: str
    digest: str = Field(index=True)
    bytes: int
    requires: str = Field(sa_column=Column(Text, nullable=False))
    """What it depends on, as a list in JSON."""
    sent: float


class DataflowRow(SQLModel, table=True):
    """A dataflow as submitted, with the instances that run its tasks."""

    __tablename__ = "dataflow"
    # The index covers the check of a tenant's quota, so that no row is read for it.
    __table_args__ = (Index("ix_dataflow_usage", "tenant", "removed", "tasks", "streams"),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    id: str = Field(unique=True)
    tenant: str
    name: str = Field(index=True)
    revision: int = 1
    submitted: float
    removed: float | None = Field(default=None, index=True)
    draining: float | None = None
    document: str = Field(sa_column=Column(Text, nullable=False))
    tasks: int
    streams: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """The number of streams between them."""
    task_ids: list[str] = Field(sa_column=Column(JSON, nullable=False))
    instances: list[int] = Field(sa_column=Column(JSON, nullable=False))
    started: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The instances started for it; all others were reused."""
    sinks: list[str] = Field(sa_column=Column(JSON, nullable=False))
    parts: list[list[int]] = Field(sa_column=Column(JSON, nullable=False))
    sources: list[str] = Field(sa_column=Column(JSON, nullable=False))
    epochs: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    """The epoch of each sink whose numbers were restarted: one more than the number of restarts."""
    outputs: dict[str, dict[str, Any]] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    """How sinks are delivered, by id, if not as always; None if all of them are."""
    start: str = Field(default="latest", sa_column_kwargs={"server_default": "latest"})
    """The position in the spools of its sources where it started."""
    histories: dict[str, list[str]] | None = Field(default=None, sa_column=Column(JSON))
    """The scopes of tasks that were reconfigured while they ran, by id."""
    pipeline: str | None = Field(default=None, sa_column=Column(Text))
    """The document with open places of which `document` was planned, if it was."""
    dynamic: str | None = Field(default=None, sa_column=Column(Text))
    """The document with alternates, guards or a policy that `document` is resolved from, if it is."""
    policy: str | None = Field(default=None, sa_column=Column(Text))
    """The policy that has replaced that of the dynamic document, if one has."""
    pinned: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    """What its tenant has chosen by hand: alternates by task, and whether streams are open, by name."""
    given_up: list[dict[str, Any]] | None = Field(default=None, sa_column=Column(JSON))
    """The modules that failed in it, each with what came of that, oldest first."""
    unplanned: str = Field(default="", sa_column=Column(Text, nullable=False, server_default=text("''")))
    """The reason why it was not planned again when it should have been last; empty if it was."""


class ReplacedDocumentRow(SQLModel, table=True):
    """A document that a dataflow had before."""

    __tablename__ = "replaced_document"
    dataflow: str = Field(primary_key=True)
    tag: str = Field(primary_key=True)
    document: str = Field(sa_column=Column(Text, nullable=False))
    at: float
    """When it was replaced."""


class TaskRow(SQLModel, table=True):
    """A running task."""

    __tablename__ = "running_task"
    instance: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    signature: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    scope_dataflow: str | None = None
    scope_task: str | None = None
    text: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    type: str
    version: int
    inputs: list[list[Any]] = Field(sa_column=Column(JSON, nullable=False))
    json_fields: list[list[str]] | None = Field(default=None, sa_column=Column(JSON))
    """The fields of kind `json` that reach it, each with the port; None if not known yet."""
    since: float
    tags: list[str] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=True))
    """The tags that its host must offer, as it was started; None in old rows, which have those of their types."""
    job: int = Field(index=True)
    busy: float
    moves: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """The number of its moves to another job or back; each raises the epoch of its streams."""


class JobRow(SQLModel, table=True):
    """A job with its newest plan, until its host reports that it is stopped."""

    __tablename__ = "job"
    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    host: str
    version: int
    plan: str = Field(sa_column=Column(Text, nullable=False))
    stopped: bool = False


class RetiredTopicRow(SQLModel, table=True):
    """A topic that is to be cleared, as in `manager.kernel.retired_topics`; deleted once it is."""

    __tablename__ = "retired_topic"
    id: str = Field(primary_key=True)
    dataflow: str
    sink: str
    topic: str
    job: int
    version: int
    since: float


class MoveRow(SQLModel, table=True):
    """A move under way, as in `manager.kernel.transitions`; deleted at its end."""

    __tablename__ = "move"
    # Ids name cuts, so they are never used again.
    __table_args__ = {"sqlite_autoincrement": True}
    id: int | None = Field(default=None, primary_key=True)
    phase: str
    since: float
    begun: float
    who: str
    reason: str = Field(sa_column=Column(Text, nullable=False))
    cut_at: float = 0.0
    """The time since when outputs may stand still."""
    steps: list[tuple[int, int, int, int, float]] = Field(sa_column=Column(JSON, nullable=False))
    """For each task: the instance, the job that it leaves, the job that it joins, 1 if it is active, and its load."""
    opens: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    passed: dict[str, dict[str, int]] = Field(sa_column=Column(JSON, nullable=False))
    hindrance: str = Field(default="", sa_column=Column(Text, nullable=False))


class IdempotencyRow(SQLModel, table=True):
    """The result of a submission or a reconfiguration with an idempotency key."""

    __tablename__ = "idempotency"
    __table_args__ = (Index("ix_idempotency_age", "tenant", "at"),)
    tenant: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    digest: str
    """The digest of what was sent, so that something else with the same key is refused."""
    dataflow: str
    reconfiguration: int | None = None
    at: float


class ReconfigurationRow(SQLModel, table=True):
    """A reconfiguration, as in `manager.kernel.transitions`; kept after its end."""

    __tablename__ = "reconfiguration"
    # Ids name markers, so they are never used again.
    __table_args__ = {"sqlite_autoincrement": True}
    id: int | None = Field(default=None, primary_key=True)
    phase: str
    since: float
    begun: float
    ended: float | None = Field(default=None, index=True)
    switched: float | None = None
    """When all jobs ran the new plans."""
    who: str
    jobs: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    awaiting: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    sources: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    instances: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    changed: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    watched: list[int] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    undoes: int | None = None
    outcome: str = Field(default="", sa_column=Column(Text, nullable=False))
    report: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    """The preview that it began with."""
    request: str | None = Field(default=None, sa_column=Column(Text))
    """What was asked for, until the switch, so that any manager can decide on it."""


class ReconfiguredRow(SQLModel, table=True):
    """A dataflow of a reconfiguration, with its documents."""

    __tablename__ = "reconfigured"
    __table_args__ = (Index("ix_reconfigured_dataflow", "dataflow", "reconfiguration"),)
    reconfiguration: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    dataflow: str = Field(primary_key=True)
    revision: int
    """The revision that it has after the switch."""
    before: str = Field(sa_column=Column(Text, nullable=False))
    after: str = Field(sa_column=Column(Text, nullable=False))


class DeadLetterRow(SQLModel, table=True):
    """A dead letter: events that a task could not process."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        # With the size, so that the bounds are checked without reading rows.
        Index("ix_dead_letter_instance", "instance", "id", "size"),
        # Ids of discarded letters are never used again.
        {"sqlite_autoincrement": True},
    )
    id: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    at: float
    instance: int = Field(sa_column=Column(BigInteger, nullable=False))
    port: str
    batch: int = Field(sa_column=Column(BigInteger, nullable=False))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    events: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    digest: str = Field(unique=True)
    """The digest of its content, so that a repeated letter is kept once."""
    size: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Bytes of its reason, its events and its traceback."""
    owner: str | None = Field(default=None, sa_column=Column(Text))
    """The owner of the published code that failed, who alone reads the traceback; empty for an operator."""
    traceback: str | None = Field(default=None, sa_column=Column(Text))


class DeadLetterReaderRow(SQLModel, table=True):
    """A reader of a dead letter: a tenant whose dataflows the task served. Deleted when the tenant discards it."""

    __tablename__ = "dead_letter_reader"
    __table_args__ = (Index("ix_dead_letter_reader_tenant", "tenant", "letter"),)
    letter: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tenant: str = Field(primary_key=True)
    dataflows: list[str] = Field(sa_column=Column(JSON, nullable=False))


class DeadLetterReplayRow(SQLModel, table=True):
    """A replayed dead letter, which is recognized if it arrives again. The letter is kept until it is taken."""

    __tablename__ = "dead_letter_replay"
    digest: str = Field(primary_key=True)
    letter: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    """The id of the letter whose events were fed."""
    at: float


class DeadLetterDropRow(SQLModel, table=True):
    """The number of an instance's dead letters that were dropped for newer ones."""

    __tablename__ = "dead_letter_drop"
    instance: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=Column(BigInteger, nullable=False))


class LearntRow(SQLModel, table=True):
    """The learnt costs, as `manager.costs.measured` writes them; one row."""

    __tablename__ = "learnt"
    id: int = Field(default=1, primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: float
    costs: dict[str, Any] = Field(sa_column=Column("told", JSON, nullable=False))


class MeteredRow(SQLModel, table=True):
    """The totals of a minute or an hour, as in `manager.savings.settlement`; CPU in nanoseconds."""

    __tablename__ = "metered"
    span: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """Seconds of a minute or an hour."""
    at: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    term: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """The term that a minute was metered in; 0 for an hour, to which several terms may add."""
    seconds: float
    """The part of it that was metered."""
    cpu: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    """The CPU of each part, without the broker if it was not measured."""
    overhead: int = Field(sa_column=Column(BigInteger, nullable=False))
    launched: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The launched baseline: low, likely, high; as with the packed one."""
    packed: list[int] = Field(sa_column=Column(JSON, nullable=False))
    work: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    work_alone: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """The CPU that all tasks would have taken without sharing."""


class MeteredTenantRow(SQLModel, table=True):
    """The shares of a tenant's dataflows in a minute or an hour."""

    __tablename__ = "metered_tenant"
    span: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    term: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tenant: str = Field(primary_key=True)
    took: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The sums for all its dataflows, in the order that `manager.savings.ledger` reads."""
    dataflows: dict[str, list[int]] = Field(sa_column=Column(JSON, nullable=False))
    """The sums for each dataflow, in one row, since rows of their own would be most of all that is written."""


class SeriesRow(SQLModel, table=True):
    """The figures of a dataflow in one step of time, as in `manager.series.figures`.

    The newest steps come last in the key, so that what is written together lies together.
    """

    __tablename__ = "series"
    # The key is all that rows are found by, and most of a row.
    __table_args__ = {"sqlite_with_rowid": False}
    step: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """The seconds of the step."""
    at: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """The beginning of the step."""
    dataflow: str = Field(primary_key=True)
    seconds: float
    """The part of the step that is known, which may begin before it."""
    events_in: int = Field(sa_column=Column(BigInteger, nullable=False))
    events_out: int = Field(sa_column=Column(BigInteger, nullable=False))
    dead: int = Field(sa_column=Column(BigInteger, nullable=False))
    waiting: int = Field(sa_column=Column(BigInteger, nullable=False))
    latency_p50: float | None = None
    latency_p99: float | None = None
    cores: float | None = None
    alone: float | None = None


class OperationRow(SQLModel, table=True):
    """An entry of the journal."""

    __tablename__ = "operation"
    # Every submission reads the caller's operations of the last minute.
    __table_args__ = (Index("ix_operation_who_at", "who", "at"),)
    id: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    at: float
    kind: str
    who: str
    subject: str = Field(index=True)
    started: int = 0
    reused: int = 0
    paused: int = 0
    jobs_started: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    jobs_stopped: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    seconds: float
    note: str = Field(default="", sa_column=_text())
    """The reason and the outcome, if the other columns do not show them."""
    caller: str = Field(default_factory=lambda: requester().caller, sa_column=_text(lambda: requester().caller))
    """The id of the API key, or the subject at the provider; empty for what Braid does by itself."""
    caller_name: str = Field(default_factory=lambda: requester().name, sa_column=_text(lambda: requester().name))
    """The note on the key, or the person's name."""
    address: str = Field(default_factory=lambda: requester().address, sa_column=_text(lambda: requester().address))
    """Where the request came from."""


class Leadership(SQLModel, table=True):
    """The only row of its table: the leading manager, and the version of the committed state."""

    id: int = Field(default=1, primary_key=True)
    leader: str = ""
    term: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Raised at each take-over; plans carry it."""
    until: float = 0.0
    """The end of the leader's lease, by the database's clock."""
    version: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    next_instance: int = Field(default=1, sa_column=Column(BigInteger, nullable=False))
    next_job: int = 1
    service: str = ""
    """The unique name of the service, for its sessions at the broker; chosen when it is first needed."""
