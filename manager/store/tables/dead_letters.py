"""The tables of dead letters."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, Text
from sqlmodel import Field, SQLModel

from manager.store.tables.columns import ROW_NUMBER


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
