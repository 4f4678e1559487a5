"""Annotation: tasks that write events as texts, or add known fields."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.conversion import from_json, milliseconds, number, texts_of, unfit
from engine.implementations.parse import parsed, split
from engine.implementations.values import replaced
from engine.records.state import Staged
from engine.tasks.parse import ANNOTATE, CSV_TO_SENML, AnnotateConfig, CsvToSenmlConfig


def _csv_to_senml(config: CsvToSenmlConfig) -> Behaviour:
    """Writes rows for `senml_parse`, with all values as texts.

    A value that is null, or empty in a line of CSV, is left out. An event without a time is parked, and so is one with
    a number that is unreadable or not finite.

    >>> from engine.trial import try_out
    >>> config = {"time": "at", "measurements": [{"name": "warmth", "unit": "C"}, {"name": "room", "type": "sv"}]}
    >>> try_out(csv_to_senml, config, [{"at": 2000, "warmth": 20.5, "room": "a"}])["out"]
    [{'senml': '{"e":[{"u":"C","n":"warmth","v":"20.5"},{"u":"","n":"room","sv":"a"}],"bt":2000}'}]
    """
    columns_of = _fields_of(config) if config.field is None else _cells_of(config, config.field)

    def make(events: pa.RecordBatch) -> Mapping[str, pa.Array]:
        times, *columns = columns_of(events)
        rows = []
        for time, *values in zip(times, *columns, strict=True):
            entries = [
                {"u": each.unit, "n": each.name, each.type: value}
                for each, value in zip(config.measurements, values, strict=True)
                if value is not None
            ]
            try:
                at = milliseconds(time if isinstance(time, int) else int(time))
            except (TypeError, ValueError):
                raise unfit(config.time, time, "it needs a time in milliseconds") from None
            rows.append(msgspec.json.encode({"e": entries, "bt": at}).decode())
        return {"senml": pa.array(rows, pa.string())}

    return parsed(config.keep, make)


def _fields_of(config: CsvToSenmlConfig) -> Callable[[pa.RecordBatch], list[Sequence[Any]]]:
    def columns(events: pa.RecordBatch) -> list[Sequence[Any]]:
        return [
            pc.cast(events.column(config.time), pa.int64()).to_pylist(),
            *([_written(each.name, v) for v in _plain(events.column(each.name))] for each in config.measurements),
        ]

    return columns


def _plain(column: pa.Array) -> list[Any]:
    found: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return found


def _written(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not np.isfinite(value):
        raise unfit(name, value, "it needs a finite number")
    return repr(value)


def _cells_of(config: CsvToSenmlConfig, field: str) -> Callable[[pa.RecordBatch], list[Sequence[Any]]]:
    places = [config.columns.index(each.name) for each in config.measurements]
    numbers = [(config.columns.index(each.name), each.name) for each in config.measurements if each.type == "v"]

    def columns(events: pa.RecordBatch) -> list[Sequence[Any]]:
        lines = [split(field, text, ",", len(config.columns)) for text in texts_of(events, field)]
        for line in lines:
            for place, name in numbers:
                try:
                    number(line[place] or 0)
                except ValueError:
                    raise unfit(name, line[place], "it should be a finite number") from None
        time = config.columns.index(config.time)
        return [[line[time] for line in lines], *([line[place] or None for line in lines] for place in places)]

    return columns


def _annotate(config: AnnotateConfig) -> Behaviour:
    """Replaces fields that the event already has.

    An id that is null is unknown. A number is looked up as its text.

    >>> from engine.trial import try_out
    >>> config = {"field": "room", "fields": {"floor": "integer"}, "known": {"a": {"floor": 2}}}
    >>> try_out(annotate, config, [{"room": "a"}, {"room": "x"}])["out"]
    [{'room': 'a', 'floor': 2}]
    """
    ids = pa.array(list(config.known), pa.string())
    known = {
        name: from_json(name, kind, [each.get(name) for each in config.known.values()])
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


csv_to_senml = Implementation(type=CSV_TO_SENML, make=_csv_to_senml)
annotate = Implementation(type=ANNOTATE, make=_annotate)
