"""Databases, named by a secret or a place, and connected to for one call."""

import re
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from bridge.files import make_folder
from dags import Place
from engine.behaviour import NoBehaviour
from engine.implementations.outside.contents import label
from engine.implementations.outside.disk_space import check_room
from engine.implementations.outside.guarded_connections import guarded
from engine.implementations.outside.place_usage import usage_of
from engine.implementations.outside.postgresql_connection import connect_traceless
from engine.outside import HostBarred
from engine.side_effect import OutsideUnreachable
from engine.tasks.outside import Where

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
    def transaction(self) -> Iterator[Connection]:
        """A connection whose work is committed as a whole, or not at all."""
        if isinstance(self._where, Place):
            make_folder(Path(self._where.path).parent)
        try:
            with self._guarded(), self._engine.begin() as connection:
                yield connection
        except HostBarred as barred:
            raise OutsideUnreachable(f"the database {self.label!r} cannot be used: {barred}") from None
        except (OperationalError, InterfaceError) as error:
            raise OutsideUnreachable(f"the database {self.label!r} cannot be used: {_reason(error)}") from None
        except DBAPIError as error:
            raise DatabaseRefusal(f"the database {self.label!r} refuses it: {_reason(error)}") from None
        except SQLAlchemyError as error:
            raise ValueError(f"the database {self.label!r} cannot do it: {type(error).__name__}") from None

    def _guarded(self) -> AbstractContextManager[object]:
        return nullcontext() if isinstance(self._where, Place) else guarded(self._where, [str(self._engine.url.host)])


def _engine(where: Where) -> Engine:
    if isinstance(where, Place):
        url = URL.create("sqlite", database=where.path)
        return create_engine(url, poolclass=NullPool, connect_args={"timeout": _TIMEOUT})
    try:
        url = make_url(where.revealed)
    except (ArgumentError, ValueError):
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
        engine = create_engine(without, poolclass=NullPool, connect_args=_arguments(url))
    except (NoSuchModuleError, ImportError):
        raise NoBehaviour(
            f"the driver for {url.drivername} is not installed; install its package on every worker"
        ) from None
    if url.get_driver_name() == _POSTGRESQL_DRIVER:
        connect_traceless(engine)
    return engine


def _arguments(url: URL) -> dict[str, Any]:
    if url.get_driver_name() != _POSTGRESQL_DRIVER:
        return {"sslmode": url.query["sslmode"]} if "sslmode" in url.query else {}
    arguments: dict[str, Any] = {"timeout": _TIMEOUT}
    match url.query.get("sslmode"):
        case "require":
            arguments["ssl_context"] = True
        case "verify-full":
            arguments["ssl_context"] = ssl.create_default_context()
    return arguments


def _reason(error: DBAPIError) -> str:
    """The message of a driver's error, in one line, without secrets."""
    message = error.orig.args[0] if error.orig is not None and error.orig.args else error.orig
    text = message.get("M", "") if isinstance(message, dict) else str(message)
    return _PASSWORD.sub("//***@", " ".join(text.split())[:300])
