"""Parsing: tasks that turn a text in each event into fields.

Every task here parks an event whose text is null or cannot be read. A value that the text lacks is null.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.parsers import expat

import msgspec
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.conversion import from_json, from_texts, texts_of, unfit
from engine.implementations.senml import senml_rows
from engine.records.state import Staged
from engine.tasks.parse import (
    CSV_PARSE,
    JSON_PARSE,
    SENML_PARSE,
    XML_PARSE,
    CsvParseConfig,
    FieldsConfig,
)


def parsed(keep: Sequence[str], make: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]) -> Behaviour:
    """A behaviour that keeps some fields of each event, and makes new ones in place of the others."""

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        kept = {name: events.column(name) for name in keep}
        return {"out": PortEmission(pa.record_batch({**kept, **make(events)}))}

    return behave


def _csv_parse(config: CsvParseConfig) -> Behaviour:
    """Values are separated by the delimiter. A value may be in double quotes, which are doubled inside.

    An empty value is null. A line whose number of values is not that of the columns is parked.

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


def _json_parse(config: FieldsConfig) -> Behaviour:
    """Members that the config does not name are left out.

    A missing member is null. A member of another kind parks its event.

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
        raise unfit(field, text, f"it is not a JSON object: {error}") from None


def _xml_parse(config: FieldsConfig) -> Behaviour:
    """Takes the text of the first element of each name, at any depth, or else the root's attribute of that name.

    Space around a text is removed. An empty text is null, and so is a missing one. A document with a document type is
    parked, since it could define entities that expand without limit.

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


def _elements(config: FieldsConfig, text: str) -> dict[str, str | None]:
    found = _Elements(frozenset(config.fields))
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = found.text, found.refuse
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 - expat's flag for the last piece
    except (expat.ExpatError, ValueError) as error:
        raise unfit(config.field, text, f"it is not an XML document: {error}") from None
    texts = (found.attributes or {}) | {name: "".join(pieces) for name, pieces in found.texts.items()}
    return {name: texts[name].strip() or None for name in config.fields if name in texts}


senml_parse = Implementation(type=SENML_PARSE, make=senml_rows)
csv_parse = Implementation(type=CSV_PARSE, make=_csv_parse)
json_parse = Implementation(type=JSON_PARSE, make=_json_parse)
xml_parse = Implementation(type=XML_PARSE, make=_xml_parse)
