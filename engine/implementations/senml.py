"""Rows of sensor measurements in SenML."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, PortEmission
from engine.implementations.conversion import from_texts, milliseconds, number, texts_of, unfit
from engine.records.state import Staged
from engine.tasks.parse import FIELD, TIME, VALUE, SenmlParseConfig


class _Entry(msgspec.Struct, gc=False):
    """One measurement."""

    n: str | None = None
    v: float | str | bool | None = None
    sv: str | None = None
    t: float | str | None = None


class _Row(msgspec.Struct, gc=False):
    """A row of measurements. If two have the same name, the last one counts."""

    e: list[_Entry]
    bn: str | None = None
    bt: int | float | str | None = None


_row = msgspec.json.Decoder(_Row).decode


def senml_rows(config: SenmlParseConfig) -> Behaviour:
    """Rows look like `1422748800000,{"e":[{"u":"far","n":"temperature","v":"20.5"}],"bt":1422748800000}`.

    The time before the comma is optional. An event's `time` is the row's base time `bt`, or else the time before the
    comma. If a measurement has its own event, its time `t` is added. Numbers may be written as texts. An observed
    measurement that is missing in a row is null, so each row gives the same number of events. A number that is
    unreadable or not finite parks the row.

    >>> from engine.trial import try_out
    >>> row = '1000,{"e":[{"n":"source","sv":"a1"},{"u":"far","n":"temperature","v":"20.5"}],"bt":2000}'
    >>> config = {"field": "row", "observed": ["temperature"], "also": {"source": "string"}}
    >>> (event,) = try_out("senml_parse", config, [{"row": row}])["out"]
    >>> event["source"], event["field"], event["value"], event["time"].isoformat()
    ('a1', 'temperature', 20.5, '1970-01-01T00:00:02+00:00')
    """
    observed = config.observed

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        rows = [_measured(config.field, text) for text in texts_of(events, config.field)]
        entries_of = [_named(row) for _, row in rows]
        if config.per == "row":
            origin = None
            times = [time for time, _ in rows]
            measured = {name: _numbers(name, [each.get(name) for each in entries_of]) for name in observed}
        else:
            origin = np.repeat(np.arange(len(rows)), len(observed))
            entries = [each.get(name) for each in entries_of for name in observed]
            times = [
                _at(config.field, time, entry)
                for (time, _), each in zip(rows, entries_of, strict=True)
                for entry in map(each.get, observed)
            ]
            names = pa.array(list(observed) * len(rows), pa.string())
            measured = {FIELD: names, VALUE: _numbers(VALUE, entries)}
        columns = {name: events.column(name) for name in config.keep}
        for name, kind in config.also.items():
            columns[name] = from_texts(name, kind, [_text(each.get(name)) for each in entries_of])
        if origin is not None:
            columns = {name: column.take(pa.array(origin)) for name, column in columns.items()}
        columns[TIME] = pa.array(times, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
        return {"out": PortEmission(pa.record_batch({**columns, **measured}), origin)}

    return behave


def _measured(field: str, text: str) -> tuple[int, _Row]:
    """A row and its time."""
    head, _, body = ("", "", text) if text.startswith("{") else text.partition(",")
    try:
        row = _row(body)
    except (ValueError, RecursionError) as error:
        raise unfit(field, text, f"it is not a row of SenML: {error}") from None
    time = row.bt if row.bt is not None else head or None
    if time is None:
        raise unfit(field, text, "the row has no time")
    try:
        return milliseconds(time), row
    except (ValueError, OverflowError) as error:
        raise unfit(field, text, f"the row's time is {time!r}: {error}") from None


def _named(row: _Row) -> dict[str | None, _Entry]:
    return {entry.n if entry.n is not None else row.bn: entry for entry in row.e}


def _value(entry: _Entry | None) -> float | str | bool | None:
    if entry is None:
        return None
    return entry.sv if entry.v is None else entry.v


def _text(entry: _Entry | None) -> str | None:
    value = _value(entry)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _at(field: str, time: int, entry: _Entry | None) -> int:
    """The time of a measurement, given that of its row."""
    if entry is None or entry.t is None:
        return time
    try:
        return milliseconds(time + milliseconds(entry.t))
    except (ValueError, OverflowError):
        raise unfit(field, entry.t, f"the time of the measurement {entry.n!r} is not valid") from None


def _numbers(name: str, entries: Sequence[_Entry | None]) -> pa.Array:
    found: list[float | None] = []
    for entry in entries:
        value = _value(entry)
        try:
            found.append(None if value is None else number(value))
        except (ValueError, OverflowError):
            measured = entry.n if entry is not None and entry.n is not None else name
            raise unfit(measured, value, "it should be a finite number") from None
    return pa.array(found, pa.float64())
