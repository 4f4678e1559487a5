"""Raw events: plain JSON, one event or an array of events in a message, by the schema of a registered source.

Declared fields become columns of their kind; undeclared fields stay together in one JSON column. A value of the wrong
kind makes its event unfit, which is reported with the reason and affects no other event.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from bridge.events.field_values import CONVERTED, json_text
from bridge.events.json_columns import marked
from bridge.events.json_depth import DEEPEST
from bridge.events.raw_texts import TooMuch, texts_to_read, why_too_large
from bridge.events.typed_events import typed_events
from bridge.message_bounds import MOST_UNFIT_REPORTED
from dags import Kind, Schema

_FAST = msgspec.json.Decoder()
_TOO_DEEP = f"its objects and arrays are nested deeper than {DEEPEST} levels; flatten them"
_SHOWN = 1_000
"""Bytes that are shown of a message or event that is not read."""
_Converters = Mapping[str, tuple[Kind, Callable[[Any], object]]]
"""The kind and the converter of each declared field, in the order of the columns."""
REST_COLUMN = "_rest"
"""The column of the fields that the schema does not declare."""

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
    """A raw event, or a whole message, that does not fit the source's schema."""

    event: str
    reason: str
    count: int = 1
    """The number of events that it stands for."""


class UnfitField(ValueError):
    """A field of an event whose value is not of its kind."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        super().__init__(f"the field {name!r} should be of kind {kind}")


@lru_cache(maxsize=1_000)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a source's events, sorted by name, with the column of undeclared fields last."""
    declared = [pa.field(name, ARROW_TYPES[schema.fields[name]]) for name in schema.names()]
    nested = [name for name in schema.names() if schema.fields[name] is Kind.JSON]
    return marked(pa.schema([*declared, pa.field(REST_COLUMN, pa.string())]), nested)


def events_in(message: bytes, schema: Schema) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of a message as a schema's columns, and those that are unfit.

    >>> batch, unfit = events_in(b'[{"t": 1, "x": "y"}, {"t": "warm"}]', Schema.of(t=Kind.FLOAT))
    >>> batch.to_pylist(), unfit[0].reason
    ([{'t': 1.0, '_rest': '{"x":"y"}'}], "the field 't' should be of kind float")
    """
    return all_events_in([message], schema)


def all_events_in(messages: Iterable[bytes], schema: Schema) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of several messages in one batch, because a batch for each would cost more than reading it."""
    typed, converters = typed_events(schema), _converters(schema)
    read = typed.read
    events: list[Any] = []
    unfit: list[Unfit] = []
    for message in messages:
        found: list[Unfit] = []
        for text in _readable(message, found):
            try:
                content = read(text)
            except Exception:  # noqa: BLE001 - value by value, it shows what is unfit, or that nothing is
                content = [typed.event(*row) for row in _rows(text, converters, found)]
            if isinstance(content, list):
                events += content
            else:
                events.append(content)
        unfit += _together(found)
    return typed.batch(events, arrow_schema(schema)), tuple(unfit)


