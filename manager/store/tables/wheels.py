"""The table of wheels that published code imports from."""

from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

from manager.store.tables.columns import ROW_NUMBER


class WheelRow(SQLModel, table=True):
    """A wheel as somebody sent it. It never changes; its file lies in the root, under its digest."""

    __tablename__ = "wheel"
    __table_args__ = (Index("ux_wheel_version", "owner", "name", "version", unique=True),)
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    """The order in which wheels were sent."""
    owner: str
    """The tenant who sent it; empty for an operator."""
    name: str
    """That of the package, in its normal form."""
    version: str
    digest: str = Field(index=True)
    bytes: int
    requires: str = Field(sa_column=Column(Text, nullable=False))
    """What it depends on, as a list in JSON."""
    sent: float
