"""What a command that runs on tells: its log, for people on standard error, or for programs as JSON on standard output.

For programs each line is one JSON object: when, how grave, by whom, and the message; what it is about, such as a
request, a dataflow or a job, by its id; and where something happened that they may wait for, its name with its parts.
People read the same, with what it is about in brackets. Processes that such a command starts use the same form.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_NAMED = "told"
"""The attribute of a log record that holds what is for programs."""
_FORM = "BRAID_LOG"
"""In the environment of processes that a command starts, the form of their lines."""
_JSON = "json"
_ABOUT: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)


def begin_log(*, as_json: bool | None = None) -> None:
    """Have all that this process logs told from now on; called once, by commands and by processes that they start.

    Where it is not said in which form, it is that of whoever started this process.
    """
    if as_json is None:
        as_json = os.environ.get(_FORM) == _JSON
    if as_json:
        os.environ[_FORM] = _JSON
    else:
        os.environ.pop(_FORM, None)
    handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
    handler.setFormatter(_Lines() if as_json else _Sentences())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def about(**parts: Any) -> Iterator[None]:
    """Within this, each line tells what it is about, as fields for programs; what is around it stays.

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
    """Learn more of what the innermost `about` is about, for the lines that still come in it, whoever logs them there.

    A thread that does something for it has a copy of its context, so whoever waits for the thread knows it too.
    """
    told = _ABOUT.get()
    if told is not None:
        told.update(parts)


def log_context() -> dict[str, Any]:
    """What a line that is logged now is about."""
    return dict(_ABOUT.get() or {})


def named(event: str, **parts: Any) -> dict[str, Any]:
    """The `extra` of a log message that tells of something by a name that stays the same.

    >>> named("ready", url="http://127.0.0.1:8642")
    {'told': {'event': 'ready', 'url': 'http://127.0.0.1:8642'}}
    """
    return {_NAMED: {"event": event, **parts}}


def problem(code: str, error: Exception) -> dict[str, Any]:
    """The `extra` of the message that says why a command ends."""
    return {_NAMED: {"event": "failed", "problem": {"code": code, "detail": str(error)}}}


class _Lines(logging.Formatter):
    """Each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """As the base class says."""
        told: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_context(),
            **getattr(record, _NAMED, {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


class _Sentences(logging.Formatter):
    """Each record as people read it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(name)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the base class has it
        """As the base class says."""
        parts = " ".join(f"{name}={value}" for name, value in log_context().items())
        return f"{super().formatMessage(record)} [{parts}]" if parts else super().formatMessage(record)
