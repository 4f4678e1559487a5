"""The formats of outputs: each event of a batch as one message, or the reason why the format cannot say it.

Nothing that a task emits raises here. An event that cannot be said is left out; its envelope has it all the same.
"""

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from bridge.formats.sparkplug_messages import BOOLEAN, Payload
from bridge.output_messages import event_texts, output_events
from bridge.raw_events import JSON_ENCODER, REST_COLUMN
from bridge.wire import UNKNOWN_BIRTH, Birth
from dags import Kind
from dags.outputs import CsvOutput, InfluxOutput, OutputFormat, PlainOutput, SparkplugOutput


class Unsayable(NamedTuple):
    """An event that a format cannot say."""

    reason: str


Line: TypeAlias = bytes | Unsayable


def formatted(chosen: OutputFormat, events: pa.RecordBatch, births: Sequence[Birth] = ()) -> Iterator[Line]:
    """The message of each event; `births` say when what caused the events came.

    >>> list(formatted(CsvOutput(), pa.record_batch({"t": [21.5, None], "place": ["a,b", "c"]})))
    [b'"a,b",21.5', b'c,']
    """
    if isinstance(chosen, SparkplugOutput):
        return _sparkplug(chosen, events, births)
    return _FORMATS[type(chosen)](chosen, events)


def _plain(_chosen: PlainOutput, events: pa.RecordBatch) -> Iterator[Line]:
    return event_texts(events)


_NO_COLUMNS = Unsayable("it has no declared fields, and the format names no columns")


def _csv(chosen: CsvOutput, events: pa.RecordBatch) -> Iterator[Line]:
    columns = chosen.columns or sorted(set(events.schema.names) - {REST_COLUMN})
    line = io.StringIO()
    # With this ending, values with either of its characters are quoted.
    writer = csv.writer(line, delimiter=chosen.separator, lineterminator="\r\n")
    for event in output_events(events):
        if not columns:
            yield _NO_COLUMNS
            continue
        writer.writerow([_text(event.get(column)) for column in columns])
        yield _encoded(line.getvalue().removesuffix("\r\n"))
        line.seek(0)
        line.truncate()


def _text(value: Any) -> str:
    """A value in a line: a text as it is, nothing for null, and all else as in JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else JSON_ENCODER.encode(value)


def _encoded(text: str) -> bytes:
    # JSON may escape half a surrogate pair, which has no UTF-8.
    return text.encode("utf-8", "backslashreplace")


_KEY_ESCAPES = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_MEASUREMENT_ESCAPES = str.maketrans({",": r"\,", " ": r"\ "})
_TEXT_ESCAPES = str.maketrans({'"': r"\"", "\\": r"\\"})
_UNSAYABLE_KEY = re.compile(r"[\x00-\x1f\x7f]|\\(?:[,= \\]|\Z)")
"""Characters that end a line, and backslashes that would escape what follows them."""
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class _CannotSay(Exception):
    """A part of an event that a format has no words for."""


def _influx(chosen: InfluxOutput, events: pa.RecordBatch) -> Iterator[Line]:
    measurement, tags = chosen.measurement.translate(_MEASUREMENT_ESCAPES), sorted(set(chosen.tags))
    apart = {*tags, chosen.time}
    for event in output_events(events):
        try:
            # Null has no words: such a tag or field is left out of its line.
            tagged = "".join(f",{_key(tag)}={_key(text)}" for tag in tags if (text := _text(event.get(tag))))
            fields = ",".join(
                f"{_key(name)}={_field(name, value)}"
                for name, value in sorted(event.items())
                if name not in apart and value is not None
            )
            if not fields:
                yield Unsayable("all of its fields are null")
                continue
            time = f" {_nanoseconds(chosen.time, event.get(chosen.time))}" if chosen.time is not None else ""
        except _CannotSay as reason:
            yield Unsayable(str(reason))
        else:
            yield _encoded(f"{measurement}{tagged} {fields}{time}")


def _key(text: str) -> str:
    """The name of a field or tag, or the value of a tag."""
    if not text or _UNSAYABLE_KEY.search(text):
        raise _CannotSay(f"{text[:80]!a} is no name or tag that line protocol can hold")
    return text.translate(_KEY_ESCAPES)


def _field(name: str, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            if not _LEAST_INTEGER <= value <= _MOST_INTEGER:
                raise _CannotSay(f"the field {name[:80]!a} is an integer of more than 64 bits")
            return f"{value}i"
        case float():
            return repr(value)
        case _:
            return f'"{_text(value).translate(_TEXT_ESCAPES)}"'


def _nanoseconds(name: str, value: Any) -> int:
    since = _microseconds(name, value) * 1_000
    if not _LEAST_INTEGER < since < _MOST_INTEGER:
        raise _CannotSay(f"the time {name[:80]!a} is not in the years 1678 to 2261")
    return since


def _microseconds(name: str, value: Any) -> int:
    try:
        return (datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND
    except (TypeError, ValueError, OverflowError) as error:
        raise _CannotSay(f"the time {name[:80]!a} is none") from error


_METRICS: Mapping[Kind, tuple[int, str]] = MappingProxyType(
    {
        Kind.BOOLEAN: (BOOLEAN, "boolean_value"),
        Kind.INTEGER: (4, "long_value"),
        Kind.FLOAT: (10, "double_value"),
        Kind.STRING: (12, "string_value"),
        Kind.TIMESTAMP: (13, "long_value"),
        Kind.JSON: (12, "string_value"),
    }
)
"""The number of the type of a field's metric in Sparkplug, and where its value is: Int64, Double, String, DateTime."""


