"""Conversion of texts and JSON values to columns of a kind."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bridge.raw_events import ARROW_TYPES, EARLIEST, LATEST
from dags import Kind

_LONGEST = 100
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def unfit(field: str, value: Any, why: str) -> ValueError:
    """The error for an event with an unfit field."""
    text = repr(value)
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return ValueError(f"the field {field!r} is {text}: {why}")


def texts_of(events: pa.RecordBatch, field: str) -> list[str]:
    """The texts of a field. Raises if one is null."""
    found: list[str | None] = events.column(field).to_pylist()
    if None in found:
        raise unfit(field, None, "it needs a text")
    return [text for text in found if text is not None]


def from_texts(name: str, kind: Kind, texts: Sequence[str | None]) -> pa.Array:
    """Make a column of a kind from texts. Raises if one cannot be read."""
    return _column(name, kind, texts, _OF_TEXT[kind])


def from_json(name: str, kind: Kind, values: Sequence[Any]) -> pa.Array:
    """Make a column of a kind from JSON values. Raises if one is of another kind."""
    return _column(name, kind, values, _OF_JSON[kind])


def number(value: Any) -> float:
    """Convert a number, or its text, to a finite float."""
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("it is not a number")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("it is not finite")
    return found


def milliseconds(value: Any) -> int:
    """Convert a time in milliseconds since 1970, or its text, to an integer."""
    found = int(value) if isinstance(value, int) else _whole(number(value))
    if not EARLIEST <= found <= LATEST:
        raise ValueError("it is not within the years 1 to 9999")
    return found


def _column(name: str, kind: Kind, values: Sequence[Any], read: Callable[[Any], Any]) -> pa.Array:
    found = []
    for value in values:
        try:
            found.append(None if value is None else read(value))
        except (TypeError, ValueError, OverflowError):
            raise unfit(name, value, f"it should be of kind {kind}") from None
    return pa.array(found, pa.int64()).cast(ARROW_TYPES[kind]) if kind is Kind.TIMESTAMP else _array(found, kind)


def _array(values: Sequence[Any], kind: Kind) -> pa.Array:
    return pa.array(values, ARROW_TYPES[kind])


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError("it is not a whole number")
    return int(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    found = value if isinstance(value, int) else _whole(value)
    if not _SMALLEST <= found <= _LARGEST:
        raise OverflowError
    return found


def _integer_text(text: str) -> int:
    if "_" in text:
        raise ValueError
    return _integer(int(text))


def _boolean_text(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in {"true", "false"} else _refuse()


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else _refuse()


def _float(value: Any) -> float:
    return number(value) if isinstance(value, int | float) else _refuse()


def _string(value: Any) -> str:
    return value if isinstance(value, str) else _refuse()


def _time(value: Any) -> int:
    """Milliseconds of a number since 1970, or of an ISO 8601 text, by default in UTC."""
    if not isinstance(value, str):
        return milliseconds(value)
    moment = datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return milliseconds(round((moment - _EPOCH).total_seconds() * 1_000))


def _time_text(text: str) -> int:
    return milliseconds(int(text)) if text.removeprefix("-").isdecimal() else _time(text)


def _json_text(text: str) -> str:
    json.loads(text, parse_constant=_refuse)
    return text


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _refuse(*_: Any) -> Any:
    raise ValueError


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_TEXT: Mapping[Kind, Callable[[str], Any]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean_text,
        Kind.INTEGER: _integer_text,
        Kind.FLOAT: number,
        Kind.STRING: _string,
        Kind.TIMESTAMP: _time_text,
        Kind.JSON: _json_text,
    }
)
_OF_JSON: Mapping[Kind, Callable[[Any], Any]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean,
        Kind.INTEGER: _integer,
        Kind.FLOAT: _float,
        Kind.STRING: _string,
        Kind.TIMESTAMP: _time,
        Kind.JSON: _json,
    }
)
