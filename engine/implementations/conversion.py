"""Reading values of a kind from texts and from JSON, as the parsing tasks do."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bridge.events.raw_events import ARROW_TYPES, EARLIEST, LATEST
from dags import Kind

_LONGEST = 100
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def unfit(field: str, value: Any, why: str) -> ValueError:
    """What a task raises for an event whose field it cannot take."""
    told = repr(value)
    told = told if len(told) <= _LONGEST else told[:_LONGEST] + "…"
    return ValueError(f"the field {field!r} is {told}: {why}")


def from_texts(name: str, kind: Kind, texts: Sequence[str | None]) -> pa.Array:
    """A column of a kind, of values that are written as texts; raises where one cannot be read."""
    return _column(name, kind, texts, _OF_TEXT[kind])


def from_json(name: str, kind: Kind, values: Sequence[Any]) -> pa.Array:
    """A column of a kind, of values as JSON has them; raises where one is of another kind."""
    return _column(name, kind, values, _OF_JSON[kind])


def number(value: Any) -> float:
    """A finite number, or a text that is one."""
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("it is no number")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("it is not finite")
    return found


def milliseconds(value: Any) -> int:
    """A time in milliseconds since 1970, or a text that is one."""
    found = int(value) if isinstance(value, int) else _whole(number(value))
    if not EARLIEST <= found <= LATEST:
        raise ValueError("it lies outside of the years 1 to 9999")
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
        raise ValueError("it is no whole number")
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
    """Milliseconds since 1970, or an ISO 8601 text; without a zone it is UTC."""
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
