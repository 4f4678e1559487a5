"""Connections to PostgreSQL that close without a trace, whatever became of the server.

The driver leaves what it could not send in a buffer. From Python 3.13 on, the garbage collector reports that it cannot
be sent then either, on the standard error and at any later time.
"""

from contextlib import suppress
from typing import Any

from pg8000.dbapi import Connection, InterfaceError
from sqlalchemy import Engine, event


class PostgresqlConnection(Connection):  # type: ignore[misc] # the driver has no types
    """A connection of the driver that closes its socket and its buffers by itself, also if the server refuses it."""

    _sock: Any = None
    """The buffers."""
    _usock: Any = None
    """The socket."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        try:
            super().__init__(*arguments, **options)
        except BaseException:
            # The driver closes a connection only if it is refused after its first message.
            if self._usock is not None:
                self.close()
            raise

    def close(self) -> None:
        """Close the connection; one whose server has gone is closed without a farewell."""
        buffers = self._sock
        try:
            super().close()
        except InterfaceError:
            if buffers is None:
                raise
        finally:
            if buffers is not None:
                with suppress(OSError):
                    buffers.close()


def connect_traceless(engine: Engine) -> None:
    """Let an engine with the driver `pg8000` make such connections."""
    event.listen(
        engine, "do_connect", lambda _dialect, _record, given, options: PostgresqlConnection(*given, **options)
    )
