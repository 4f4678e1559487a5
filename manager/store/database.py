"""The database: opened by URL, migrated, and written by one writer at a time; and when it counts as away.

Some errors mean that it is away for now, not that Braid has a defect. The service answers these with 503, and
continues by itself once the database is back. All others stay errors.

The default is SQLite in WAL mode; a URL can name PostgreSQL. A write takes the writer's lock at its beginning:
SQLite's own, which taken only at the first write could come too late, or the row of the leadership on
PostgreSQL.

A newer release brings the tables up to date when it opens the database, in one transaction, and a file of SQLite is
copied before. An older one refuses them then; `downgrade` of the newer one takes them back.
"""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import alembic.command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlmodel import Session

from bridge.files import make_private_file
from engine.implementations.outside.postgresql_connection import connect_traceless
from manager.problem import DatabaseAway
from manager.store.tables import Leadership, table_of

_PRIMARY = 0xFF
"""The last byte of SQLite's extended codes is the primary code."""
_SQLITE_WAITED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_SQLITE_AWAY = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_POSTGRESQL_WAITED = ("40", "55P03")
"""Deadlocks and serialization failures; a lock timeout."""
_POSTGRESQL_AWAY = ("08", "25006", "25P03", "28", "3D", "53", "57P", "58")
"""Prefixes of codes, in order: connection lost, read-only replica, idle transaction ended, user not authorized,
database missing, disk or memory or connections exhausted, server stopping or starting, input or output failed."""


def outage(error: DBAPIError | ConnectionError) -> str | None:
    """Return the database's message if it is away; None for another kind of error."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return error_text(error) if _is_wait(original) or _is_away(original) else None


def error_text(error: BaseException) -> str:
    """Return the database's message for an error, in one line."""
    original = getattr(error, "orig", None) or error
    # PostgreSQL's driver gives the fields of the server's message.
    fields = original.args[0] if original.args else None
    text = str(fields.get("M", fields) if isinstance(fields, dict) else original)
    return text.partition("\n")[0] or type(original).__name__


def _mark_disconnect(context: ExceptionContext) -> None:
    """Let an engine reconnect after an outage, even if the driver takes the error for another kind."""
    if _is_away(context.original_exception):
        context.is_disconnect = True


def _is_wait(error: BaseException | None) -> bool:
    return _sqlite_code(error) in _SQLITE_WAITED or _postgresql_code(error).startswith(_POSTGRESQL_WAITED)


def _is_away(error: BaseException | None) -> bool:
    return (
        _sqlite_code(error) in _SQLITE_AWAY
        or _postgresql_code(error).startswith(_POSTGRESQL_AWAY)
        # Raised at a commit if a connection is reset.
        or isinstance(error, ConnectionError)
        # Raised if the server cannot be reached, and if a connection breaks.
        or (type(error).__module__.startswith("pg8000") and type(error).__name__ == "InterfaceError")
    )


def _sqlite_code(error: BaseException | None) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _postgresql_code(error: BaseException | None) -> str:
    fields: Any = error.args[0] if error is not None and error.args else None
    return str(fields.get("C", "")) if isinstance(fields, dict) else ""


_LOG = logging.getLogger("braid.database")
MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_TIMEOUT = 30.0
"""Seconds that a writer waits for another."""
_IDLE = 30.0
"""Seconds after which PostgreSQL ends an idle transaction, such as that of a suspended manager."""


class DatabaseDown(RuntimeError):
    """A database that cannot be used, with the reason and the remedy."""


class Store:
    """An open database. Thread-safe.

    While the database is away, every use raises `DatabaseAway`. The beginning and the end of an outage are logged.
    """

    def __init__(self, url: str) -> None:
        """Open the database, and migrate its tables."""
        self._engine = _engine(url)
        self._reading = self._engine.execution_options(**{_READS: True})
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._shown = _shown(self._engine)
        self._away: frozenset[str] = frozenset()
        """The kinds of use that fail because the database is away: read, write, or both."""
        _bring_up_to_date(self._engine)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session that sees one state of the database."""
        with self._watched(_READ), Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a session with the writer's lock; it is committed at the end, or rolled back on an error."""
        with self._watched(_WRITTEN), Session(self._engine, expire_on_commit=False) as session, session.begin():
            # This begins the transaction; on SQLite, it takes the lock.
            session.connection()
            if not self._is_sqlite:
                session.execute(_LOCKED)
            yield session

    def now(self, session: Session) -> float:
        """Return the time of the database's clock, which all managers share, in seconds since 1970."""
        return _clock(session.connection())

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _watched(self, how: str) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, ConnectionError) as error:
            if (why := outage(error)) is None:
                raise
            if how not in self._away:
                self._away |= {how}
                _LOG.error("the database %s cannot be %s: %s; it is tried again until it can", self._shown, how, why)
            raise DatabaseAway from error
        if how in self._away:
            self._away -= {how}
            _LOG.warning("the database %s can be %s again", self._shown, how)


def downgrade(url: str, revision: str) -> None:
    """Take the tables of a database back to an older revision, so that the release that made those can use it."""
    engine = _engine(url)
    with _migrating(engine) as (connection, config):
        known, before = _revisions(config), _revision(connection)
        older = known[known.index(before) + 1 :] if before in known else []
        if revision not in older:
            raise DatabaseDown(
                f"the database {_shown(engine)} has the revision {before}; {revision} is none of the older ones that "
                f"this Braid knows: {', '.join(older) or 'none'}"
            )
        row = connection.execute(select(table_of(Leadership).c.leader, table_of(Leadership).c.until)).one()
        if row.leader and row.until > _clock(connection):
            raise DatabaseDown(f"the manager {row.leader} leads on {_shown(engine)}; stop every manager first")
        alembic.command.downgrade(config, revision)
    engine.dispose()


