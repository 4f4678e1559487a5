"""The column type of row numbers, and access to the table of a row class."""

from sqlalchemy import BigInteger, Integer, Table
from sqlmodel import SQLModel

ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself only if the column type is INTEGER, which is large enough there."""


def table_of(rows: type[SQLModel]) -> Table:
    """Return the table of a row class, for statements that take and give plain values.

    Every submission uses these: with mapped objects, a row takes thirty times as long.
    """
    table: Table = rows.__table__  # type: ignore[attr-defined]  # SQLModel tells the type checker nothing of it
    return table
