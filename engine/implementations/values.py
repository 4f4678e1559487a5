"""The values of events: how tasks read, check and convert them, group them by key, and put them into fields.

Values are converted from texts, from JSON values, and from the contents of files, which are texts or base64. What
cannot be read is refused with the name of its field.

Batches are sorted by the key of the state, and blocks are a fixed number of successive events of a key.

Tasks that write outside pass events on with a receipt, which is the place where an event was written.
"""

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridge.raw_events import ARROW_TYPES, EARLIEST, LATEST
from dags import Config, Kind, Secret
from dags.config import Where
from engine.behaviour import Behaviour, PortEmission
from engine.records.state import Staged
from engine.tasks.outside import RECEIPT, Encoding

C = TypeVar("C", bound=Config)


def one_port(run: Callable[[C, pa.RecordBatch, Staged], PortEmission]) -> Callable[[C], Behaviour]:
    """Make behaviours of a function that takes the events of the only input port, and emits at the port `out`."""

    @wraps(run)
    def make(config: C) -> Behaviour:
        return lambda _port, events, state: {"out": run(config, events, state)}

    return make


_LONGEST = 100
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def unfit(field: str, value: Any, why: str) -> ValueError:
    """The error for an event with an unfit field."""
    text = repr(value)
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return ValueError(f"the field {field!r} is {text}: {why}")


def texts_of(events: pa.RecordBatch, field: str) -> list[str]:
    """The texts of a field. Raises if one is null."""
    check_present(events, field)
    texts: list[str] = events.column(field).to_pylist()
    return texts


def from_texts(name: str, kind: Kind, texts: Sequence[str | None]) -> pa.Array:
    """Make a column of a kind from texts. Raises if one cannot be read."""
    return _column(name, kind, texts, _READERS[kind][0])


def from_json(name: str, kind: Kind, values: Sequence[Any]) -> pa.Array:
    """Make a column of a kind from JSON values. Raises if one is of another kind."""
    return _column(name, kind, values, _READERS[kind][1])


def number(value: Any) -> float:
    """Convert a number, or its text, to a finite float."""
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("it is not a number")
    converted = float(value)
    if not math.isfinite(converted):
        raise ValueError("it is not finite")
    return converted


def milliseconds(value: Any) -> int:
    """Convert a time in milliseconds since 1970, or its text, to an integer."""
    moment = int(value) if isinstance(value, int) else _whole(number(value))
    if not EARLIEST <= moment <= LATEST:
        raise ValueError("it is not within the years 1 to 9999")
    return moment


def _column(name: str, kind: Kind, values: Sequence[Any], read: Callable[[Any], Any]) -> pa.Array:
    column = []
    for value in values:
        try:
            column.append(None if value is None else read(value))
        except (TypeError, ValueError, OverflowError):
            raise unfit(name, value, f"it should be of kind {kind}") from None
    return restored(column, ARROW_TYPES[kind])


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError("it is not a whole number")
    return int(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse()
    converted = value if isinstance(value, int) else _whole(value)
    return converted if _SMALLEST <= converted <= _LARGEST else _refuse()


def _integer_text(text: str) -> int:
    return _refuse() if "_" in text else _integer(int(text))


def _boolean_text(text: str) -> bool:
    return text == "true" if text in {"true", "false"} else _refuse()


def _of_type(type_: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, type_) else _refuse()


def _float(value: Any) -> float:
    return number(value) if isinstance(value, int | float) else _refuse()


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
_READERS: Mapping[Kind, tuple[Callable[[str], Any], Callable[[Any], Any]]] = {
    Kind.BOOLEAN: (_boolean_text, _of_type(bool)),
    Kind.INTEGER: (_integer_text, _integer),
    Kind.FLOAT: (number, _float),
    Kind.STRING: (_of_type(str), _of_type(str)),
    Kind.TIMESTAMP: (_time_text, _time),
    Kind.JSON: (_json_text, _json),
}
"""The functions that read a value of each kind from a text, and from a JSON value."""


Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")


class Floating(NamedTuple):
    """A field's numbers as floats; made by `floats`."""

    values: Floats
    """Any number where the value is null."""
    present: Flags


def floats(events: pa.RecordBatch, field: str) -> Floating:
    """The numbers of a field. Raises if one is not finite, or if they are not numbers."""
    column = events.column(field)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise ValueError(
            f"the field {field!r} is of type {column.type}, not a number; choose a field of kind float or integer"
        )
    if column.type == pa.float64() and not column.null_count:
        # With few events, each call of Arrow costs more than their values do.
        values = column.to_numpy()
        _check(field, values)
        return Floating(values, np.ones(len(column), bool))
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    _check(field, values)
    return Floating(values, present)


def check_finite(events: pa.RecordBatch, field: str) -> None:
    """Raise if a number of the field is not finite. Other values pass."""
    column = events.column(field)
    if pa.types.is_floating(column.type):
        _check(field, column.fill_null(0.0).to_numpy(zero_copy_only=False))


def check_present(events: pa.RecordBatch, field: str) -> None:
    """Raise if the field is null in an event."""
    if events.column(field).null_count:
        raise ValueError(f"the field {field!r} is null; it needs a value")


def _check(field: str, values: Floats) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"the field {field!r} is {values[~finite][0]}; it needs a finite number")


