"""The table of images, which hosts are made from."""

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel


class ImageRow(SQLModel, table=True):
    """A registered image."""

    __tablename__ = "image"
    name: str = Field(primary_key=True)
    tags: list[str] = Field(sa_column=Column(JSON, nullable=False))
    cores: float
    start: float
    """Seconds until a new host of it is there."""
    price: float
    """Of a host for an hour."""
    most: int | None = None
    """How many hosts of it there may be; None if any number."""
