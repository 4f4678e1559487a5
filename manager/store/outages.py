"""Outages: the errors of a database that mean that it is away for now, not that Braid has a defect.

The service answers these with 503, and continues by itself once the database is back. All others stay errors.
"""

import sqlite3
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

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


def outage(error: DBAPIError) -> str | None:
    """Return the database's message if it is away; None for another kind of error."""
    return error_text(error) if _is_wait(error.orig) or _is_away(error.orig) else None


def forget_lost_connections(engine: Engine) -> None:
    """Let an engine reconnect after an outage, even if the driver takes the error for another kind."""
    event.listen(engine, "handle_error", _mark_disconnect)


def error_text(error: BaseException) -> str:
    """Return the database's message for an error, in one line."""
    original = getattr(error, "orig", None) or error
    # PostgreSQL's driver gives the fields of the server's message.
    fields = original.args[0] if original.args else None
    text = str(fields.get("M", fields) if isinstance(fields, dict) else original)
    return text.partition("\n")[0] or type(original).__name__


def _mark_disconnect(context: ExceptionContext) -> None:
    if _is_away(context.original_exception):
        context.is_disconnect = True


def _is_wait(error: BaseException | None) -> bool:
    return _sqlite_code(error) in _SQLITE_WAITED or _postgresql_code(error).startswith(_POSTGRESQL_WAITED)


def _is_away(error: BaseException | None) -> bool:
    return (
        _sqlite_code(error) in _SQLITE_AWAY
        or _postgresql_code(error).startswith(_POSTGRESQL_AWAY)
        # Raised if the server cannot be reached, and if a connection breaks.
        or (type(error).__module__.startswith("pg8000") and type(error).__name__ == "InterfaceError")
    )


def _sqlite_code(error: BaseException | None) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _postgresql_code(error: BaseException | None) -> str:
    fields: Any = error.args[0] if error is not None and error.args else None
    return str(fields.get("C", "")) if isinstance(fields, dict) else ""
