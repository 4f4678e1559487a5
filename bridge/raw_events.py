"""Raw events: plain JSON, one event or an array of them in a message, read as columns of a source's schema.

Declared fields become columns of their kind; undeclared ones stay together in one JSON column. JSON columns are text
columns that are marked in the metadata of their fields. A value of the wrong kind makes its event unfit, which is
reported with the reason and affects no other event.

In nearly all events all values are of their declared kinds, and no field is undeclared. These *typed* events are read
straight into places for their fields, which takes a fifth of the time of reading them value by value. All others are
refused there without a reason, and read in the other way, which finds the reason.

A message of 8 MB can hold an array of millions of events, or one event as large as itself. So the events of a large
message are counted and measured before they are read, which takes a tenth of the time and no memory for each.

Writers and readers of JSON use a stack frame for each level, and how many there are depends on the caller. So events
that are nested too deep are refused where they come in, by a fixed limit.
"""

import gc
import json
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE, MOST_RAW_EVENTS, MOST_UNFIT_REPORTED
from dags import Kind, Schema

DEEPEST = 100
"""Levels of JSON in a field of a raw event, or in all its undeclared fields together."""
DEEPEST_PARKED = 200
"""Levels of parked events that come back: a task may have wrapped them."""


def deeper_than(value: Any, most: int) -> bool:
    """True if lists and objects are nested deeper than so many levels. Any depth can be checked.

    >>> deeper_than({"a": [1]}, 2), deeper_than({"a": [[]]}, 2)
    (False, True)
    """
    level = [value]
    for _ in range(most + 1):
        level = [outer for outer in level if isinstance(outer, list | dict)]
        if not level:
            return False
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return True


_MARK = {b"kind": b"json"}


