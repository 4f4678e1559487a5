"""Raw events: plain JSON, one event a message or an array of them, as a registered source's schema says.

Declared fields become columns of their kind; what is not declared stays together in one JSON column. A value of the
wrong kind makes its event unfit, which is told with the reason and keeps no other event back.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from bridge.events.json_columns import marked
from bridge.events.json_depth import DEEPEST, deeper_than
from dags import Kind, Schema

_FAST = msgspec.json.Decoder()
_NUMBERS = (int, float)
_ANYWHERE = range(2, 9_999)
"""The years of which each moment lies in the years 1 to 9999 whatever its zone."""
_TOO_DEEP = f"its objects and arrays lie in each other deeper than {DEEPEST} levels; flatten them"
_Takers = Mapping[str, tuple[Kind, Callable[[Any], object]]]
"""For each field that is declared its kind and what takes a value of it, in the order of the columns."""
EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999
"""The milliseconds since 1970 of the first and the last moment of a timestamp: the years 1 to 9999."""
REST_COLUMN = "_rest"
"""The column of what the schema does not declare."""

ARROW_TYPES: Mapping[Kind, pa.DataType] = MappingProxyType(
    {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.STRING: pa.string(),
        Kind.TIMESTAMP: pa.timestamp("ms", tz="UTC"),
        Kind.JSON: pa.string(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A raw event, or a whole message, that the source's schema cannot take."""

    event: str
    reason: str


class UnfitField(ValueError):
    """A field of an event holds what its kind cannot take."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        super().__init__(f"the field {name!r} should be of kind {kind}")


@lru_cache(maxsize=1_000)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a source's events, in the order of their names, with the rest last."""
    declared = [pa.field(name, ARROW_TYPES[schema.fields[name]]) for name in schema.names()]
    nested = [name for name in schema.names() if schema.fields[name] is Kind.JSON]
    return marked(pa.schema([*declared, pa.field(REST_COLUMN, pa.string())]), nested)


@lru_cache(maxsize=1_000)
def _arrow_row(schema: Schema) -> pa.StructType:
    return pa.struct(list(arrow_schema(schema)))


def events_in(message: bytes, schema: Schema) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of a message as the schema has them, and those that are unfit.

    >>> batch, unfit = events_in(b'[{"t": 1, "x": "y"}, {"t": "warm"}]', Schema.of(t=Kind.FLOAT))
    >>> batch.to_pylist(), unfit[0].reason
    ([{'t': 1.0, '_rest': '{"x":"y"}'}], "the field 't' should be of kind float")
    """
    return all_events_in([message], schema)


def all_events_in(messages: Iterable[bytes], schema: Schema) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of several messages together, because a batch of its own for each would cost more than reading it."""
    takers = _takers(schema)
    rows: list[tuple[object, ...]] = []
    unfit: list[Unfit] = []
    for message in messages:
        try:
            told = _told(message)
        except ValueError as error:
            unfit.append(Unfit(event=_text(message), reason=f"the message is not JSON: {error}"))
            continue
        except RecursionError:
            unfit.append(Unfit(event=_text(message), reason=_TOO_DEEP))
            continue
        except Exception as error:  # noqa: BLE001 - one message must not keep out all that come after it
            unfit.append(Unfit(event=_text(message), reason=f"the message cannot be read: {error!r}"))
            continue
        for event in told if isinstance(told, list) else [told]:
            try:
                rows.append(_row(event, takers))
            except ValueError as error:
                unfit.append(Unfit(event=_shown(event, message), reason=str(error)))
            except RecursionError:
                unfit.append(Unfit(event=_shown(event, message), reason=_TOO_DEEP))
            except Exception as error:  # noqa: BLE001 - as above
                unfit.append(Unfit(event=_shown(event, message), reason=f"the event cannot be read: {error!r}"))
    return pa.RecordBatch.from_struct_array(pa.array(rows, _arrow_row(schema))), tuple(unfit)


