"""Outages: which of a database's errors mean that it is away for now, and not that something is wrong with Braid.

The service answers those with 503 and goes on by itself once the database is back. All others stay errors.
"""

import sqlite3
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

_PRIMARY = 0xFF
"""SQLite's extended codes have the general one in their last byte."""
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
"""Deadlocks and the like; a lock that was not to be had in time."""
_POSTGRESQL_AWAY = ("08", "25006", "25P03", "28", "3D", "53", "57P", "58")
"""The beginnings of its codes for: a lost connection, a copy that takes no changes, a transaction that stood still, a
user that is not let in, a database that is gone, disk or memory or connections used up, a server that stops or starts,
and input and output that failed."""


def outage(error: DBAPIError) -> str | None:
    """Why a database is away, in its own words; None where the error is of another kind."""
    return said(error) if _is_wait(error.orig) or _is_away(error.orig) else None


def forget_lost_connections(engine: Engine) -> None:
    """Have an engine connect anew after an outage, whatever the driver makes of the error."""
    event.listen(engine, "handle_error", _judge)


def said(error: BaseException) -> str:
    """What a database says of an error, in one line."""
    told = getattr(error, "orig", None) or error
    # PostgreSQL's driver gives the fields of the server's message.
    fields = told.args[0] if told.args else None
    text = str(fields.get("M", fields) if isinstance(fields, dict) else told)
    return text.partition("\n")[0] or type(told).__name__


def _judge(context: ExceptionContext) -> None:
    if _is_away(context.original_exception):
        context.is_disconnect = True


def _is_wait(error: BaseException | None) -> bool:
    return _sqlite_code(error) in _SQLITE_WAITED or _postgresql_code(error).startswith(_POSTGRESQL_WAITED)


def _is_away(error: BaseException | None) -> bool:
    return (
        _sqlite_code(error) in _SQLITE_AWAY
        or _postgresql_code(error).startswith(_POSTGRESQL_AWAY)
        # It says so of a server that cannot be reached, and of a connection that broke.
        or (type(error).__module__.startswith("pg8000") and type(error).__name__ == "InterfaceError")
    )


def _sqlite_code(error: BaseException | None) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _postgresql_code(error: BaseException | None) -> str:
    fields: Any = error.args[0] if error is not None and error.args else None
    return str(fields.get("C", "")) if isinstance(fields, dict) else ""