def marked(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema with exactly these fields marked as JSON.

    >>> json_columns(marked(pa.schema({"a": pa.string(), "b": pa.string()}), ["b"]))
    frozenset({'b'})
    """
    return pa.schema([field.with_metadata(_MARK if field.name in names else None) for field in schema])


def json_columns(schema: pa.Schema) -> frozenset[str]:
    """The fields that are marked as JSON."""
    return frozenset(field.name for field in schema if field.metadata and field.metadata.get(b"kind") == b"json")


EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last time of a timestamp in milliseconds since 1970: the years 1 to 9999."""
_NUMBERS = (int, float)
_ANYWHERE = range(2, 9_999)
"""The years whose times are within the years 1 to 9999 in any zone."""
# Made once, because `json.dumps` would make one for each value.
JSON_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


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
    text = JSON_ENCODER.encode(value)
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


_TEXTS = msgspec.json.Decoder(list[msgspec.Raw])
_SURELY_FINE = 2 * MOST_RAW_EVENTS
"""Bytes of a message that can hold neither too many events nor a too large one: an event takes one, and a comma."""


class TooMuch(ValueError):
    """A message that is refused as a whole."""


def check_size(message: bytes) -> None:
    """Refuse a message that is too large, with `TooMuch`."""
    if (size := len(message)) > LARGEST_RAW_MESSAGE:
        raise TooMuch(f"the message has {size:,} bytes, and may have {LARGEST_RAW_MESSAGE:,}; send several")


def check_count(count: int) -> None:
    """Refuse a message of so many events if that is too many, with `TooMuch`."""
    if count > MOST_RAW_EVENTS:
        raise TooMuch(f"the message has {count:,} events, and may have {MOST_RAW_EVENTS:,}; send several")


def why_too_large(size: int) -> str:
    """The reason why an event of so many bytes is unfit."""
    return f"the event has {size:,} bytes, and may have {LARGEST_EVENT:,}; send less in one event"


def texts_to_read(message: bytes) -> list[bytes] | None:
    """The texts of a message's events if some of them are too large; None if the message can be read as a whole.

    Raises `TooMuch` for a message that is too large, or has too many events.

    >>> texts_to_read(b'[{"t": 1}, {}]') is None
    True
    """
    size = len(message)
    if size <= _SURELY_FINE:
        return None
    check_size(message)
    if size <= LARGEST_EVENT and message.count(b",") < MOST_RAW_EVENTS:
        return None
    try:
        texts = _TEXTS.decode(message)
    except msgspec.ValidationError:
        # No array, so one event.
        return [message] if size > LARGEST_EVENT else None
    except (msgspec.DecodeError, RecursionError) as error:
        raise TooMuch(f"the message is not JSON: {error}") from None
    check_count(len(texts))
    if max((memoryview(text).nbytes for text in texts), default=0) <= LARGEST_EVENT:
        return None
    return [bytes(text) for text in texts]


_TYPES: Mapping[Kind, Any] = MappingProxyType(
    {
        Kind.BOOLEAN: bool | None,
        Kind.INTEGER: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
        Kind.FLOAT: float | None,
        Kind.STRING: str | None,
        Kind.TIMESTAMP: int | str | None,
        Kind.JSON: Any,
    }
)
_UNFINISHED = frozenset({Kind.TIMESTAMP, Kind.JSON})
"""The kinds whose values have to be converted after they were read."""
_UNDECLARED = "undeclared"
_UNREADABLE = re.compile(r'["\\\x00-\x1f]')
"""The characters of names that JSON writes in another way, which msgspec does not read as names of fields."""


def untyped(_message: bytes) -> Any:
    """What reads no typed events, so that all are read value by value."""
    raise ValueError


class TypedEvents:
    """The events of one schema as objects; made by `typed_events`."""

    def __init__(self, schema: Schema) -> None:
        kinds = [schema.fields[name] for name in schema.names()]
        # Names of fields may be any text.
        names = {f"field{at}": name for at, name in enumerate(schema.names())}
        fields = [(name, _TYPES[kind], None) for name, kind in zip(names, kinds, strict=True)]
        # No value in JSON is of this type, so the field is only set by the constructor.
        fields.append((_UNDECLARED, msgspec.UnsetType, None))
        names[_UNDECLARED] = max(schema.names(), default="") + "_"
        self._is_readable = not any(map(_UNREADABLE.search, schema.names()))
        self.event: Callable[..., Any] = msgspec.defstruct(
            "Event", fields, rename=names if self._is_readable else None, forbid_unknown_fields=True, gc=False
        )
        """Makes an event of the values of its columns; the last one is the text of its undeclared fields."""
        self.content: Any = self.event | list[self.event]  # type: ignore[name-defined]  # it is a class
        """The type of a message: an event, or a list of them."""
        self._checks = [
            (name, CONVERTED[kind]) for name, kind in zip(names, kinds, strict=False) if kind in _UNFINISHED
        ]
        self._columns = [attrgetter(name) for name in names]
        self.read = self.reading(msgspec.json.Decoder(self.content).decode)
        """Reads a message of JSON; raises an error if an event of it is not typed."""

    def reading(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """What reads a message, by what decodes it to an event or a list of them; raises an error as `decode` does."""
        if not self._is_readable:
            return untyped
        if not self._checks:
            return decode

        def checked(message: bytes) -> Any:
            content = decode(message)
            for event in content if isinstance(content, list) else [content]:
                for name, converted in self._checks:
                    if (value := getattr(event, name)) is not None:
                        setattr(event, name, converted(value))
            return content

        return checked

    def batch(self, events: Sequence[Any], columns: pa.Schema) -> pa.RecordBatch:
        """Events as columns."""
        # Column by column, because rows as a whole would take twice as long.
        arrays = [
            pa.array(list(map(values, events)), field.type)
            for field, values in zip(columns, self._columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)


@lru_cache(maxsize=1_000)
def typed_events(schema: Schema) -> TypedEvents:
    """The events of a schema.

    >>> typed = typed_events(Schema.of(at=Kind.TIMESTAMP, t=Kind.FLOAT))
    >>> typed.read(b'[{"t": 1}, {"at": 5}]')
    [Event(field0=None, field1=1.0, undeclared=None), Event(field0=5, field1=None, undeclared=None)]
    """
    return TypedEvents(schema)


_FAST = msgspec.json.Decoder()
_TOO_DEEP = f"its objects and arrays are nested deeper than {DEEPEST} levels; flatten them"
_SHOWN = 1_000
"""Bytes that are shown of a message or event that is not read."""
_Converters = Mapping[str, tuple[Kind, Callable[[Any], object]]]
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


class _Collecting:
    """Python's search for garbage in this process, which may be paused by several threads at once.

    A message of 8 MB can hold millions of lists. The search looks at them again and again while they are made, which
    takes four times as long as to read them, and there is no garbage among them.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._pauses = 0
        self._was_enabled = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Search for no garbage meanwhile."""
        with self._changing:
            if not self._pauses:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._changing:
                self._pauses -= 1
                if not self._pauses and self._was_enabled:
                    gc.enable()


_COLLECTING = _Collecting()
_NO_PAUSE = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReading:
    """The ways to read the messages of a format as events of a schema."""

    parts: Callable[[bytes, list[Unfit]], Iterable[bytes]]
    """What is read of a message, each part at once: all of it, or less if some of it is too large, which is noted."""
    read: Callable[[bytes], Any]
    """Reads the typed event or events of a part; raises an error if one of them is not typed."""
    values: Callable[[bytes, list[Unfit]], Iterable[Any]]
    """Reads the events of such a part as objects, or what else there is; what cannot be read is noted."""


def events_in(
    messages: Iterable[bytes], schema: Schema, ends: list[int] | None = None
) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of messages of JSON as a schema's columns, and those that are unfit.

    All are in one batch, because one for each message would cost more than reading it. `ends` gets for each message how
    many events there are up to its end.

    >>> batch, unfit = events_in([b'[{"t": 1, "x": "y"}, {"t": "warm"}]'], Schema.of(t=Kind.FLOAT))
    >>> batch.to_pylist(), unfit[0].reason
    ([{'t': 1.0, '_rest': '{"x":"y"}'}], "the field 't' should be of kind float")
    """
    reading = MessageReading(parts=_readable, read=typed_events(schema).read, values=values_in)
    return events_by(reading, messages, schema, ends)


def events_by(
    reading: MessageReading, messages: Iterable[bytes], schema: Schema, ends: list[int] | None = None
) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of messages as a schema's columns, and those that are unfit, by the reading of their format."""
    typed, converters = typed_events(schema), _converters(schema)
    parts, read, values = reading.parts, reading.read, reading.values
    events: list[Any] = []
    unfit: list[Unfit] = []
    for message in messages:
        refused: list[Unfit] = []
        with _NO_PAUSE if len(message) <= _SURELY_FINE else _COLLECTING.paused():
            for part in parts(message, refused):
                try:
                    content = read(part)
                except Exception:  # noqa: BLE001 - value by value, it shows what is unfit, or that nothing is
                    content = [typed.event(*row) for row in _rows(part, values, converters, refused)]
                if isinstance(content, list):
                    events += content
                else:
                    events.append(content)
        unfit += together(refused)
        if ends is not None:
            ends.append(len(events))
    return typed.batch(events, arrow_schema(schema)), tuple(unfit)


def too_much(message: bytes, error: TooMuch) -> Unfit:
    """A whole message that is refused."""
    return Unfit(event=shown_text(message[:_SHOWN]), reason=str(error))


def _readable(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
    """What is read of a message: all of it at once, or its events one by one if some are too large."""
    try:
        texts = texts_to_read(message)
    except TooMuch as error:
        unfit.append(too_much(message, error))
        return ()
    if texts is None:
        return (message,)
    readable = []
    for text in texts:
        reason = ""
        if len(text) > LARGEST_EVENT:
            reason = why_too_large(len(text))
        elif text.startswith(b"["):
            reason = "the event is not a JSON object"
        if reason:
            unfit.append(Unfit(event=shown_text(text[:_SHOWN]), reason=reason))
        else:
            readable.append(text)
    return readable


def together(unfit: list[Unfit]) -> list[Unfit]:
    """What is unfit in one message, with what comes after the first in one: each is a message of its own."""
    rest = unfit[MOST_UNFIT_REPORTED:]
    if len(rest) <= 1:
        return unfit
    more = f"this and {len(rest) - 1:,} more events of the message are unfit; of this one: {rest[0].reason}"
    return [*unfit[:MOST_UNFIT_REPORTED], Unfit(event=rest[0].event, reason=more, count=len(rest))]


def values_in(message: bytes, unfit: list[Unfit]) -> Sequence[Any]:
    """What a message of JSON holds; it is noted as unfit if it is not JSON."""
    try:
        content = _content(message)
    except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
        reason = why_unread(error, "message", "the message is not JSON: ")
        unfit.append(Unfit(event=shown_text(message), reason=reason))
        return ()
    return content if isinstance(content, list) else (content,)


def _rows(
    message: bytes,
    values: Callable[[bytes, list[Unfit]], Iterable[Any]],
    converters: _Converters,
    unfit: list[Unfit],
) -> Iterator[tuple[object, ...]]:
    """The values of a message's events; those that are unfit are added to a list."""
    for event in values(message, unfit):
        try:
            yield _row(event, converters)
        except Exception as error:  # noqa: BLE001 - as above
            unfit.append(Unfit(event=_shown(event, message), reason=why_unread(error, "event")))


def why_unread(error: Exception, what: str, prefix: str = "") -> str:
    """The reason why a message or an event is unfit, by the error of whatever read it."""
    if isinstance(error, ValueError):
        return f"{prefix}{error}"
    return _TOO_DEEP if isinstance(error, RecursionError) else f"the {what} cannot be read: {error!r}"


def rows_in(events: Iterable[Any], schema: Schema, *, on_unfit: Callable[[int, ValueError], None]) -> pa.RecordBatch:
    """Parsed events as a schema's columns; `on_unfit` gets each unfit value with its event's place.

    >>> unfit = []
    >>> schema = Schema.of(t=Kind.FLOAT)
    >>> batch = rows_in([{"t": 1}, {"t": "warm"}], schema, on_unfit=lambda *value: unfit.append(value))
    >>> batch.num_rows, unfit
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


def shown_text(message: bytes) -> str:
    """A message that is not read, as a text to show."""
    return message.decode("utf-8", "backslashreplace")


def _shown(event: Any, message: bytes) -> str:
    try:
        return json.dumps(event)
    except RecursionError:
        return shown_text(message)


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
