"""The tables of who carries which host, and of the machines."""

from sqlalchemy import JSON, BigInteger, Column, text
from sqlmodel import Field, SQLModel


class CarriageRow(SQLModel, table=True):
    """Who carries a host, who gets its files, and who has them; see `ring.carriage.Carriage`."""

    __tablename__ = "carriage"
    host: str = Field(primary_key=True)
    machine: str
    """Empty if nobody carries it, since it was forgotten with its machine; the term counts on when it is back."""
    point: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Its place on the ring."""
    term: int = Field(sa_column=Column(BigInteger, nullable=False))
    version: int = Field(sa_column=Column(BigInteger, nullable=False))
    heir: str = ""
    peers: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    """In the order in which they were chosen."""
    roots: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    """The ids of their roots, in the same order."""
    kept_by: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    root: str = ""


class MachineRow(SQLModel, table=True):
    """A machine that was seen once, and what operators want of it."""

    __tablename__ = "machine"
    name: str = Field(primary_key=True)
    token: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Its place on the ring; none before it is admitted."""
    key: str = Field(default="", sa_column_kwargs={"server_default": text("''")})
    """Its public key; empty if it is not known."""
    draining: bool = False
    """Whether it is to give up all hosts that it carries."""
    added: float | None = None
    """When the service added it by itself; None if operators started it."""
