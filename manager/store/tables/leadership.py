"""The table of the leadership, and of the versions and ids that the leading manager gives."""

from sqlalchemy import BigInteger, Column
from sqlmodel import Field, SQLModel


class Leadership(SQLModel, table=True):
    """The only row of its table: the leading manager, and the version of the committed state."""

    id: int = Field(default=1, primary_key=True)
    leader: str = ""
    term: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Raised at each take-over; plans carry it."""
    until: float = 0.0
    """The end of the leader's lease, by the database's clock."""
    version: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """Raised at each commit."""
    next_instance: int = Field(default=1, sa_column=Column(BigInteger, nullable=False))
    next_job: int = 1
    service: str = ""
    """The unique name of the service, for its sessions at the broker; chosen when it is first needed."""
