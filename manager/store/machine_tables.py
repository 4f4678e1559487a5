"""The tables of machines: who carries which host, the machines that there are, their classes, and rentals."""

from sqlalchemy import JSON, BigInteger, Column, Index, Text, text
from sqlmodel import Field, SQLModel

from manager.store.tables import ROW_NUMBER


class CarriageRow(SQLModel, table=True):
    """Who carries a host, who gets its files, and who has them; see `ring.fleet.Carriage`."""

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
    """The peers in the order in which they were chosen."""
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


class MachineClassRow(SQLModel, table=True):
    """A class of machines that the service may start, and what was measured of these."""

    __tablename__ = "machine_class"
    name: str = Field(primary_key=True)
    cores: int
    memory_gb: float | None = None
    price: float
    """For a started hour."""
    speed: float | None = None
    """How fast a core is; the mean of the latest machines that were measured."""
    tags: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    image: str | None = None
    start_seconds: float
    """As it was given."""
    started_in: float | None = None
    """How long the latest machines took; None before one has come."""
    least: int
    most: int
    supply: str
    command: str = ""
    nice: int = 0


class RentalRow(SQLModel, table=True):
    """A machine from its order to its end; see `provisioning.figures.Rental`."""

    __tablename__ = "rental"
    # Numbers are never used again.
    __table_args__ = (Index("ix_rental_ended", "ended"), {"sqlite_autoincrement": True})
    number: int | None = Field(default=None, sa_column=Column(ROW_NUMBER, primary_key=True))
    machine: str
    machine_class: str
    cores: int
    price: float
    """For a started hour, as it was when the machine was ordered."""
    why: str = Field(default="", sa_column=Column(Text, nullable=False))
    ordered: float
    ready: float | None = None
    """When it first reported; None if it has not, as workers of Spark never do."""
    ended: float | None = None
    speed: float | None = None
