"""Tables: tasks that write and query rows, in databases that are named by a secret or a place.

A database is connected to for one call. It is that of a server, which a tenant's secret names, or a SQLite file in a
place of the tenant's.
"""

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.types import TypeEngine

from bridge.files import make_folder
from bridge.raw_events import ARROW_TYPES
from dags import Kind, Place
from dags.config import Where
from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.outside.file_stores import check_room, guarded, usage_of
from engine.implementations.outside.postgresql_connection import connect_traceless
from engine.implementations.values import check_finite, check_present, label, with_receipts
from engine.outside import HostBarred
from engine.records.state import Staged
from engine.side_effect import ActingBehaviour, EventNames, OutsideUnreachable
from engine.tasks import outside as described

_SERVERS = frozenset({"mariadb", "mssql", "mysql", "oracle", "postgresql"})
"""The database servers that tenants may use. Other databases are files of the host, for which tenants use places."""
_POSTGRESQL_DRIVER = "pg8000"
_OPTIONS = frozenset({"application_name", "charset", "sslmode"})
"""The options that a URL may have. Others could lead drivers to files and sockets of the host."""
_TIMEOUT = 10
"""The seconds that a database may take to answer, far less than a task may take."""
_PASSWORD = re.compile(r"//[^/@\s]*@")


class DatabaseRefusal(ValueError):
    """A database refuses a statement. Says why."""


class Database:
    """One database. It is connected to for each call, since calls are about a second apart."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self.label = label(where)
        self._engine = _engine(where)

    def check_room(self) -> None:
        """Raise if it is a file on a disk that is too full."""
        if isinstance(self._where, Place):
            folder = Path(self._where.path).parent
            make_folder(folder)
            check_room(folder)
            # The file grows by an unknown part of what is written, and is counted as it is.
            usage_of(self._where).take(0, files=0)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A connection whose work is committed as a whole, or not at all."""
        guard: AbstractContextManager[object] = nullcontext()
        if isinstance(self._where, Place):
            make_folder(Path(self._where.path).parent)
        else:
            guard = guarded(self._where, [str(self._engine.url.host)])
        try:
            with guard, self._engine.begin() as connection:
                yield connection
        except HostBarred as barred:
            raise OutsideUnreachable(f"the database {self.label!r} cannot be used: {barred}") from None
        except (exc.OperationalError, exc.InterfaceError) as error:
            raise OutsideUnreachable(f"the database {self.label!r} cannot be used: {_reason(error)}") from None
        except exc.DBAPIError as error:
            raise DatabaseRefusal(f"the database {self.label!r} refuses it: {_reason(error)}") from None
        except exc.SQLAlchemyError as error:
            raise ValueError(f"the database {self.label!r} cannot do it: {type(error).__name__}") from None


def _engine(where: Where) -> sa.Engine:
    if isinstance(where, Place):
        url = sa.URL.create("sqlite", database=where.path)
        return sa.create_engine(url, poolclass=sa.NullPool, connect_args={"timeout": _TIMEOUT})
    try:
        url = sa.make_url(where.revealed)
    except (exc.ArgumentError, ValueError):
        raise NoBehaviour(f"the secret {where.secret!r} is not the URL of a database; put one there") from None
    if url.get_backend_name() not in _SERVERS:
        raise NoBehaviour(
            f"the URL in the secret {where.secret!r} is that of {url.get_backend_name()!r}, not of a database server; "
            "for SQLite, use a place instead"
        )
    if not url.host or "/" in url.host or set(url.query) - _OPTIONS:
        known = ", ".join(sorted(_OPTIONS))
        raise NoBehaviour(
            f"the URL in the secret {where.secret!r} has no host, or an option other than {known}; correct it"
        )
    if url.drivername == "postgresql":
        url = url.set(drivername=f"postgresql+{_POSTGRESQL_DRIVER}")
    without = url.difference_update_query(["sslmode"])
    try:
        engine = sa.create_engine(without, poolclass=sa.NullPool, connect_args=_arguments(url))
    except (exc.NoSuchModuleError, ImportError):
        raise NoBehaviour(
            f"the driver for {url.drivername} is not installed; install its package on every worker"
        ) from None
    if url.get_driver_name() == _POSTGRESQL_DRIVER:
        connect_traceless(engine)
    return engine