def rows_in(events: Iterable[Any], schema: Schema, *, on_unfit: Callable[[int, ValueError], None]) -> pa.RecordBatch:
    """Parsed events as the schema has them; `on_unfit` is told each thing that is unfit, with its event's place.

    >>> told = []
    >>> batch = rows_in([{"t": 1}, {"t": "warm"}], Schema.of(t=Kind.FLOAT), on_unfit=lambda *unfit: told.append(unfit))
    >>> batch.num_rows, told
    (1, [(1, UnfitField("the field 't' should be of kind float"))])
    """
    takers = _takers(schema)
    rows: list[tuple[object, ...]] = []
    for place, event in enumerate(events):
        try:
            rows.append(_row(event, takers))
        except UnfitField:
            for error in _unfit_fields(event, takers):
                on_unfit(place, error)
        except ValueError as error:
            on_unfit(place, error)
        except RecursionError:
            on_unfit(place, ValueError(_TOO_DEEP))
    return pa.RecordBatch.from_struct_array(pa.array(rows, _arrow_row(schema)))


def parsed(message: bytes) -> Any:
    """What a message says; `ValueError` where it is no JSON that events may be."""
    try:
        return _told(message)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _unfit_fields(event: Mapping[str, Any], takers: _Takers) -> Iterator[UnfitField]:
    for name, (kind, taken) in takers.items():
        try:
            if event.get(name) is not None:
                taken(event[name])
        except (TypeError, ValueError, OverflowError, OSError, RecursionError):
            yield UnfitField(name, kind)


def _told(message: bytes) -> Any:
    try:
        return _FAST.decode(message)
    except (ValueError, RecursionError):
        # Not its words: they are less precise, and it refuses the whole message where only one text or number is unfit.
        return json.loads(message, parse_constant=_refuse_constant)


def _text(message: bytes) -> str:
    return message.decode("utf-8", "backslashreplace")


def _shown(event: Any, message: bytes) -> str:
    try:
        return json.dumps(event)
    except RecursionError:
        return _text(message)


@lru_cache(maxsize=1_000)
def _takers(schema: Schema) -> _Takers:
    return {name: (schema.fields[name], _TAKEN[schema.fields[name]]) for name in schema.names()}


def _row(event: Any, takers: _Takers) -> tuple[object, ...]:
    """The values of an event, in the order of the columns."""
    if not isinstance(event, dict):
        raise ValueError("the event is not a JSON object")  # noqa: TRY004 - what is unfit is data, not a wrong call
    row: list[object] = []
    for name, (kind, taken) in takers.items():
        value = event.get(name)
        try:
            row.append(None if value is None else taken(value))
        except (TypeError, ValueError, OverflowError, OSError):
            raise UnfitField(name, kind) from None
    rest = {name: value for name, value in event.items() if name not in takers}
    try:
        row.append(_json(rest) if rest else None)
    except ValueError:
        raise ValueError("an undeclared field holds what JSON cannot write") from None
    return tuple(row)


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


def _timestamp(value: Any) -> datetime:
    """Milliseconds since the epoch, or an ISO 8601 text; without a zone it is UTC."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        # In UTC it may lie in a year that there is none of.
        return moment if moment.year in _ANYWHERE else moment.astimezone(UTC)
    return datetime.fromtimestamp(_integer(value) / 1000, UTC)


def _json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # As writing raises itself, but at a depth that hangs on who calls. To count costs next to nothing, to look a third.
    if text.count("{") + text.count("[") > DEEPEST and deeper_than(value, DEEPEST):
        raise RecursionError
    text.encode("utf-8")
    return text


_TAKEN: Mapping[Kind, Callable[[Any], object]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean,
        Kind.INTEGER: _integer,
        Kind.FLOAT: _float,
        Kind.STRING: _string,
        Kind.TIMESTAMP: _timestamp,
        Kind.JSON: _json,
    }
)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
