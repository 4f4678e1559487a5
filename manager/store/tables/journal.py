"""The table of the journal."""

from sqlalchemy import JSON, Column, Index, Text, text
from sqlmodel import Field, SQLModel

from manager.store.tables.columns import ROW_NUMBER


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
    note: str = Field(default="", sa_column=Column(Text, nullable=False, server_default=text("''")))
    """The reason and the outcome, if the other columns do not show them."""
