"""The messages that tenants receive, and those with events that could not be processed.

They are JSON, and small enough for any broker. The values that a task emits are not checked, so a column may hold a
time in the year 12,000, or a text that is not UTF-8. Such values become texts: they must not stop the code that writes
them for readers outside.
"""

import base64
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from bridge.messages import grouped
from bridge.raw_events import JSON_ENCODER, REST_COLUMN, json_columns
from bridge.receiver import Unread
from bridge.wire import MOST_MESSAGE_BYTES

_AT_ONCE = 1_000
_UNREPRESENTABLE = (OverflowError, ValueError)


def python_rows(events: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The fields of each event; a value that Python cannot represent becomes a text.

    >>> list(python_rows(pa.record_batch({"at": pa.array([253_402_387_139_000], pa.timestamp("ms"))})))
    [{'at': '10000-01-01 23:58:59.000'}]
    """
    for start in range(0, len(events), _AT_ONCE):
        some = events.slice(start, _AT_ONCE)
        try:
            yield from some.to_pylist()
        except _UNREPRESENTABLE:
            for row in zip(*map(python_values, some.columns), strict=True):
                yield dict(zip(some.schema.names, row, strict=True))


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column; a value that Python cannot represent becomes a text."""
    try:
        values: list[Any] = column.to_pylist()
    except _UNREPRESENTABLE:
        values = [_value(column.slice(at, 1)) for at in range(len(column))]
    return values


def _value(only: pa.Array) -> Any:
    try:
        return only.to_pylist()[0]
    except _UNREPRESENTABLE:
        text: str = only.to_string(skip_new_lines=True)
        return text[1:-1]


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def output_message(stream: str, epoch: int, first: int, texts: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Events as the messages that a tenant receives, each with the number of its first event.

    A message is `{stream, epoch, first, events}`, made of the events' texts.

    >>> list(output_message("alarm", 1, 7, [b'{"unit":"C","t":21.5}', b'{"t":null}']))
    [(7, b'{"stream":"alarm","epoch":1,"first":7,"events":[{"unit":"C","t":21.5},{"t":null}]}')]
    """
    for number, group in _cut(texts, first, MOST_MESSAGE_BYTES - 200 - len(stream.encode()) * 2):
        head = _json({"stream": stream, "epoch": epoch, "first": number})
        yield number, _with_events(head, group)


def dead_letter(  # noqa: PLR0913 - the parts of every letter
    instance: int,
    port: str,
    reason: str,
    batch: int,
    events: pa.RecordBatch,
    *,
    first: int = 0,
    traceback: tuple[str, str] | None = None,
) -> Iterator[bytes]:
    """Events that an instance could not process, as `{instance, port, reason, batch, count, first, events}`.

    The count is of all of them, even if they take several messages. `first` is the number of the first event among
    those of the batch, and so distinguishes equal events. `traceback` is that of published code, after its owner.

    >>> list(dead_letter(7, "in", "no number", 3, pa.record_batch({"t": ["warm"]})))
    [b'{"instance":7,"port":"in","reason":"no number","batch":3,"count":1,"first":0,"events":[{"t":"warm"}]}']
    """
    head: dict[str, Any] = {
        "instance": instance,
        "port": port,
        "reason": reason,
        "batch": batch,
        "count": len(events),
    }
    if traceback is not None:
        head |= {"owner": traceback[0], "traceback": traceback[1]}
    for number, texts in _cut(event_texts(events), first, MOST_MESSAGE_BYTES - 80 - len(_json(head))):
        yield _with_events(_json({**head, "first": number}), texts)


def event_texts(events: pa.RecordBatch) -> Iterator[bytes]:
    """Each event as its tenant sees it, in JSON. JSON columns become parts of their events.

    >>> list(event_texts(pa.record_batch({"t": [21.5, math.nan], "_rest": ['{"unit":"C"}', None]})))
    [b'{"unit":"C","t":21.5}', b'{"t":null}']
    """
    return map(_json, output_events(events))


def output_events(events: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Each event as its tenant sees it, of values that JSON has."""
    # Python's values have no nanoseconds.
    for at, kind in enumerate(events.schema.types):
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            fine = pa.timestamp("us", tz=kind.tz)
            field = events.schema.field(at).with_type(fine)
            events = events.set_column(at, field, events.column(at).cast(fine, safe=False))
    nested = json_columns(events.schema)
    for row in python_rows(events):
        yield _event(row, nested)


def raw_messages(instance: int, epoch: int, first: int, texts: Iterable[bytes]) -> Iterator[bytes]:
    """Events in JSON as messages of raw events, each event with its origin in the field `_from`.

    >>> list(raw_messages(7, 1, 3, [b'{"t":21.5}']))
    [b'[{"t":21.5,"_from":{"instance":7,"epoch":1,"number":3}}]']
    """
    numbered = (
        _with_origin(text, {"instance": instance, "epoch": epoch, "number": at}) for at, text in enumerate(texts, first)
    )
    for _, group in _cut(numbered, first, MOST_MESSAGE_BYTES - 10):
        yield b"[" + b",".join(group) + b"]"


def _with_origin(text: bytes, origin: Mapping[str, int]) -> bytes:
    return text[:-1] + (b"" if text == b"{}" else b",") + b'"_from":' + _json(origin) + b"}"


def unread_letter(unread: Unread) -> bytes:
    """A message or event that no spool could take, as `{topic, reason, event}`; a very long one is cut.

    >>> unread_letter(Unread(topic="street", event="{", reason="it is not JSON"))
    b'{"topic":"street","reason":"it is not JSON","event":"{"}'
    """
    # A character takes up to twelve bytes, if JSON writes it as a pair of escapes.
    event = unread.event[: MOST_MESSAGE_BYTES // 12]
    return json.dumps({"topic": unread.topic, "reason": unread.reason, "event": event}, separators=(",", ":")).encode()


def _with_events(head: bytes, texts: list[bytes]) -> bytes:
    return head[:-1] + b',"events":[' + b",".join(texts) + b"]}"


def _cut(texts: Iterable[bytes], first: int, most: int) -> Iterator[tuple[int, list[bytes]]]:
    """Texts in groups of at most so many bytes, each with the number of its first."""
    for group in grouped(texts, lambda text: len(text) + 1, most):
        yield first, group
        first += len(group)


def _event(row: Mapping[str, Any], nested: Collection[str]) -> dict[str, Any]:
    """An event as its tenant sees it: undeclared fields beside declared ones."""
    declared = {name: _unpacked(value) if name in nested else _plain(value) for name, value in row.items()}
    rest = _unpacked(declared.pop(REST_COLUMN, None))
    if isinstance(rest, dict):
        return {**rest, **declared}
    return declared if rest is None else {**declared, REST_COLUMN: rest}


def _unpacked(value: Any) -> Any:
    """The value of a JSON text; other texts stay as they are."""
    if not isinstance(value, str):
        return _plain(value)
    try:
        return _plain(json.loads(value))
    except (ValueError, RecursionError):
        return value


def _plain(value: Any) -> Any:
    """A value that JSON can represent."""
    if type(value) in _AS_THEY_ARE:
        return value
    plain: Any = value
    match value:
        case float() if not math.isfinite(value):
            plain = None
        case datetime():
            # Without a zone it is UTC, as in raw events.
            moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            finest = "microseconds" if moment.microsecond % 1_000 else "milliseconds"
            plain = moment.isoformat(timespec=finest).replace("+00:00", "Z")
        case bytes():
            plain = base64.b64encode(value).decode()
        case dict():
            plain = {str(name): _plain(inner) for name, inner in value.items()}
        case list():
            plain = [_plain(inner) for inner in value]
        case float():
            pass
        case _:
            plain = str(value)
    return plain


def _json(value: Any) -> bytes:
    try:
        return JSON_ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        # JSON may escape half a surrogate pair, which has no UTF-8.
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