def _arguments(url: sa.URL) -> dict[str, Any]:
    if url.get_driver_name() != _POSTGRESQL_DRIVER:
        return {"sslmode": url.query["sslmode"]} if "sslmode" in url.query else {}
    arguments: dict[str, Any] = {"timeout": _TIMEOUT}
    match url.query.get("sslmode"):
        case "require":
            arguments["ssl_context"] = True
        case "verify-full":
            arguments["ssl_context"] = ssl.create_default_context()
    return arguments


def _reason(error: exc.DBAPIError) -> str:
    """The message of a driver's error, in one line, without secrets."""
    message = error.orig.args[0] if error.orig is not None and error.orig.args else error.orig
    text = message.get("M", "") if isinstance(message, dict) else str(message)
    return _PASSWORD.sub("//***@", " ".join(text.split())[:300])


_TYPES: Mapping[Kind, TypeEngine[Any]] = {
    Kind.BOOLEAN: sa.Boolean(),
    Kind.INTEGER: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.STRING: sa.Text(),
    Kind.TIMESTAMP: sa.DateTime(timezone=True),
}
_COLUMN_TYPES = {ARROW_TYPES[kind]: type_ for kind, type_ in _TYPES.items()}
WRITTEN = sa.Table(
    "braid_written",
    sa.MetaData(),
    sa.Column("writer", sa.String(64), primary_key=True),
    sa.Column("event", sa.String(191), primary_key=True),
    sa.Column("job", sa.String(64), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),
)
"""The names of the written events of recent batches."""
_REMEMBERED = 1_000
"""The number of batches whose names are kept. Only the last few can be repeated."""
_FORGET_EVERY = 64
"""Old names are deleted once in this many batches."""
_AT_ONCE = 500
"""The most names in one query."""


