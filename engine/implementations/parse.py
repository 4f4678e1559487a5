"""Parsing and annotation: tasks that make fields of texts or texts of fields, or add known fields.

Every task that parses parks an event whose text is null or cannot be read. A value that the text lacks is null.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar
from xml.parsers import expat

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.values import (
    TIMESTAMP_TYPE,
    from_json,
    from_texts,
    milliseconds,
    number,
    one_port,
    plain,
    replaced,
    restored,
    texts_of,
    unfit,
)
from engine.records.state import Staged
from engine.tasks import parse as described


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


def _senml_parse(config: described.SenmlParseConfig, events: pa.RecordBatch, _state: Staged) -> PortEmission:
    """Rows look like `1422748800000,{"e":[{"u":"far","n":"temperature","v":"20.5"}],"bt":1422748800000}`.

    The time before the comma is optional. An event's `time` is the row's base time `bt`, or else the time before the
    comma. If a measurement has its own event, its time `t` is added. Numbers may be written as texts. An observed
    measurement that is missing in a row is null, so each row gives the same number of events. A number that is
    unreadable or not finite parks the row.

    >>> row = '1000,{"e":[{"n":"source","sv":"a1"},{"u":"far","n":"temperature","v":"20.5"}],"bt":2000}'
    >>> config = {"field": "row", "observed": ["temperature"], "also": {"source": "string"}}
    >>> (event,) = try_out("senml_parse", config, [{"row": row}])["out"]
    >>> event["source"], event["field"], event["value"], event["time"].isoformat()
    ('a1', 'temperature', 20.5, '1970-01-01T00:00:02+00:00')
    """
    observed = config.observed
    rows = [_measured(config.field, text) for text in texts_of(events, config.field)]
    entries_of = [{entry.n if entry.n is not None else row.bn: entry for entry in row.e} for _, row in rows]
    if config.per == "row":
        origin = None
        times = [time for time, _ in rows]
        measured = {name: _numbers(name, [entries.get(name) for entries in entries_of]) for name in observed}
    else:
        origin = np.repeat(np.arange(len(rows)), len(observed))
        observations = [entries.get(name) for entries in entries_of for name in observed]
        times = [
            _at(config.field, time, entry)
            for (time, _), entries in zip(rows, entries_of, strict=True)
            for entry in map(entries.get, observed)
        ]
        names = pa.array(list(observed) * len(rows), pa.string())
        measured = {described.FIELD: names, described.VALUE: _numbers(described.VALUE, observations)}
    columns = {name: events.column(name) for name in config.keep}
    for name, kind in config.also.items():
        columns[name] = from_texts(name, kind, [_text(entries.get(name)) for entries in entries_of])
    if origin is not None:
        columns = {name: column.take(pa.array(origin)) for name, column in columns.items()}
    columns[described.TIME] = restored(times, TIMESTAMP_TYPE)
    return PortEmission(pa.record_batch({**columns, **measured}), origin)


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
    numbers: list[float | None] = []
    for entry in entries:
        value = _value(entry)
        try:
            numbers.append(None if value is None else number(value))
        except (ValueError, OverflowError):
            measured = entry.n if entry is not None and entry.n is not None else name
            raise unfit(measured, value, "it should be a finite number") from None
    return pa.array(numbers, pa.float64())


K = TypeVar("K", bound=described.KeepingConfig)


def keeping(read: Callable[[K, pa.RecordBatch], Mapping[str, pa.Array]]) -> Callable[[K], Behaviour]:
    """Make behaviours that keep some fields of each event, and make new ones in place of the others."""

    @wraps(read)
    def run(config: K, events: pa.RecordBatch, _state: Staged) -> PortEmission:
        kept = {name: events.column(name) for name in config.keep}
        return PortEmission(pa.record_batch({**kept, **read(config, events)}))

    return one_port(run)


def _csv_parse(config: described.CsvParseConfig, events: pa.RecordBatch) -> Mapping[str, pa.Array]:
    """Values are separated by the delimiter. A value may be in double quotes, which are doubled inside.

    An empty value is null. A line whose number of values is not that of the columns is parked.

    >>> columns = [{"name": "room", "kind": "string"}, {"name": "warmth", "kind": "float"}]
    >>> try_out(csv_parse, {"field": "line", "columns": columns}, [{"line": '"a, b",20.5'}, {"line": "c,"}])["out"]
    [{'room': 'a, b', 'warmth': 20.5}, {'room': 'c', 'warmth': None}]
    """
    columns, texts = config.columns, texts_of(events, config.field)
    lines = [split(config.field, text, config.delimiter, len(columns)) for text in texts]
    cells = zip(*lines, strict=True) if lines else [()] * len(columns)
    return {
        column.name: from_texts(column.name, column.kind, [cell or None for cell in texts_in])
        for column, texts_in in zip(columns, cells, strict=True)
    }


def split(field: str, text: str, delimiter: str, count: int) -> list[str]:
    """Split a line of CSV into its values. Raises if their number is not `count`."""
    if '"' in text or "\n" in text or "\r" in text:
        try:
            lines = list(csv.reader([text], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise unfit(field, text, f"it is not a line of CSV: {error}") from None
        cells = lines[0] if lines else []
    else:
        cells = text.split(delimiter)
    if len(cells) != count:
        raise unfit(field, text, f"it has {len(cells)} values instead of {count}")
    return cells


def _json_parse(config: described.FieldsConfig, events: pa.RecordBatch) -> Mapping[str, pa.Array]:
    """Members that the config does not name are left out.

    A missing member is null. A member of another kind parks its event.

    >>> config = {"field": "text", "fields": {"room": "string", "warmth": "float"}}
    >>> try_out(json_parse, config, [{"text": '{"room": "a", "warmth": 20, "more": [1]}'}])["out"]
    [{'room': 'a', 'warmth': 20.0}]
    """
    objects = [_object(config.field, text) for text in texts_of(events, config.field)]
    return {
        name: from_json(name, kind, [members.get(name) for members in objects]) for name, kind in config.fields.items()
    }


_object_in = msgspec.json.Decoder(dict[str, Any]).decode


def _object(field: str, text: str) -> dict[str, Any]:
    try:
        return _object_in(text)
    except (ValueError, RecursionError) as error:
        raise unfit(field, text, f"it is not a JSON object: {error}") from None


def _xml_parse(config: described.FieldsConfig, events: pa.RecordBatch) -> Mapping[str, pa.Array]:
    """Takes the text of the first element of each name, at any depth, or else the root's attribute of that name.

    Space around a text is removed. An empty text is null, and so is a missing one. A document with a document type is
    parked, since it could define entities that expand without limit.

    >>> text = '<reading room="a"><warmth unit="C">20.5</warmth></reading>'
    >>> try_out(xml_parse, {"field": "text", "fields": {"room": "string", "warmth": "float"}}, [{"text": text}])["out"]
    [{'room': 'a', 'warmth': 20.5}]
    """
    documents = [_elements(config, text) for text in texts_of(events, config.field)]
    return {
        name: from_texts(name, kind, [elements.get(name) for elements in documents])
        for name, kind in config.fields.items()
    }


class _Elements:
    """The texts of some elements of one document."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.texts: dict[str, list[str]] = {}
        self.attributes: dict[str, str] | None = None
        self._wanted = wanted
        self._open: list[list[str] | None] = []
        """The list for the text of each open element; None if it is not wanted."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self.attributes is None:
            self.attributes = attributes
        fresh = name in self._wanted and name not in self.texts
        self._open.append(self.texts.setdefault(name, []) if fresh else None)

    def end(self, _name: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        for into in self._open:
            if into is not None:
                into.append(text)

    @staticmethod
    def refuse(*_: Any) -> None:
        raise ValueError("it has a document type declaration")


def _elements(config: described.FieldsConfig, text: str) -> dict[str, str | None]:
    elements = _Elements(frozenset(config.fields))
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = elements.start, elements.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = elements.text, elements.refuse
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 - expat's flag for the last piece
    except (expat.ExpatError, ValueError) as error:
        raise unfit(config.field, text, f"it is not an XML document: {error}") from None
    texts = (elements.attributes or {}) | {name: "".join(pieces) for name, pieces in elements.texts.items()}
    return {name: texts[name].strip() or None for name in config.fields if name in texts}


senml_parse = Implementation(type=described.SENML_PARSE, make=one_port(_senml_parse))
csv_parse = Implementation(type=described.CSV_PARSE, make=keeping(_csv_parse))
json_parse = Implementation(type=described.JSON_PARSE, make=keeping(_json_parse))
xml_parse = Implementation(type=described.XML_PARSE, make=keeping(_xml_parse))


def _csv_to_senml(config: described.CsvToSenmlConfig, events: pa.RecordBatch) -> Mapping[str, pa.Array]:
    """Writes rows for `senml_parse`, with all values as texts.

    A value that is null, or empty in a line of CSV, is left out. An event without a time is parked, and so is one with
    a number that is unreadable or not finite.

    >>> config = {"time": "at", "measurements": [{"name": "warmth", "unit": "C"}, {"name": "room", "type": "sv"}]}
    >>> try_out(csv_to_senml, config, [{"at": 2000, "warmth": 20.5, "room": "a"}])["out"]
    [{'senml': '{"e":[{"u":"C","n":"warmth","v":"20.5"},{"u":"","n":"room","sv":"a"}],"bt":2000}'}]
    """
    times, *columns = _fields(config, events) if config.field is None else _cells(config, config.field, events)
    rows = []
    for time, *values in zip(times, *columns, strict=True):
        entries = [
            {"u": measurement.unit, "n": measurement.name, measurement.type: value}
            for measurement, value in zip(config.measurements, values, strict=True)
            if value is not None
        ]
        try:
            at = milliseconds(time if isinstance(time, int) else int(time))
        except (TypeError, ValueError):
            raise unfit(config.time, time, "it needs a time in milliseconds") from None
        rows.append(msgspec.json.encode({"e": entries, "bt": at}).decode())
    return {"senml": pa.array(rows, pa.string())}


def _fields(config: described.CsvToSenmlConfig, events: pa.RecordBatch) -> list[Sequence[Any]]:
    """The times, and the values of each measurement, from the fields of events."""
    return [
        plain(events.column(config.time)),
        *(
            [_written(measurement.name, value) for value in plain(events.column(measurement.name))]
            for measurement in config.measurements
        ),
    ]


def _written(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not np.isfinite(value):
        raise unfit(name, value, "it needs a finite number")
    return repr(value)


def _cells(config: described.CsvToSenmlConfig, field: str, events: pa.RecordBatch) -> list[Sequence[Any]]:
    """The times, and the values of each measurement, from the lines of CSV in a field."""
    places = [config.columns.index(measurement.name) for measurement in config.measurements]
    numbers = [
        (place, measurement.name)
        for place, measurement in zip(places, config.measurements, strict=True)
        if measurement.type == "v"
    ]
    lines = [split(field, text, ",", len(config.columns)) for text in texts_of(events, field)]
    for line in lines:
        for place, name in numbers:
            try:
                number(line[place] or 0)
            except ValueError:
                raise unfit(name, line[place], "it should be a finite number") from None
    time = config.columns.index(config.time)
    return [[line[time] for line in lines], *([line[place] or None for line in lines] for place in places)]


def _annotate(config: described.AnnotateConfig) -> Behaviour:
    """Replaces fields that the event already has.

    An id that is null is unknown. A number is looked up as its text.

    >>> config = {"field": "room", "fields": {"floor": "integer"}, "known": {"a": {"floor": 2}}}
    >>> try_out(annotate, config, [{"room": "a"}, {"room": "x"}])["out"]
    [{'room': 'a', 'floor': 2}]
    """
    ids = pa.array(list(config.known), pa.string())
    known = {
        name: from_json(name, kind, [values.get(name) for values in config.known.values()])
        for name, kind in config.fields.items()
    }

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        at = pc.index_in(events.column(config.field).cast(pa.string()), value_set=ids)
        origin = None
        if config.unknown == "drop" and at.null_count:
            origin = np.flatnonzero(at.is_valid())
            events, at = events.take(pa.array(origin)), at.take(pa.array(origin))
        for name, column in known.items():
            events = replaced(events, name, column.take(at))
        return {"out": PortEmission(events, origin)}

    return behave


csv_to_senml = Implementation(type=described.CSV_TO_SENML, make=keeping(_csv_to_senml))
annotate = Implementation(type=described.ANNOTATE, make=_annotate)
