"""The tables: what was committed, in rows. Everything that runs follows from them.

Times are seconds since 1970 in UTC, because SQLite keeps no time zones.
"""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, Table, Text, text
from sqlmodel import Field, SQLModel

# SQLite numbers rows by itself only where the column is called INTEGER, which is large enough there.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def table_of(rows: type[SQLModel]) -> Table:
    """The table of a kind of rows, for statements that are made once and take and give plain values.

    Whatever every submission does goes by these: through mapped objects, one row takes thirty times as long.
    """
    table: Table = rows.__table__  # type: ignore[attr-defined]  # SQLModel tells the type checker nothing of it
    return table


class Leadership(SQLModel, table=True):
    """The one row that says who leads, and the version of the committed state."""

    id: int = Field(default=1, primary_key=True)
    leader: str = ""
    term: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Raised at each take-over; plans carry it."""
    until: float = 0.0
    """When the leader's lease ends, by the database's clock."""
    version: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Raised at each commit."""
    next_instance: int = Field(default=1, sa_column=Column(BigInteger, nullable=False))
    next_job: int = 1
    service: str = ""
    """A name of the service's own, for what the broker keeps for it; given when a manager leads for the first time."""


class TenantRow(SQLModel, table=True):
    """A tenant and its quota."""

    __tablename__ = "tenant"
    name: str = Field(primary_key=True)
    dataflows: int
    tasks: int
    submits_per_minute: int
    created: float


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


class SessionRow(SQLModel, table=True):
    """A session of the console: a token that stands for an API key, and is kept as a hash."""

    __tablename__ = "console_session"
    hash: str = Field(primary_key=True)
    key: str
    until: float


class CredentialRow(SQLModel, table=True):
    """With what a tenant connects to the broker; the password is kept as the broker's hash."""

    __tablename__ = "broker_credential"
    tenant: str = Field(primary_key=True)
    hash: str
    created: float


class SourceRow(SQLModel, table=True):
    """A registered source."""

    __tablename__ = "source"
    # An id is never used again.
    __table_args__ = {"sqlite_autoincrement": True}
    id: int | None = Field(default=None, primary_key=True)
    """Names its spool, so that a name that is registered anew finds nothing of what it was before."""
    name: str = Field(unique=True)
    """The owner and the name that it gave, as `owner:name`."""
    owner: str = Field(index=True)
    connection: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    fields: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    visibility: str
    readers: list[str] = Field(sa_column=Column(JSON, nullable=False))
    registered: float
    granted: dict[str, float] | None = Field(default=None, sa_column=Column(JSON))
    """Since when each reader may read it, of those that were named."""
    opened: float | None = None
    """Since when it is public, where it is."""


