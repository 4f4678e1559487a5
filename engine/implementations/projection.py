"""Projections, computed column by column, and lists that are taken apart."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bridge.raw_events import ARROW_TYPES
from dags import Kind
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.conversion import from_json, unfit
from engine.implementations.values import check_finite
from engine.implementations.where import computed, kinds_of
from engine.records.state import Staged
from engine.tasks.expressions import Node, names, typed
from engine.tasks.projection import PROJECT, UNNEST, ProjectConfig, UnnestConfig


def _project(config: ProjectConfig) -> Behaviour:
    """Expressions are those of [`where`](#where), of any kind, such as `'a text'` or `warmth * 9 / 5 + 32`.

    Where an expression is null, so is its field. An event with NaN or an infinity in a named field is parked, and so is
    one for which an expression gives that, or whose integers become too large.

    >>> from engine.trial import try_out
    >>> config = {"fields": ["room"], "computed": {"fahrenheit": "warmth * 9 / 5 + 32", "warm": "warmth > 25"}}
    >>> try_out(project, config, [{"warmth": 20.0, "room": "a", "dust": 7}])["out"]
    [{'room': 'a', 'fahrenheit': 68.0, 'warm': False}]
    """
    parts = config.parsed
    fields = tuple(dict.fromkeys(field for each in parts.values() for field in names(each)))
    known: dict[pa.Schema, Mapping[str, tuple[Node, Kind]]] = {}

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        found = known.get(events.schema)
        if found is None:
            kinds = kinds_of(events.schema, fields)
            found = known[events.schema] = {name: typed(each, kinds) for name, each in parts.items()}
        for field in fields:
            check_finite(events, field)
        columns = {name: events.column(name) for name in config.fields}
        columns |= {name: _column(name, node, kind, events) for name, (node, kind) in found.items()}
        made = pa.record_batch(columns)
        for name in found:
            check_finite(made, name)
        return {"out": PortEmission(made)}

    return behave


def _column(name: str, node: Node, kind: Kind, events: pa.RecordBatch) -> pa.Array:
    try:
        found: Any = computed(node, events)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the field {name!r} cannot be computed: {error}") from error
    type_ = ARROW_TYPES[kind]
    return pa.repeat(found.cast(type_), events.num_rows) if isinstance(found, pa.Scalar) else found.cast(type_)


def _unnest(config: UnnestConfig) -> Behaviour:
    """An item that is null gives an event with a null, and an empty array no event.

    An event whose field is null or no array is parked, and so is one with an item of another kind.

    >>> from engine.trial import try_out
    >>> config = {"field": "words", "kind": "string", "keep": ["line"]}
    >>> try_out(unnest, config, [{"line": 1, "words": ["to", "be"]}, {"line": 2, "words": []}])["out"]
    [{'line': 1, 'words': 'to'}, {'line': 1, 'words': 'be'}]
    """

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        lists = [_items(config.field, text) for text in events.column(config.field).to_pylist()]
        items = from_json(config.field, config.kind, [item for each in lists for item in each])
        origin = np.repeat(np.arange(len(lists), dtype=np.int64), [len(each) for each in lists])
        kept = {name: events.column(name).take(pa.array(origin)) for name in config.keep}
        return {"out": PortEmission(pa.record_batch({**kept, config.field: items}), origin)}

    return behave


_array_in = msgspec.json.Decoder(list[Any]).decode


def _items(field: str, text: str | None) -> list[Any]:
    if text is None:
        raise unfit(field, text, "it needs a JSON array")
    try:
        return _array_in(text)
    except (ValueError, RecursionError) as error:
        raise unfit(field, text, f"it is not a JSON array: {error}") from None


project = Implementation(type=PROJECT, make=_project)
unnest = Implementation(type=UNNEST, make=_unnest)
