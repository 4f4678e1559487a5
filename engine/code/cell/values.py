"""The values of fields as published code gets and gives them, by kind.

Between processes a time is an integer of milliseconds since 1970, and JSON is a text.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class WrongOutput(ValueError):
    """The code gives something else than it declares."""


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


GIVEN: Mapping[str, Callable[[Any], Any]] = {"timestamp": _time, "json": json.loads}
"""What makes the values that code gets, for the kinds whose values it does not get as they are."""


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise TypeError


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and _SMALLEST <= value <= _LARGEST:
        return int(value)
    raise TypeError


def _float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise TypeError


def _string(value: Any) -> str:
    if isinstance(value, str):
        value.encode()
        return str(value)
    raise TypeError


def _milliseconds(value: Any) -> int:
    if isinstance(value, datetime):
        # Without a zone it is UTC, as in raw events.
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    raise TypeError


def _json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


_TAKEN: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "float": _float,
    "string": _string,
    "timestamp": _milliseconds,
    "json": _json,
}


def taken(name: str, kind: str, value: Any) -> Any:
    """A value that code gives, checked against its kind. Raises `WrongOutput`.

    >>> taken("warmth", "float", 20), taken("at", "timestamp", datetime(1970, 1, 2))
    (20.0, 86400000)
    """
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = value.item()
    try:
        return _TAKEN[kind](value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise WrongOutput(f"the field {name!r} should be of kind {kind}, and is a {type(value).__name__}") from None
