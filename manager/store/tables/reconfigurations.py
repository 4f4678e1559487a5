"""The tables of reconfigurations, under way and past."""

from typing import Any

from sqlalchemy import JSON, Column, Index, Text
from sqlmodel import Field, SQLModel


class ReconfigurationRow(SQLModel, table=True):
    """A reconfiguration, as in `manager.transitions.reconfiguration`; kept after its end."""

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
    jobs: list[int] = Field(sa_column=Column(JSON, nullable=False))
    awaiting: list[int] = Field(sa_column=Column(JSON, nullable=False))
    sources: list[int] = Field(sa_column=Column(JSON, nullable=False))
    instances: list[int] = Field(sa_column=Column(JSON, nullable=False))
    changed: list[int] = Field(sa_column=Column(JSON, nullable=False))
    watched: list[int] = Field(sa_column=Column(JSON, nullable=False))
    undoes: int | None = None
    outcome: str = Field(default="", sa_column=Column(Text, nullable=False))
    report: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
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
