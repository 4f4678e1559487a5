"""The tables of metered CPU, and of learnt costs."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column
from sqlmodel import Field, SQLModel


class LearntRow(SQLModel, table=True):
    """The learnt costs, as `manager.defragmentation.learnt_costs` writes them; one row."""

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
    """Its beginning."""
    term: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """The term that a minute was metered in; 0 for an hour, to which several terms may add."""
    seconds: float
    """The part of it that was metered."""
    cpu: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    """The CPU of each part, without the broker if it was not measured."""
    overhead: int = Field(sa_column=Column(BigInteger, nullable=False))
    launched: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The launched baseline: low, likely, high."""
    packed: list[int] = Field(sa_column=Column(JSON, nullable=False))
    """The packed baseline: low, likely, high."""
    work: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """The CPU of all tasks."""
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
    """The same for each dataflow. A row for each, every minute, would be most of all that is written."""
