"""Parsing texts: what each event holds as one text becomes its fields.

Every task here parks an event whose text is missing or cannot be read. A value that the text does not have is null.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.parsers import expat

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.conversion import from_json, from_texts, milliseconds, number, unfit
from engine.records.staged_state import Staged
from engine.tasks.parse import (
    CSV_PARSE,
    FIELD,
    JSON_PARSE,
    SENML_PARSE,
    TIME,
    VALUE,
    XML_PARSE,
    CsvParseConfig,
    FieldsConfig,
    SenmlParseConfig,
)


def texts_of(events: pa.RecordBatch, field: str) -> list[str]:
    """The texts of a field; raises where one is null."""
    found: list[str | None] = events.column(field).to_pylist()
    if None in found:
        raise unfit(field, None, "it needs a text")
    return [text for text in found if text is not None]


def parsed(keep: Sequence[str], make: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]) -> Behaviour:
    """A behaviour that gives each event some fields that it had, and others in place of the rest."""

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        kept = {name: events.column(name) for name in keep}
        return {"out": PortEmission(pa.record_batch({**kept, **make(events)}))}

    return behave


class _Entry(msgspec.Struct, gc=False):
    """One measurement."""

    n: str | None = None
    v: float | str | bool | None = None
    sv: str | None = None
    t: float | str | None = None


class _Row(msgspec.Struct, gc=False):
    """A row of measurements; of two with one name the later counts."""

    e: list[_Entry]
    bn: str | None = None
    bt: int | float | str | None = None


_row = msgspec.json.Decoder(_Row).decode


def _senml_parse(config: SenmlParseConfig) -> Behaviour:
    """Measurements of rows such as `1422748800000,{"e":[{"u":"far","n":"temperature","v":"20.5"}],"bt":1422748800000}`.

    The time before the comma may be left out. An event's `time` is the row's base time `bt`, and where there is none
    the time before the comma; a measurement's own time `t` comes on top of it where it has an event of its own. Numbers
    may be written as texts. An observed measurement that a row does not have, or has as null, is null; so each row
    gives as many events. A number that cannot be read, or is not finite, parks the row.

    >>> from engine.trial import try_out
    >>> row = '1000,{"e":[{"n":"source","sv":"a1"},{"u":"far","n":"temperature","v":"20.5"}],"bt":2000}'
    >>> config = {"field": "row", "observed": ["temperature"], "also": {"source": "string"}}
    >>> (event,) = try_out(senml_parse, config, [{"row": row}])["out"]
    >>> event["source"], event["field"], event["value"], event["time"].isoformat()
    ('a1', 'temperature', 20.5, '1970-01-01T00:00:02+00:00')
    """
    observed = config.observed

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        rows = [_measured(config.field, text) for text in texts_of(events, config.field)]
        told = [_named(row) for _, row in rows]
        if config.per == "row":
            origin = None
            times = [time for time, _ in rows]
            measured = {name: _numbers(name, [each.get(name) for each in told]) for name in observed}
        else:
            origin = np.repeat(np.arange(len(rows)), len(observed))
            entries = [each.get(name) for each in told for name in observed]
            times = [
                _at(config.field, time, entry)
                for (time, _), each in zip(rows, told, strict=True)
                for entry in map(each.get, observed)
            ]
            names = pa.array(list(observed) * len(rows), pa.string())
            measured = {FIELD: names, VALUE: _numbers(VALUE, entries)}
        columns = {name: events.column(name) for name in config.keep}
        for name, kind in config.also.items():
            columns[name] = from_texts(name, kind, [_text(each.get(name)) for each in told])
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
        raise unfit(field, text, f"it is no row of SenML: {error}") from None
    time = row.bt if row.bt is not None else head or None
    if time is None:
        raise unfit(field, text, "the row has no time")
    try:
        return milliseconds(time), row
    except (ValueError, OverflowError) as error:
        raise unfit(field, text, f"the row's time is {time!r}: {error}") from None


def _named(row: _Row) -> dict[str | None, _Entry]:
    return {entry.n if entry.n is not None else row.bn: entry for entry in row.e}


def _told(entry: _Entry | None) -> float | str | bool | None:
    if entry is None:
        return None
    return entry.sv if entry.v is None else entry.v


def _text(entry: _Entry | None) -> str | None:
    value = _told(entry)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _at(field: str, time: int, entry: _Entry | None) -> int:
    """When something was measured in a row of some time."""
    if entry is None or entry.t is None:
        return time
    try:
        return milliseconds(time + milliseconds(entry.t))
    except (ValueError, OverflowError):
        raise unfit(field, entry.t, f"the measurement {entry.n!r} has no such time") from None


def _numbers(name: str, entries: Sequence[_Entry | None]) -> pa.Array:
    found: list[float | None] = []
    for entry in entries:
        value = _told(entry)
        try:
            found.append(None if value is None else number(value))
        except (ValueError, OverflowError):
            measured = entry.n if entry is not None and entry.n is not None else name
            raise unfit(measured, value, "it should be a finite number") from None
    return pa.array(found, pa.float64())


def _csv_parse(config: CsvParseConfig) -> Behaviour:
    """Lines of values between delimiters; a value may stand in double quotes, which are doubled inside it.

    An empty value is null. A line with more or fewer values than there are columns is parked.

    >>> from engine.trial import try_out
    >>> columns = [{"name": "room", "kind": "string"}, {"name": "warmth", "kind": "float"}]
    >>> try_out(csv_parse, {"field": "line", "columns": columns}, [{"line": '"a, b",20.5'}, {"line": "c,"}])["out"]
    [{'room': 'a, b', 'warmth': 20.5}, {'room': 'c', 'warmth': None}]
    """
    columns = config.columns

    def make(events: pa.RecordBatch) -> Mapping[str, pa.Array]:
        texts = texts_of(events, config.field)
        lines = [split(config.field, text, config.delimiter, len(columns)) for text in texts]
        cells = zip(*lines, strict=True) if lines else [()] * len(columns)
        return {
            column.name: from_texts(column.name, column.kind, [cell or None for cell in each])
            for column, each in zip(columns, cells, strict=True)
        }

    return parsed(config.keep, make)


def split(field: str, text: str, delimiter: str, count: int) -> list[str]:
    """The values of a line of CSV; raises where there are not so many."""
    if '"' in text or "\n" in text or "\r" in text:
        try:
            lines = list(csv.reader([text], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise unfit(field, text, f"it is no line of CSV: {error}") from None
        cells = lines[0] if lines else []
    else:
        cells = text.split(delimiter)
    if len(cells) != count:
        raise unfit(field, text, f"it has {len(cells)} values, not {count}")
    return cells


def _json_parse(config: FieldsConfig) -> Behaviour:
    """The members of JSON objects; those that the config does not name are left out.

    A member that is missing or null is null; one of another kind parks its event.

    >>> from engine.trial import try_out
    >>> config = {"field": "text", "fields": {"room": "string", "warmth": "float"}}
    >>> try_out(json_parse, config, [{"text": '{"room": "a", "warmth": 20, "more": [1]}'}])["out"]
    [{'room': 'a', 'warmth': 20.0}]
    """

    def make(events: pa.RecordBatch) -> Mapping[str, pa.Array]:
        objects = [_object(config.field, text) for text in texts_of(events, config.field)]
        return {
            name: from_json(name, kind, [each.get(name) for each in objects]) for name, kind in config.fields.items()
        }

    return parsed(config.keep, make)


_object_in = msgspec.json.Decoder(dict[str, Any]).decode


def _object(field: str, text: str) -> dict[str, Any]:
    try:
        return _object_in(text)
    except (ValueError, RecursionError) as error:
        raise unfit(field, text, f"it is no JSON object: {error}") from None


def _xml_parse(config: FieldsConfig) -> Behaviour:
    """The text of the first element of each name, at any depth; where there is none, the root's attribute of that name.

    Space around a text does not count, and an empty text is null, as is what the document does not have. A document
    that declares a document type is parked: only such can define entities, and grow when it is read.

    >>> from engine.trial import try_out
    >>> text = '<reading room="a"><warmth unit="C">20.5</warmth></reading>'
    >>> try_out(xml_parse, {"field": "text", "fields": {"room": "string", "warmth": "float"}}, [{"text": text}])["out"]
    [{'room': 'a', 'warmth': 20.5}]
    """

    def make(events: pa.RecordBatch) -> Mapping[str, pa.Array]:
        documents = [_elements(config, text) for text in texts_of(events, config.field)]
        return {
            name: from_texts(name, kind, [each.get(name) for each in documents]) for name, kind in config.fields.items()
        }

    return parsed(config.keep, make)


class _Elements:
    """The texts of some elements of one document."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.texts: dict[str, list[str]] = {}
        self.attributes: dict[str, str] | None = None
        self._wanted = wanted
        self._open: list[list[str] | None] = []
        """For each element around the present place where its text goes."""

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
        raise ValueError("it declares a document type")


def _elements(config: FieldsConfig, text: str) -> dict[str, str | None]:
    found = _Elements(frozenset(config.fields))
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = found.text, found.refuse
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 - it is the last piece, in expat's words
    except (expat.ExpatError, ValueError) as error:
        raise unfit(config.field, text, f"it is no XML document that can be read: {error}") from None
    texts = (found.attributes or {}) | {name: "".join(pieces) for name, pieces in found.texts.items()}
    return {name: texts[name].strip() or None for name in config.fields if name in texts}


senml_parse = Implementation(type=SENML_PARSE, make=_senml_parse)
"""Rows of measurements."""
csv_parse = Implementation(type=CSV_PARSE, make=_csv_parse)
"""Lines of CSV."""
json_parse = Implementation(type=JSON_PARSE, make=_json_parse)
"""JSON objects."""
xml_parse = Implementation(type=XML_PARSE, make=_xml_parse)
"""XML documents."""