class DataflowRow(SQLModel, table=True):
    """A dataflow as it was submitted, with where its tasks run."""

    __tablename__ = "dataflow"
    # What a tenant's quota is held against stands in the index, so that no row is read for it.
    __table_args__ = (Index("ix_dataflow_usage", "tenant", "removed", "tasks"),)
    number: int | None = Field(default=None, sa_column=Column(_NUMBER, primary_key=True))
    """The order in which they were submitted."""
    id: str = Field(unique=True)
    tenant: str
    name: str = Field(index=True)
    revision: int = 1
    submitted: float
    removed: float | None = Field(default=None, index=True)
    draining: float | None = None
    """Since when it waits to be removed until what its sources had sent is worked off."""
    document: str = Field(sa_column=Column(Text, nullable=False))
    tasks: int
    """How many distinct tasks it has."""
    task_ids: list[str] = Field(sa_column=Column(JSON, nullable=False))
    instances: list[int] = Field(sa_column=Column(JSON, nullable=False))
    started: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The instances that were started for it; all others were reused."""
    sinks: list[str] = Field(sa_column=Column(JSON, nullable=False))
    parts: list[list[int]] = Field(sa_column=Column(JSON, nullable=False))
    sources: list[str] = Field(sa_column=Column(JSON, nullable=False))
    epochs: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    """For each sink whose numbers began anew how often they did, and 1."""
    start: str = Field(default="latest", sa_column_kwargs={"server_default": "latest"})
    """Where in the spools of its sources it began."""


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
    """Which fields of kind `json` reach it, each with the port; None where that was not known yet."""
    since: float
    job: int = Field(index=True)
    busy: float
    moves: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """How often it went to another job, or came back; its streams are in the next epoch each time."""


class JobRow(SQLModel, table=True):
    """A job with its newest plan, until its host has said that it is stopped."""

    __tablename__ = "job"
    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    host: str
    version: int
    plan: str = Field(sa_column=Column(Text, nullable=False))
    stopped: bool = False


class OperationRow(SQLModel, table=True):
    """An entry of the journal."""

    __tablename__ = "operation"
    # What somebody did within the last minute is asked for at every submission.
    __table_args__ = (Index("ix_operation_who_at", "who", "at"),)
    id: int | None = Field(default=None, sa_column=Column(_NUMBER, primary_key=True))
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
    note: str = Field(default="", sa_column=Column(Text, nullable=False, server_default=text("''")))
    """Why, and what came of it, where that is more than the rest tells."""


class MoveRow(SQLModel, table=True):
    """Tasks that go from job to job together, as `manager.transitions.move` says; gone once that is over."""

    __tablename__ = "move"
    # An id is never used again: it names a cut.
    __table_args__ = {"sqlite_autoincrement": True}
    id: int | None = Field(default=None, primary_key=True)
    phase: str
    since: float
    begun: float
    who: str
    reason: str = Field(sa_column=Column(Text, nullable=False))
    cut_at: float = 0.0
    """Since when outputs may stand still."""
    steps: list[tuple[int, int, int, int, float]] = Field(sa_column=Column(JSON, nullable=False))
    """Of each task its instance, the job that it leaves, the one that it joins, if it works, and how busy it is."""
    opens: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    passed: dict[str, dict[str, int]] = Field(sa_column=Column(JSON, nullable=False))
    hindrance: str = Field(default="", sa_column=Column(Text, nullable=False))


class IdempotencyRow(SQLModel, table=True):
    """What a submission under an idempotency key led to."""

    __tablename__ = "idempotency"
    tenant: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    digest: str
    """Of the document, so that another one under the same key is refused."""
    dataflow: str
    at: float


class DeadLetterRow(SQLModel, table=True):
    """Events that a task could not take."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        # With the size, so that bounds are held without reading what they hold.
        Index("ix_dead_letter_instance", "instance", "id", "size"),
        # Those that were discarded leave no id for another.
        {"sqlite_autoincrement": True},
    )
    id: int | None = Field(default=None, sa_column=Column(_NUMBER, primary_key=True))
    at: float
    instance: int = Field(sa_column=Column(BigInteger, nullable=False))
    port: str
    batch: int = Field(sa_column=Column(BigInteger, nullable=False))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    events: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    digest: str = Field(unique=True)
    """Of all that it says, so that one that comes twice is kept once."""
    size: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Bytes of its reason and its events."""


class DeadLetterReaderRow(SQLModel, table=True):
    """Whose a dead letter is: a tenant whose dataflows its task served when it came; gone once they discarded it."""

    __tablename__ = "dead_letter_reader"
    __table_args__ = (Index("ix_dead_letter_reader_tenant", "tenant", "letter"),)
    letter: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tenant: str = Field(primary_key=True)
    dataflows: list[str] = Field(sa_column=Column(JSON, nullable=False))


class DeadLetterReplayRow(SQLModel, table=True):
    """A dead letter that was replayed, so that it is known should it come once more; the letter is kept until taken."""

    __tablename__ = "dead_letter_replay"
    digest: str = Field(primary_key=True)
    letter: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    """Under which id its events were fed."""
    at: float


class DeadLetterDropRow(SQLModel, table=True):
    """How many dead letters of an instance were dropped, because newer ones needed their place."""

    __tablename__ = "dead_letter_drop"
    instance: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=Column(BigInteger, nullable=False))


class LearntRow(SQLModel, table=True):
    """What whoever leads has learnt of what things cost, as `manager.defragmentation.learnt_costs` has it; one row."""

    __tablename__ = "learnt"
    id: int = Field(default=1, primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: float
    told: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class MeteredRow(SQLModel, table=True):
    """What everything took in a minute or an hour, as `manager.savings.settlement` has it; CPU in nanoseconds."""

    __tablename__ = "metered"
    span: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """Seconds: of a minute, or of an hour."""
    at: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """When it began."""
    term: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """Under which whoever led metered a minute; 0 for an hour, to which several may add."""
    seconds: float
    """For how much of it somebody metered."""
    cpu: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    """Of each part; the broker is missing where it was not measured."""
    overhead: int = Field(sa_column=Column(BigInteger, nullable=False))
    launched: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """What a job for each dataflow would have taken: at least, likely, at most."""
    packed: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """What as few jobs as can hold them, without sharing, would have taken."""
    work: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """What the tasks took."""
    work_alone: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """What they would have taken once for each dataflow that used them."""


class MeteredTenantRow(SQLModel, table=True):
    """What a tenant's dataflows took in a minute or an hour."""

    __tablename__ = "metered_tenant"
    span: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    term: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tenant: str = Field(primary_key=True)
    took: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The share of all its dataflows; at least, likely, at most what they would take alone; and so what they saved."""
    dataflows: dict[str, list[int]] = Field(sa_column=Column(JSON, nullable=False))
    """The same of each. A row each, every minute anew, would be more than all else that is written."""
