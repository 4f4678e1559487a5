"""Values of formats that have more kinds of them than JSON, as JSON could hold them."""

import base64
from datetime import date
from typing import Any

from bridge.raw_events import DEEPEST, deeper_than


def untyped(_message: bytes) -> Any:
    """What reads no typed events, so that all are read value by value."""
    raise ValueError


def plain(event: Any) -> Any:
    """An event as JSON could hold it: bytes as base64 text, and times as ISO 8601.

    >>> plain({"picture": b"abc"})
    {'picture': 'YWJj'}
    """
    if deeper_than(event, DEEPEST + 1):
        raise RecursionError
    return _plain(event)


_PLAIN = frozenset({type(None), bool, int, float, str})


def _plain(value: Any) -> Any:
    # By its type, because matching patterns takes three times as long.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        if not all(type(name) is str for name in value):
            odd = next(name for name in value if type(name) is not str)
            raise ValueError(f"the name {odd!r} of a field is not a text")
        return {name: inner if type(inner) in _PLAIN else _plain(inner) for name, inner in value.items()}
    if kind is list:
        return [inner if type(inner) in _PLAIN else _plain(inner) for inner in value]
    if kind is bytes:
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    raise ValueError(f"a value is of the type {kind.__name__}, which JSON does not have")


def shown_value(value: Any) -> str:
    """A value that is unfit, as a text to show."""
    try:
        return repr(value)[:1_000]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too deep or too large to show"