def _bring_up_to_date(engine: Engine) -> None:
    with _migrating(engine) as (connection, config):
        known = _revisions(config)
        before = _revision(connection)
        if before not in {None, *known}:
            raise DatabaseDown(
                f"the database {_shown(engine)} is of a newer Braid, which made its tables of revision {before}; start "
                f"that one, or have it take them back to what this one knows: `braid downgrade {known[0]}`"
            )
        older = before not in {None, known[0]}
        if older and engine.dialect.name == _SQLITE:
            _copy_aside(Path(engine.url.database or ""), str(before))
        alembic.command.upgrade(config, "head")
    if older:
        _LOG.info(
            "the tables of the database %s are brought from revision %s to %s; `braid downgrade %s` takes them back",
            *(_shown(engine), before, known[0], before),
        )


def _copy_aside(path: Path, revision: str) -> None:
    """Copy a file of SQLite, as it was before it is migrated, to its name with the revision after it."""
    copy = path.with_name(f"{path.name}.{revision}")
    copy.unlink(missing_ok=True)
    make_private_file(copy)
    with closing(sqlite3.connect(path)) as reading, closing(sqlite3.connect(copy)) as writing:
        reading.backup(writing)
        # As a single file, without a log.
        writing.execute("PRAGMA journal_mode=DELETE")


@contextmanager
def _migrating(engine: Engine) -> Iterator[tuple[Connection, Config]]:
    """Begin a transaction that no other migration runs beside; an error ends the engine, and says what to do."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    try:
        with engine.begin() as connection:
            if engine.dialect.name != _SQLITE:
                # Two managers may start at once. On SQLite, the transaction has the lock already.
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            config.attributes["connection"] = connection
            yield connection, config
    except DatabaseDown:
        engine.dispose()
        raise
    except (CommandError, SQLAlchemyError, sqlite3.Error, OSError, TypeError) as error:
        # The driver raises TypeError for an unknown option.
        engine.dispose()
        raise DatabaseDown(
            f"the database {_shown(engine)} cannot be used: {error_text(error)}; see that it runs and lets this user in"
        ) from error


def _revisions(config: Config) -> list[str]:
    """Return the revisions that this release knows, the newest first."""
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _clock(connection: Connection) -> float:
    if connection.dialect.name == _SQLITE:
        return float(connection.scalar(select((func.julianday("now") - 2440587.5) * 86400.0)) or 0.0)
    return float(connection.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)


def _shown(engine: Engine) -> str:
    # Without the URL's options, which may contain a password.
    return engine.url.set(query={}).render_as_string(hide_password=True)


_LOCKED = select(table_of(Leadership).c.id).with_for_update()
"""Locks the only row of the leadership."""
_READ, _WRITTEN = "read", "written"
_READS = "braid_reads"
_LOCK = 0x62726169
"""The id of Braid's advisory lock."""
_SQLITE = "sqlite"


def sqlite_url(path: Path) -> str:
    """Return the URL of a database in a file."""
    return URL.create(_SQLITE, database=str(path)).render_as_string()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError):
        # Without the URL and its parts, which may contain a password.
        raise DatabaseDown(f"the database's URL cannot be read; {_REMEDY}") from None
    match parsed.get_backend_name():
        case "sqlite":
            if parsed.database in {None, "", ":memory:"}:
                raise DatabaseDown(f"a database in memory keeps nothing, and each thread would have its own; {_REMEDY}")
            # An error here shows again when the database is opened.
            with suppress(OSError):
                # SQLite gives its other files the same permissions.
                make_private_file(Path(parsed.database or ""))
            waiting = {} if "timeout" in parsed.query else {"timeout": LOCK_TIMEOUT}
            arguments = {**waiting, "check_same_thread": False}
            engine = create_engine(parsed.set(drivername=_SQLITE), connect_args=arguments, max_overflow=_UNBOUNDED)
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        case "postgresql" | "postgres":
            parsed = parsed.set(drivername="postgresql+pg8000")
            engine = create_engine(parsed, pool_pre_ping=True, max_overflow=_UNBOUNDED)
            connect_traceless(engine)
            event.listen(engine, "connect", _prepare_postgresql)
            event.listen(engine, "begin", _begin_postgresql)
        case other:
            raise DatabaseDown(f"Braid keeps its state in SQLite or PostgreSQL, not in {other}; {_REMEDY}")
    event.listen(engine, "handle_error", _mark_disconnect)
    return engine


_REMEDY = "write it as postgresql://user:password@host:port/name or sqlite:////path/to/file"
_BUSY_PAUSE = 0.01
"""Seconds between two attempts to open an empty SQLite database that another process opens too."""
_UNBOUNDED = -1
"""No limit of connections: threads that wait for the committer may hold some, and it must not wait for these."""


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # Otherwise the driver would begin transactions itself, without the writer's lock.
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
            # If several processes open an empty database at once, SQLite refuses some without waiting.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if _reads(connection) else "BEGIN IMMEDIATE")


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}")
    cursor.execute(f"SET idle_in_transaction_session_timeout = {int(_IDLE * 1000)}")
    connection.commit()


def _begin_postgresql(connection: Connection) -> None:
    if _reads(connection):
        # By default, each statement would see a different state.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _reads(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get(_READS, False))
