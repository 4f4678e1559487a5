"""The table of published modules."""

from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

from manager.store.tables.columns import ROW_NUMBER


class ModuleRow(SQLModel, table=True):
    """A version of a module. Its form never changes."""

    __tablename__ = "module"
    __table_args__ = (Index("ux_module_version", "owner", "name", "version", unique=True),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    """The order of publication."""
    owner: str
    """The tenant who published it; empty for an operator, whose modules everybody may use."""
    name: str
    version: int
    form: str = Field(sa_column=Column(Text, nullable=False))
    """As it was published, in JSON."""
    digest: str | None = None
    """The digest of its source, if it is code."""
    wheels: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The digests of the wheels that its code imports from, as a list in JSON; None without any."""
    published: float
    deprecated: float | None = None
    """When it was deprecated; only pipelines that name this version, or hold it, may use it since."""
    vouched: float | None = None
    """When an operator vouched for its code."""