def _readable(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
    """What is read of a message: all of it at once, or its events one by one if some are too large."""
    try:
        texts = texts_to_read(message)
    except TooMuch as error:
        unfit.append(Unfit(event=_text(message[:_SHOWN]), reason=str(error)))
        return ()
    if texts is None:
        return (message,)
    readable = []
    for text in texts:
        if reason := why_too_large(text) or ("the event is not a JSON object" if text.startswith(b"[") else ""):
            unfit.append(Unfit(event=_text(text[:_SHOWN]), reason=reason))
        else:
            readable.append(text)
    return readable


def _together(unfit: list[Unfit]) -> list[Unfit]:
    """What is unfit in one message, with what comes after the first in one: each is a message of its own."""
    rest = unfit[MOST_UNFIT_REPORTED:]
    if len(rest) <= 1:
        return unfit
    more = f"this and {len(rest) - 1:,} more events of the message are unfit; of this one: {rest[0].reason}"
    return [*unfit[:MOST_UNFIT_REPORTED], Unfit(event=rest[0].event, reason=more, count=len(rest))]


def _rows(message: bytes, converters: _Converters, unfit: list[Unfit]) -> Iterator[tuple[object, ...]]:
    """The values of a message's events; those that are unfit are added to a list."""
    try:
        content = _content(message)
    except ValueError as error:
        unfit.append(Unfit(event=_text(message), reason=f"the message is not JSON: {error}"))
        return
    except RecursionError:
        unfit.append(Unfit(event=_text(message), reason=_TOO_DEEP))
        return
    except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
        unfit.append(Unfit(event=_text(message), reason=f"the message cannot be read: {error!r}"))
        return
    for event in content if isinstance(content, list) else [content]:
        try:
            yield _row(event, converters)
        except ValueError as error:
            unfit.append(Unfit(event=_shown(event, message), reason=str(error)))
        except RecursionError:
            unfit.append(Unfit(event=_shown(event, message), reason=_TOO_DEEP))
        except Exception as error:  # noqa: BLE001 - as above
            unfit.append(Unfit(event=_shown(event, message), reason=f"the event cannot be read: {error!r}"))


def rows_in(events: Iterable[Any], schema: Schema, *, on_unfit: Callable[[int, ValueError], None]) -> pa.RecordBatch:
    """Parsed events as a schema's columns; `on_unfit` gets each unfit value with its event's place.

    >>> found = []
    >>> batch = rows_in([{"t": 1}, {"t": "warm"}], Schema.of(t=Kind.FLOAT), on_unfit=lambda *unfit: found.append(unfit))
    >>> batch.num_rows, found
    (1, [(1, UnfitField("the field 't' should be of kind float"))])
    """
    converters, typed = _converters(schema), typed_events(schema)
    rows: list[Any] = []
    for place, event in enumerate(events):
        try:
            rows.append(typed.event(*_row(event, converters)))
        except UnfitField:
            for error in _unfit_fields(event, converters):
                on_unfit(place, error)
        except ValueError as error:
            on_unfit(place, error)
        except RecursionError:
            on_unfit(place, ValueError(_TOO_DEEP))
    return typed.batch(rows, arrow_schema(schema))


def parsed(message: bytes) -> Any:
    """The JSON value of a message; raises `ValueError` if it is no JSON, or too deep."""
    try:
        return _content(message)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _unfit_fields(event: Mapping[str, Any], converters: _Converters) -> Iterator[UnfitField]:
    for name, (kind, converted) in converters.items():
        try:
            if event.get(name) is not None:
                converted(event[name])
        except (TypeError, ValueError, OverflowError, OSError, RecursionError):
            yield UnfitField(name, kind)


def _content(message: bytes) -> Any:
    try:
        return _FAST.decode(message)
    except (ValueError, RecursionError):
        # Its errors are less precise, and it refuses the whole message for a single unfit text or number.
        return json.loads(message, parse_constant=_refuse_constant)


def _text(message: bytes) -> str:
    return message.decode("utf-8", "backslashreplace")


def _shown(event: Any, message: bytes) -> str:
    try:
        return json.dumps(event)
    except RecursionError:
        return _text(message)


@lru_cache(maxsize=1_000)
def _converters(schema: Schema) -> _Converters:
    return {name: (schema.fields[name], CONVERTED[schema.fields[name]]) for name in schema.names()}


def _row(event: Any, converters: _Converters) -> tuple[object, ...]:
    """The values of an event, in the order of the columns."""
    if not isinstance(event, dict):
        raise ValueError("the event is not a JSON object")  # noqa: TRY004 - the data is wrong, not the call
    row: list[object] = []
    for name, (kind, converted) in converters.items():
        value = event.get(name)
        try:
            row.append(None if value is None else converted(value))
        except (TypeError, ValueError, OverflowError, OSError):
            raise UnfitField(name, kind) from None
    rest = {name: value for name, value in event.items() if name not in converters}
    try:
        row.append(json_text(rest) if rest else None)
    except ValueError:
        raise ValueError("an undeclared field holds a value that JSON cannot represent") from None
    return tuple(row)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