def replaced(events: pa.RecordBatch, field: str, values: pa.Array) -> pa.RecordBatch:
    """Add a field to the events, or replace the one of that name."""
    at = events.schema.get_field_index(field)
    described = pa.field(field, values.type)
    return events.append_column(described, values) if at < 0 else events.set_column(at, described, values)


def nullable(values: Floats, present: Flags) -> pa.Array:
    """Make a column of floats, null where not present."""
    return pa.array(values, mask=~present)


def plain(column: pa.Array) -> list[Any]:
    """Values in a form that state can keep. Timestamps become milliseconds."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def restored(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Make a column from values of `plain`."""
    return pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)


def moments(events: pa.RecordBatch, field: str) -> npt.NDArray[np.int64]:
    """The times of a field in milliseconds. Raises if one is null, or if they are not times."""
    column = events.column(field)
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"the field {field!r} is of type {column.type}, not a time; choose a field of kind timestamp")
    check_present(events, field)
    times: npt.NDArray[np.int64] = column.cast(TIMESTAMP_TYPE).cast(pa.int64()).to_numpy()
    return times


Numbers = npt.NDArray[np.int64]
_SHORT = 2**16


class Keyed(NamedTuple):
    """The events of a batch, sorted by key. Those of one key keep their order."""

    keys: list[tuple[Any, ...]]
    """Each key once. Timestamps are numbers, and both zeros are the same."""
    order: Numbers
    """The indexes of the events: those of the first key, then those of the second, and so on."""
    bounds: Numbers
    """The beginning of each key in the order, and the end of the last one."""


def keyed(events: pa.RecordBatch, by: Sequence[str]) -> Keyed:
    """Sort events by the fields of their key. Nulls and NaNs are values like any other."""
    count = events.num_rows
    if not by or not count:
        return Keyed([()] if count else [], np.arange(count), np.array([0, count] if count else [0]))
    columns = [_comparable(events.column(name)) for name in by]
    codes, values = _codes(columns[0])
    for column in columns[1:]:
        more, others = _codes(column)
        codes, values = _codes(pa.array(codes * len(others) + more))
    many = len(values)
    # Short integers are sorted by radix, in linear time.
    order = np.argsort(codes.astype(np.uint16) if many <= _SHORT else codes, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=many))))
    if len(columns) == 1:
        return Keyed([(value,) for value in values.to_pylist()], order, bounds)
    firsts = pa.array(order[bounds[:-1]])
    keys = list(zip(*(column.take(firsts).to_pylist() for column in columns), strict=True))
    return Keyed(keys, order, bounds)


def _comparable(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.add(column, 0.0)
    return column


def _codes(column: pa.Array) -> tuple[Numbers, pa.Array]:
    """A small number for each value, and the values by their numbers."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


class Block(NamedTuple):
    """A complete block; made by `blocks`."""

    end: int
    """The index of the event that completes it."""
    columns: list[list[Any]]
    """The values of its events, field by field."""


def blocks(groups: Keyed, columns: Sequence[Sequence[Any]], window: int, state: Staged) -> list[Block]:
    """The blocks that a batch completes, in the order of the events that complete them.

    `columns` are the values of the batch's events, in a form that state can keep. Incomplete blocks stay in the state
    under their keys, as a list for each field.
    """
    completed: list[Block] = []
    for key, places in events_by_key(groups):
        before = state.get(key)
        kept: list[list[Any]] = before or [[] for _ in columns]
        first = 0
        while first < len(places):
            # A block kept under a longer window may be complete already; the next event ends it.
            piece = places[first : first + max(window - len(kept[0]), 1)]
            for values, column in zip(kept, columns, strict=True):
                values += [column[place] for place in piece]
            first += len(piece)
            if len(kept[0]) >= window:
                completed.append(Block(piece[-1], kept))
                kept = [[] for _ in columns]
        if kept[0]:
            state.put(key, kept)
        elif before is not None:
            state.delete(key)
    return sorted(completed, key=lambda block: block.end)


def events_by_key(groups: Keyed) -> Iterator[tuple[tuple[Any, ...], list[int]]]:
    """The keys, with the indexes of their events in order."""
    order, bounds = groups.order.tolist(), groups.bounds.tolist()
    for key, first, end in zip(groups.keys, bounds[:-1], bounds[1:], strict=True):
        yield key, order[first:end]


def label(where: Where) -> str:
    """The name of a secret or place, for receipts and errors."""
    return where.secret if isinstance(where, Secret) else where.place


def contents(events: pa.RecordBatch, field: str, encoding: Encoding) -> list[bytes]:
    """The contents of a field."""
    return [_content(text, field, encoding) for text in texts_of(events, field)]


def field_value(content: bytes, name: str, encoding: Encoding) -> str:
    """The field value of a content.

    >>> field_value(b"warm", "a.txt", "base64"), field_value(b"warm", "a.txt", "text")
    ('d2FybQ==', 'warm')
    """
    if encoding == "base64":
        return base64.b64encode(content).decode()
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r} is not a text in UTF-8; read it with encoding base64") from None


def _content(value: str, field: str, encoding: Encoding) -> bytes:
    if encoding == "text":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ValueError(f"the field {field!r} is not base64: {value[:100]!r}") from None


def with_receipts(events: pa.RecordBatch, receipts: Sequence[str]) -> pa.RecordBatch:
    """Add receipts to events, in place of earlier ones."""
    return replaced(events, RECEIPT, pa.array(receipts, pa.string()))
