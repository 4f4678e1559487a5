"""The values of fields: each kind's check of a parsed JSON value, and what the value is in a column."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from bridge.events.json_depth import DEEPEST, deeper_than
from dags import Kind

EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last time of a timestamp in milliseconds since 1970: the years 1 to 9999."""
_NUMBERS = (int, float)
_ANYWHERE = range(2, 9_999)
"""The years whose times are within the years 1 to 9999 in any zone."""
# Made once, because `json.dumps` would make one for each value.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or value != int(value):
        raise TypeError
    if not -(2**63) <= value < 2**63:
        raise OverflowError
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode("utf-8")
    return value


def _timestamp(value: Any) -> datetime | int:
    """A time in milliseconds since the epoch, or as an ISO 8601 text; without a zone it is UTC."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        # In UTC it may be before the year 1, or after 9999.
        return moment if moment.year in _ANYWHERE else moment.astimezone(UTC)
    milliseconds = _integer(value)
    if not EARLIEST <= milliseconds <= LATEST:
        raise OverflowError
    return milliseconds


def json_text(value: Any) -> str:
    """The value as JSON; raises `ValueError` if it cannot be, and `RecursionError` if it is too deep."""
    text = _ENCODER.encode(value)
    # Writing raises the same error, but at a depth that depends on the caller. Counting brackets costs next to nothing,
    # checking the depth a third of the time.
    if text.count("{") + text.count("[") > DEEPEST and deeper_than(value, DEEPEST):
        raise RecursionError
    text.encode("utf-8")
    return text


CONVERTED: Mapping[Kind, Callable[[Any], object]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean,
        Kind.INTEGER: _integer,
        Kind.FLOAT: _float,
        Kind.STRING: _string,
        Kind.TIMESTAMP: _timestamp,
        Kind.JSON: json_text,
    }
)
"""For each kind, what makes a parsed value one of its column; it raises an error if the value is of another kind."""
