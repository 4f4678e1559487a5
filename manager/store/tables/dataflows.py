"""The tables of dataflows, and of the tasks and jobs that run for them."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary, Text, text
from sqlmodel import Field, SQLModel

from manager.store.tables.columns import ROW_NUMBER


class DataflowRow(SQLModel, table=True):
    """A dataflow as submitted, with the instances that run its tasks."""

    __tablename__ = "dataflow"
    # The index covers the check of a tenant's quota, so that no row is read for it.
    __table_args__ = (Index("ix_dataflow_usage", "tenant", "removed", "tasks", "streams"),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    """The order of submission."""
    id: str = Field(unique=True)
    tenant: str
    name: str = Field(index=True)
    revision: int = 1
    submitted: float
    removed: float | None = Field(default=None, index=True)
    draining: float | None = None
    """The time since when it drains."""
    document: str = Field(sa_column=Column(Text, nullable=False))
    tasks: int
    """The number of its distinct tasks."""
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
    """The reason why it was not planned anew when it should have been last; empty if it was."""


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


class MoveRow(SQLModel, table=True):
    """A move under way, as in `manager.transitions.move`; deleted at its end."""

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
