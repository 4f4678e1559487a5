"""The formats of outputs: each event of a batch as one message, or the reason why the format cannot say it.

Nothing that a task emits raises here. An event that cannot be said is left out; its envelope has it all the same.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from bridge.output_messages import event_texts, output_events
from bridge.raw_events import JSON_ENCODER, REST_COLUMN
from dags.outputs import CsvOutput, InfluxOutput, OutputFormat, PlainOutput


class Unsayable(NamedTuple):
    """An event that a format cannot say."""

    reason: str


Line: TypeAlias = bytes | Unsayable


def formatted(chosen: OutputFormat, events: pa.RecordBatch) -> Iterator[Line]:
    """The message of each event.

    >>> list(formatted(CsvOutput(), pa.record_batch({"t": [21.5, None], "place": ["a,b", "c"]})))
    [b'"a,b",21.5', b'c,']
    """
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
    """A part of an event that line protocol has no words for."""


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
    try:
        since = (datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND * 1_000
    except (TypeError, ValueError, OverflowError) as error:
        raise _CannotSay(f"the time {name[:80]!a} is none") from error
    if not _LEAST_INTEGER < since < _MOST_INTEGER:
        raise _CannotSay(f"the time {name[:80]!a} is not in the years 1678 to 2261")
    return since


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
