"""The database in a backup: a file of SQLite with the same tables, even if the service's database is PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, delete, func, insert, make_url, select, text
from sqlmodel import Session

from bridge.files import make_private_file
from manager.backup.archive import BackupRefused
from manager.store.database import LOCK_TIMEOUT, Store, sqlite_url
from manager.store.tables import Leadership, table_of

_AT_ONCE = 1_000
"""Rows copied at a time."""
_TABLES = Leadership.metadata.sorted_tables


def dump(url: str, path: Path) -> None:
    """Copy a database as of one moment into a file; others may write meanwhile."""
    if (file := sqlite_file(url)) is not None:
        _copy_file(file, path)
        return
    with _copied(url, sqlite_url(path)) as (reading, writing):
        for table in _TABLES:
            if (last := _last_number(reading.connection(), table)) is not None:
                _set_last_number(writing.connection(), table, last)


def load(path: Path, url: str) -> None:
    """Fill an empty database from a file that `dump` wrote."""
    if (file := sqlite_file(url)) is not None:
        _copy_file(path, file)
        return
    with _copied(sqlite_url(path), url) as (reading, writing):
        given = {row.name: row.seq for row in reading.execute(text("SELECT name, seq FROM sqlite_sequence"))}
        for table in _TABLES:
            _continue_from(writing.connection(), table, given.get(table.name, 0))


def moves(path: Path) -> tuple[int, bool]:
    """Return the id of the last move in a file that `dump` wrote, and true if a move was under way."""
    with closing(sqlite3.connect(path)) as connection:
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'move'").fetchone()
        underway = connection.execute("SELECT 1 FROM move").fetchone()
    return (0 if last is None else last[0]), underway is not None


def check_empty(url: str) -> None:
    """Refuse a database that is not empty."""
    if (file := sqlite_file(url)) is not None:
        if file.exists():
            raise BackupRefused(f"there is a database at {file} already; name another, or move that one away")
        return
    with closing(Store(url)) as store, store.read() as session:
        others = (table for table in _TABLES if table is not table_of(Leadership))
        filled = any(session.scalar(select(func.count()).select_from(table)) for table in others)
        if filled or session.get_one(Leadership, 1).term:
            raise BackupRefused("the database is not empty; name another one, or empty it first")


def described(path: Path) -> tuple[str, dict[str, int]]:
    """Return the revision of the tables in a file that `dump` wrote, and the number of rows of each."""
    with closing(sqlite3.connect(path)) as connection:
        revision: str = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        # The names are constants of the models.
        counting = {table.name: f'SELECT count(*) FROM "{table.name}"' for table in _TABLES}  # noqa: S608 - as said
        return revision, {name: connection.execute(count).fetchone()[0] for name, count in counting.items()}


def sqlite_file(url: str) -> Path | None:
    """Return the file of a database of SQLite; None for another kind."""
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def _copy_file(source: Path, target: Path) -> None:
    if not source.is_file():
        raise BackupRefused(f"there is no database at {source}; name the root of a service")
    make_private_file(target)
    with (
        closing(sqlite3.connect(source, timeout=LOCK_TIMEOUT)) as reading,
        closing(sqlite3.connect(target, timeout=LOCK_TIMEOUT)) as writing,
    ):
        # In one step, so that it is one state even if others write meanwhile.
        reading.backup(writing, pages=-1)
        # As a single file, without a log.
        writing.execute("PRAGMA journal_mode=DELETE")


@contextmanager
def _copied(source: str, target: str) -> Iterator[tuple[Session, Session]]:
    """Copy all rows from one database to another, and yield the sessions on both; committed at the end."""
    with (
        closing(Store(source)) as here,
        closing(Store(target)) as there,
        here.read() as reading,
        there.write() as writing,
    ):
        for table in _TABLES:
            # The migrations have inserted the row of the leadership.
            writing.execute(delete(table))
            rows = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
            for part in rows.mappings().partitions(_AT_ONCE):
                writing.execute(insert(table), [dict(row) for row in part])
        yield reading, writing


def _sequence(connection: Connection, table: Table) -> str | None:
    """Return the name of what numbers the rows of a table of PostgreSQL, if they are numbered."""
    column = table.autoincrement_column
    return None if column is None else connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))


def _last_number(connection: Connection, table: Table) -> int | None:
    """Return the last number that PostgreSQL has given in a table, even if its row was deleted."""
    sequence = _sequence(connection, table)
    if sequence is None:
        return None
    # PostgreSQL has quoted the name itself.
    last, called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()  # noqa: S608
    return int(last) if called else None


def _continue_from(connection: Connection, table: Table, last: int) -> None:
    """Keep PostgreSQL from giving a number again."""
    sequence, column = _sequence(connection, table), table.autoincrement_column
    if sequence is None or column is None:
        return
    last = max(last, connection.scalar(select(func.max(column))) or 0)
    if last:
        connection.execute(select(func.setval(sequence, last, True)))  # noqa: FBT003 - PostgreSQL's own signature


def _set_last_number(connection: Connection, table: Table, last: int) -> None:
    """Keep SQLite from giving a number again, where it counts."""
    if table.dialect_options["sqlite"]["autoincrement"]:
        values = {"name": table.name, "last": last}
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), values)
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), values)
