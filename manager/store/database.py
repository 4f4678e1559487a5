"""The database: opened by its URL, brought up to date, and written by one at a time.

SQLite in WAL mode by default, PostgreSQL by URL. A write begins with the lock that a writer needs: SQLite's own at
once, rather than when the first row is written and it may be too late, and on PostgreSQL the row of the leadership.
"""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import alembic.command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlmodel import Session

from bridge.machine.private_files import make_private_file
from manager.problem import DatabaseAway
from manager.store.outages import forget_lost_connections, outage, said
from manager.store.tables import Leadership, table_of

_LOG = logging.getLogger("braid.database")
MIGRATIONS = Path(__file__).parent / "migrations"
WAITING = 30.0
"""Seconds that a writer waits for the one before it."""
_IDLE = 30.0
"""Seconds after which PostgreSQL ends the transaction of a manager that does nothing in it, such as a stopped one."""


class DatabaseDown(RuntimeError):
    """A database cannot be used; says which, why, and what to do."""


class Store:
    """An open database; any thread may use it.

    While the database is away, whatever is asked of it raises `DatabaseAway`. The log says so once, and again once it
    is back.
    """

    def __init__(self, url: str) -> None:
        """Open it, and bring its tables up to date."""
        self._engine = _engine(url)
        self._reading = self._engine.execution_options(**{_READS: True})
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        # Without the URL's options, among which a password may be.
        shown = self._engine.url.set(query={}).render_as_string(hide_password=True)
        self._shown = shown
        self._away: frozenset[str] = frozenset()
        """What cannot be done while the database is away: read, write, or both."""
        try:
            self._migrate()
        except CommandError as error:
            self._engine.dispose()
            raise DatabaseDown(
                f"the database {shown} cannot be brought up to date: {said(error)}; a newer Braid may have "
                "made it: start that one, or restore a backup"
            ) from error
        except (SQLAlchemyError, sqlite3.Error, OSError, TypeError) as error:
            # A TypeError is what the driver says to an option that it does not know.
            self._engine.dispose()
            raise DatabaseDown(
                f"the database {shown} cannot be used: {said(error)}; see that it runs and lets this user in"
            ) from error

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database."""
        with self._watched(_READ), Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that nobody else writes beside; what it did is committed whole at the end, or not at all."""
        with self._watched(_WRITTEN), Session(self._engine, expire_on_commit=False) as session, session.begin():
            # With this the transaction begins, on SQLite with the lock.
            session.connection()
            if not self._is_sqlite:
                session.execute(_LOCKED)
            yield session

    def now(self, session: Session) -> float:
        """The database's clock, which all managers share, in seconds since 1970."""
        if self._is_sqlite:
            return float(session.scalar(select((func.julianday("now") - 2440587.5) * 86400.0)) or 0.0)
        return float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)

    def close(self) -> None:
        """Let go of it."""
        self._engine.dispose()

    @contextmanager
    def _watched(self, how: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if (why := outage(error)) is None:
                raise
            if how not in self._away:
                self._away |= {how}
                _LOG.error("the database %s cannot be %s: %s; it is tried again until it can", self._shown, how, why)
            raise DatabaseAway from error
        if how in self._away:
            self._away -= {how}
            _LOG.warning("the database %s can be %s again", self._shown, how)

    def _migrate(self) -> None:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with self._engine.begin() as connection:
            if not self._is_sqlite:
                # Two managers may start at once; on SQLite the transaction has the lock already.
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")


_LOCKED = select(table_of(Leadership).c.id).with_for_update()
"""There is one row."""
_READ, _WRITTEN = "read", "written"
_READS = "braid_reads"
_LOCK = 0x62726169
"""Nobody else's advisory lock."""
_SQLITE = "sqlite"
_POSTGRESQL = "postgresql"


def sqlite_url(path: Path) -> str:
    """The URL of a database in a file."""
    return URL.create(_SQLITE, database=str(path)).render_as_string()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError):
        # Not with the URL, nor with what was wrong in it: it may hold a password.
        raise DatabaseDown(f"the database's URL cannot be read; {_REMEDY}") from None
    match parsed.get_backend_name():
        case "sqlite":
            if parsed.database in {None, "", ":memory:"}:
                raise DatabaseDown(f"a database in memory keeps nothing, and each thread would have its own; {_REMEDY}")
            # What cannot be made for its owner only is told when it is opened.
            with suppress(OSError):
                # SQLite gives the files beside it the same rights.
                make_private_file(Path(parsed.database or ""))
            waiting = {} if "timeout" in parsed.query else {"timeout": WAITING}
            engine = create_engine(
                parsed.set(drivername=_SQLITE),
                connect_args={**waiting, "check_same_thread": False},
                max_overflow=_UNBOUNDED,
            )
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        case "postgresql" | "postgres":
            engine = create_engine(
                parsed.set(drivername=f"{_POSTGRESQL}+pg8000"), pool_pre_ping=True, max_overflow=_UNBOUNDED
            )
            event.listen(engine, "connect", _prepare_postgresql)
            event.listen(engine, "begin", _begin_postgresql)
        case other:
            raise DatabaseDown(f"Braid keeps its state in SQLite or PostgreSQL, not in {other}; {_REMEDY}")
    forget_lost_connections(engine)
    return engine


_REMEDY = "write it as postgresql://user:password@host:port/name or sqlite:////path/to/file"
_AGAIN = 0.01
"""Seconds until an empty SQLite database is tried again that somebody else opens too."""
_UNBOUNDED = -1
"""Whoever waits for the committer holds a connection now and then; the committer shall never wait for one of these."""


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver would begin transactions when it sees fit, and then without the writer's lock.
    connection.isolation_level = None
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous=FULL")


def _write_ahead(connection: sqlite3.Connection) -> None:
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    deadline = time.monotonic() + patience / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Of several that open an empty database at once SQLite refuses some without waiting for the others.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if _reads(connection) else "BEGIN IMMEDIATE")


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = {int(WAITING * 1000)}")
    cursor.execute(f"SET idle_in_transaction_session_timeout = {int(_IDLE * 1000)}")
    connection.commit()


def _begin_postgresql(connection: Connection) -> None:
    if _reads(connection):
        # By default each statement would see a state of its own.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _reads(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get(_READS, False))
