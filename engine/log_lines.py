"""The log of a long-running command: text for people on standard error, or JSON for programs on standard output.

In JSON, each line is an object with the time, level, logger and message; the ids of its subject, such as a request,
dataflow or job; the ids of its trace, where there are traces; and the name and parts of an event that programs may wait
for. The text shows the subject in brackets. Processes that such a command starts use the same format.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from bridge.traces import trace_ids

_FIELDS = "log_fields"
"""The attribute of a log record with the fields for programs."""
_FORMAT = "BRAID_LOG"
"""The environment variable with the log format, for processes that a command starts."""
_JSON = "json"
_MOST_BYTES = 16_000_000
"""The size at which a log file is begun anew."""
_ABOUT: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)


def begin_log(*, as_json: bool | None = None) -> None:
    """Start the log of this process; by default in the format of its parent."""
    if as_json is None:
        as_json = os.environ.get(_FORMAT) == _JSON
    if as_json:
        os.environ[_FORMAT] = _JSON
    else:
        os.environ.pop(_FORMAT, None)
    handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
    handler.setFormatter(_Lines() if as_json else _Sentences("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def keep_log(path: Path) -> None:
    """Write the log of this process to a file too, which is begun anew when it is large; the one before is kept."""
    handler = RotatingFileHandler(path, maxBytes=_MOST_BYTES, backupCount=1, errors="backslashreplace")
    root = logging.getLogger()
    handler.setFormatter(root.handlers[0].formatter)
    root.addHandler(handler)


@contextmanager
def about(**parts: Any) -> Iterator[None]:
    """Add these ids to each line logged within the context, besides those of the contexts around it.

    >>> with about(job="7"), about(dataflow="d-1"):
    ...     log_context()
    {'job': '7', 'dataflow': 'd-1'}
    """
    outer = _ABOUT.set({**log_context(), **parts})
    try:
        yield
    finally:
        _ABOUT.reset(outer)


def note(**parts: Any) -> None:
    """Add ids to the innermost `about`, for all later lines in it, also those of code that waits for this thread."""
    ids = _ABOUT.get()
    if ids is not None:
        ids.update(parts)


def log_context() -> dict[str, Any]:
    """The ids of a line that is logged now."""
    return dict(_ABOUT.get() or {})


def named(event: str, **parts: Any) -> dict[str, Any]:
    """The `extra` of a log message about an event with a stable name.

    >>> named("ready", url="http://127.0.0.1:8642")
    {'log_fields': {'event': 'ready', 'url': 'http://127.0.0.1:8642'}}
    """
    return {_FIELDS: {"event": event, **parts}}


def problem(code: str, error: Exception) -> dict[str, Any]:
    """The `extra` of the message with the reason for which a command ends."""
    return named("failed", problem={"code": code, "detail": str(error)})


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_context(),
            **trace_ids(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


class _Sentences(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the base class has it
        parts = " ".join(f"{name}={value}" for name, value in (log_context() | trace_ids()).items())
        return f"{super().formatMessage(record)} [{parts}]" if parts else super().formatMessage(record)