def _table_insert(config: described.TableInsertConfig) -> Behaviour:
    """Writes rows in one transaction with the names of their events, which go to the table `braid_written`.

    Skips events whose names are already there. Null is written as NULL; NaN and infinities are refused. If two workers
    run the same batch at the same time, one of them fails on the names that the other wrote, and tries again.

    >>> folder = TemporaryDirectory()
    >>> outside, here = HostOutside(Path(folder.name)), {"place": "own.db", "owner": "ann"}
    >>> insert = {"database": here, "table": "readings", "fields": ["room", "t"]}
    >>> try_out("table_insert", insert, [{"room": "a", "t": 21.5}, {"room": "b", "t": 19.0}], outside=outside)["out"][1]
    {'room': 'b', 't': 19.0, 'receipt': 'own.db/readings#:1.0'}
    >>> folder.cleanup()
    """
    database = Database(config.database)

    def write(_port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> Mapping[str, PortEmission]:
        event_names = names.texts()
        if event_names:
            for field in config.fields:
                check_finite(events, field)
            try:
                _insert(database, config, events, names)
            except DatabaseRefusal:
                _insert(database, config, events, names)
        place = f"{database.label}/{config.table}"
        return {"out": PortEmission(with_receipts(events, [f"{place}#{name}" for name in event_names]))}

    return ActingBehaviour(act=write)


def _insert(database: Database, config: described.TableInsertConfig, events: pa.RecordBatch, names: EventNames) -> None:
    database.check_room()
    types = [_COLUMN_TYPES.get(events.schema.field(field).type, sa.Text()) for field in config.fields]
    target = sa.Table(config.table, sa.MetaData(), *map(sa.Column, config.fields, types))
    with database.transaction() as connection:
        target.metadata.create_all(connection)
        WRITTEN.metadata.create_all(connection)
    rows = events.select(list(config.fields)).to_pylist()
    with database.transaction() as connection:
        named = dict(zip(names.texts(), rows, strict=True))
        for name in _written(connection, names.writer, list(named)):
            del named[name]
        common = {"writer": names.writer, "job": names.origins.job, "batch": names.origins.batch}
        _in_batches(connection, WRITTEN, [{**common, "event": name} for name in named], config.batch)
        _in_batches(connection, target, list(named.values()), config.batch)
        if names.origins.batch % _FORGET_EVERY == 0:
            old = WRITTEN.c.batch < names.origins.batch - _REMEMBERED
            connection.execute(
                sa.delete(WRITTEN).where(WRITTEN.c.writer == names.writer, WRITTEN.c.job == names.origins.job, old)
            )


def _written(connection: sa.Connection, writer: str, names: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        yield from connection.scalars(
            sa.select(WRITTEN.c.event).where(WRITTEN.c.writer == writer, WRITTEN.c.event.in_(some))
        ).all()


def _in_batches(connection: sa.Connection, target: sa.Table, rows: Sequence[Mapping[str, Any]], size: int) -> None:
    for first in range(0, len(rows), size):
        connection.execute(sa.insert(target), rows[first : first + size])


def _table_range_query(config: described.TableRangeQueryConfig) -> Behaviour:
    """Rows are ordered by the column, then by the other columns. A bound that is null is refused.

    >>> folder = TemporaryDirectory()
    >>> outside, rooms = HostOutside(Path(folder.name)), {"database": {"place": "db", "owner": "ann"}, "table": "t"}
    >>> rows = [{"room": "a", "t": 21.5}, {"room": "b", "t": 19.0}, {"room": "c", "t": 20.0}]
    >>> made = try_out("table_insert", {**rooms, "fields": ["room", "t"]}, rows, outside=outside)
    >>> query = {**rooms, "column": "t", "low": "from", "high": "to", "columns": {"room": "string", "t": "float"}}
    >>> try_out("table_range_query", query, [{"from": 20.0, "to": 30.0}], outside=outside)
    {'out': [{'room': 'c', 't': 20.0}, {'room': 'a', 't': 21.5}]}
    >>> folder.cleanup()
    """
    database = Database(config.database)
    others = (sa.column(name, _TYPES.get(kind)) for name, kind in config.columns.items() if name != config.column)
    source = sa.table(config.table, sa.column(config.column), *others)

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        values_of = {name: list[Any]() for name in config.columns}
        origins: list[int] = []
        for field in (config.low, config.high):
            check_present(events, field)
        if len(events):
            bounds = zip(events.column(config.low).to_pylist(), events.column(config.high).to_pylist(), strict=True)
            with database.transaction() as connection:
                for at, (low, high) in enumerate(bounds):
                    rows = _between(connection, config, source, low, high)
                    origins += [at] * len(rows)
                    for name, values in values_of.items():
                        values += [row[name] for row in rows]
        places = pa.array(origins, pa.int64())
        columns = {name: events.column(name).take(places) for name in config.keep}
        columns |= {name: _column(name, kind, values_of[name]) for name, kind in config.columns.items()}
        return {"out": PortEmission(pa.record_batch(columns), np.array(origins, np.int64))}

    return behave


def _between(
    connection: sa.Connection, config: described.TableRangeQueryConfig, source: Any, low: Any, high: Any
) -> Sequence[Mapping[str, Any]]:
    wanted = [source.c[name] for name in config.columns]
    within = source.c[config.column].between(low, high)
    order = [source.c[config.column], *wanted]
    result = connection.execute(sa.select(*wanted).where(within).order_by(*order).limit(config.most + 1))
    rows = result.mappings().all()
    if len(rows) > config.most:
        raise ValueError(
            f"more than {config.most:,} rows are between {config.low!r} = {low} and {config.high!r} = {high}; query "
            "fewer, or raise `most`"
        )
    return list(map(dict, rows))


def _column(name: str, kind: Kind, values: list[Any]) -> pa.Array:
    if kind is Kind.FLOAT:
        # A database may return decimals.
        values = [None if value is None else float(value) for value in values]
    try:
        return pa.array(values, ARROW_TYPES[kind])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"the column {name!r} has values that are not of kind {kind}: {error}") from None


table_insert = Implementation(type=described.TABLE_INSERT, make=_table_insert)
table_range_query = Implementation(type=described.TABLE_RANGE_QUERY, make=_table_range_query)
