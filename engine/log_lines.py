"""What a command that runs on tells: its log, for people on standard error, or for programs as JSON on standard output.

For programs each line is one JSON object: when, how grave, by whom, and the message. Where something happened that they
may wait for, it has a name and its parts beside that.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_NAMED = "told"
"""The attribute of a log record that holds what is for programs."""


def begin_log(*, as_json: bool) -> None:
    """Have all that this process logs told from now on; called by commands, once."""
    if not as_json:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
        return
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


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
            **getattr(record, _NAMED, {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)