def sparkplug_metric(name: str, kind: Kind, value: Any, at: int) -> dict[str, Any]:
    """A field of an event as a metric, as of a time in milliseconds.

    >>> sparkplug_metric("t", Kind.FLOAT, None, 5)
    {'name': 't', 'timestamp': 5, 'datatype': 10, 'is_null': True}
    >>> sparkplug_metric("n", Kind.INTEGER, -1, 5)["long_value"] == 2**64 - 1
    True
    """
    datatype, place = _METRICS[kind]
    said = {"is_null": True} if value is None else {place: _metric_value(name, kind, value)}
    return {"name": name, "timestamp": at, "datatype": datatype, **said}


def _metric_value(name: str, kind: Kind, value: Any) -> Any:
    match kind, value:
        case Kind.BOOLEAN, bool():
            return value
        case Kind.INTEGER, int() if not isinstance(value, bool) and _LEAST_INTEGER <= value <= _MOST_INTEGER:
            return value % 2**64
        case Kind.FLOAT, int() | float() if not isinstance(value, bool):
            return float(value)
        case Kind.TIMESTAMP, str():
            return _milliseconds(name, value)
        case Kind.STRING, str():
            return value
        case Kind.JSON, _:
            return _text(value)
    raise _CannotSay(f"the field {name[:80]!a} is no {kind} that a metric holds")


def _milliseconds(name: str, value: Any) -> int:
    since = _microseconds(name, value) // 1_000
    if since < 0:
        raise _CannotSay(f"the time {name[:80]!a} is before 1970")
    return since


_NO_METRICS = Unsayable("it has no declared fields")


def _sparkplug(chosen: SparkplugOutput, events: pa.RecordBatch, births: Sequence[Birth]) -> Iterator[Line]:
    """The metrics of each event as a payload, to which the sender adds its number and time."""
    born = chain(chain.from_iterable(repeat(birth.at, birth.many) for birth in births), repeat(UNKNOWN_BIRTH))
    for event, caused in zip(output_events(events), born, strict=False):
        if not chosen.metrics:
            yield _NO_METRICS
            continue
        try:
            if chosen.time is not None:
                at = _milliseconds(chosen.time, event.get(chosen.time))
            else:
                at = caused if caused != UNKNOWN_BIRTH else round(1_000 * time.time())
            metrics = [sparkplug_metric(name, kind, event.get(name), at) for name, kind in chosen.metrics]
            line: bytes = Payload(metrics=metrics).SerializeToString()
        except _CannotSay as reason:
            yield Unsayable(str(reason))
        except (ValueError, OverflowError) as error:
            # A text that is no UTF-8, or an integer that no float is as large as.
            yield Unsayable(str(error)[:_LONGEST_REASON])
        else:
            yield line


_LONGEST_REASON = 200


_FORMATS: Mapping[type, Callable[[Any, pa.RecordBatch], Iterator[Line]]] = MappingProxyType(
    {PlainOutput: _plain, CsvOutput: _csv, InfluxOutput: _influx}
)
"""How each format says events. Envelopes have several events each, so they are made with their numbers."""

_LARGEST_SHOWN = 100_000


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The events of a batch that a format could not say."""

    count: int
    number: int
    """The number of the first of them."""
    reason: str
    event: bytes
    """The first of them, as JSON."""


def left_out_message(stream: str, batch: int, left_out: LeftOut) -> bytes:
    """The notice of events that were left out of a stream, with the first of them if it is small.

    >>> left_out_message("averages", 7, LeftOut(2, 41, "all of its fields are null", b'{"t":null}'))
    b'{"stream":"averages","batch":7,"count":2,"number":41,"reason":"all of its fields are null","event":{"t":null}}'
    """
    head = {
        "stream": stream,
        "batch": batch,
        "count": left_out.count,
        "number": left_out.number,
        "reason": left_out.reason,
    }
    shown = left_out.event if len(left_out.event) <= _LARGEST_SHOWN else b"null"
    return json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"event":' + shown + b"}"
