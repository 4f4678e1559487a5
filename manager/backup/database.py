"""The database in a backup: always a file of SQLite, with the same tables, whichever kind of database it came from."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Column, Connection, Table, delete, func, insert, make_url, select, text
from sqlmodel import Session

from bridge.machine.private_files import make_private_file
from manager.backup.archive import BackupRefused
from manager.store.database import WAITING, Store, sqlite_url
from manager.store.tables import Leadership

_AT_ONCE = 1_000
"""Rows that are copied at a time."""
_TABLES = Leadership.metadata.sorted_tables


def dump(url: str, path: Path) -> None:
    """Write what a database holds at one moment into a file; others may write meanwhile."""
    if (file := sqlite_file(url)) is not None:
        _copy_file(file, path)
        return
    source, target = Store(url), Store(sqlite_url(path))
    try:
        with source.read() as reading, target.write() as writing:
            _copy(reading, writing)
            last = {
                table.name: number
                for table in _TABLES
                if (number := _last_given(reading.connection(), table)) is not None
            }
            _set_given(writing.connection(), last)
    finally:
        source.close()
        target.close()


def load(path: Path, url: str) -> None:
    """Fill an empty database with what `dump` wrote."""
    if (file := sqlite_file(url)) is not None:
        _copy_file(path, file)
        return
    source, target = Store(sqlite_url(path)), Store(url)
    try:
        with source.read() as reading, target.write() as writing:
            _copy(reading, writing)
            given = {row.name: row.seq for row in reading.execute(text("SELECT name, seq FROM sqlite_sequence"))}
            for table in _TABLES:
                _give_from(writing.connection(), table, given.get(table.name, 0))
    finally:
        source.close()
        target.close()


def moves(path: Path) -> tuple[int, bool]:
    """The number of the last move of tasks that was begun by what `dump` wrote, and whether it is under way."""
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'move'").fetchone() is None:
            # Of a release that moved nothing.
            return 0, False
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'move'").fetchone()
        underway = connection.execute("SELECT 1 FROM move").fetchone()
    return (0 if last is None else last[0]), underway is not None


def check_empty(url: str) -> None:
    """Refuse a database that holds something."""
    if (file := sqlite_file(url)) is not None:
        if file.exists():
            raise BackupRefused(f"there is a database at {file} already; name another, or move that one away")
        return
    store = Store(url)
    try:
        with store.read() as session:
            filled = [
                table.name
                for table in _TABLES
                if table is not _table(Leadership) and session.scalar(select(func.count()).select_from(table))
            ]
            if filled or session.get_one(Leadership, 1).term:
                raise BackupRefused("the database is not empty; name another one, or empty it first")
    finally:
        store.close()


def counted(path: Path) -> dict[str, int]:
    """How many rows each table has in what `dump` wrote."""
    with closing(sqlite3.connect(path)) as connection:
        # The names are those of the models.
        return {
            table.name: connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0]  # noqa: S608
            for table in _TABLES
        }


def scheme(path: Path) -> str:
    """The revision of the tables in what `dump` wrote."""
    with closing(sqlite3.connect(path)) as connection:
        revision: str = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        return revision


def sqlite_file(url: str) -> Path | None:
    """The file of a database, where it is one of SQLite."""
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def _copy_file(source: Path, target: Path) -> None:
    if not source.is_file():
        raise BackupRefused(f"there is no database at {source}; name the root of a service")
    make_private_file(target)
    with (
        closing(sqlite3.connect(source, timeout=WAITING)) as reading,
        closing(sqlite3.connect(target, timeout=WAITING)) as writing,
    ):
        # One step, so that it is one state, however much is written meanwhile.
        reading.backup(writing, pages=-1)
        # As one file, without a log beside it.
        writing.execute("PRAGMA journal_mode=DELETE")


def _copy(reading: Session, writing: Session) -> None:
    for table in _TABLES:
        # The migrations make the row of the leadership.
        writing.execute(delete(table))
        rows = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
        for part in rows.mappings().partitions(_AT_ONCE):
            writing.execute(insert(table), [dict(row) for row in part])


def _numbering(table: Table) -> Column[int] | None:
    """The column that numbers the rows of a table by itself, if one does."""
    column = table.autoincrement_column
    return None if column is None else column


def _sequence(connection: Connection, table: Table) -> str | None:
    column = _numbering(table)
    if column is None:
        return None
    return connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))


def _last_given(connection: Connection, table: Table) -> int | None:
    """The last number that PostgreSQL has given in a table, be its row there or not."""
    sequence = _sequence(connection, table)
    if sequence is None:
        return None
    # PostgreSQL says how its name is written.
    last, called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()  # noqa: S608
    return int(last) if called else None


def _give_from(connection: Connection, table: Table, last: int) -> None:
    """Have PostgreSQL give no number again that was given before."""
    sequence, column = _sequence(connection, table), _numbering(table)
    if sequence is None or column is None:
        return
    last = max(last, connection.scalar(select(func.max(column))) or 0)
    if last:
        connection.execute(select(func.setval(sequence, last, True)))  # noqa: FBT003 - as PostgreSQL has it


def _set_given(connection: Connection, last: dict[str, int]) -> None:
    """Have SQLite give no number again that was given before, where it keeps count."""
    for table in _TABLES:
        if table.name in last and table.dialect_options["sqlite"]["autoincrement"]:
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table.name})
            told = {"name": table.name, "last": last[table.name]}
            connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), told)


def _table(model: type[Leadership]) -> Table:
    table: Table = model.__table__  # type: ignore[attr-defined]  # SQLModel tells the type checker nothing of it
    return table
