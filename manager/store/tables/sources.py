"""The table of registered sources."""

from typing import Any

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel


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
