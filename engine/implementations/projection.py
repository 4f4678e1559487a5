"""Expressions over the fields of events, the tasks that keep or make fields by them, and lists that are taken apart.

An expression is computed for a whole batch, column by column, with three-valued logic as in SQL.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.raw_events import ARROW_TYPES
from dags import Kind, Schema
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.values import check_finite, from_json, one_port, unfit
from engine.records.state import Staged
from engine.tasks.expressions import Name, Node, Value, names, suited, typed
from engine.tasks.filters import WHERE, WhereConfig
from engine.tasks.projection import PROJECT, UNNEST, ProjectConfig, UnnestConfig


def _where(config: WhereConfig) -> Behaviour:
    """A field is written as its name, in double quotes if the name is not a plain word.

    The operators are `= != < <= > >=`, `in (…)`, `is null`, `is not null`, `and`, `or`, `not` and `+ - * /`. The values
    are numbers, `true`, `false` and texts in single quotes. A text that is compared with a time is read as ISO 8601. An
    integer and a float are compared as floats, and a quotient is a float.

    A comparison or computation with null gives null, and so does a division by zero. `null and false` is false, `null
    or true` is true, and `not null` is null. An event for which the expression is null does not pass. An event with NaN
    or an infinity in a named field is parked, and so is one whose integers become too large.

    >>> events = [{"warmth": 31.0, "room": "a"}, {"warmth": 31.0, "room": "x"}, {"warmth": None, "room": "a"}]
    >>> try_out(where, {"expression": "warmth * 9 / 5 + 32 > 80 and room in ('a', 'b')"}, events)
    {'out': [{'room': 'a', 'warmth': 31.0}]}
    """
    expression = config.parsed
    fields = tuple(dict.fromkeys(names(expression)))

    @cache
    def checked(schema: pa.Schema) -> Node:
        return suited(expression, kinds_of(schema, fields))

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        node = checked(events.schema)
        for field in fields:
            check_finite(events, field)
        try:
            true = computed(node, events)
        except pa.ArrowInvalid as error:
            values = {field: events.column(field)[0].as_py() for field in fields} if events.num_rows == 1 else fields
            raise ValueError(f"the expression cannot be computed for {values}: {error}") from error
        if isinstance(true, pa.Scalar):
            true = pa.array(np.full(events.num_rows, bool(true.as_py())))
        true = true.fill_null(False)  # noqa: FBT003 - it is the value
        if pc.all(true).as_py() is not False:
            return {"out": PortEmission(events)}
        return {"out": PortEmission(events.filter(true), np.flatnonzero(true))}

    return behave


def kinds_of(schema: pa.Schema, fields: Iterable[str]) -> Schema:
    """The kinds of some fields of events."""
    return Schema.of({field: _KIND_OF[schema.field(field).type] for field in fields})


_KIND_OF = {type_: kind for kind, type_ in ARROW_TYPES.items() if kind is not Kind.JSON}
"""Text and JSON are both strings here. That JSON is not compared was checked when the task was submitted."""


def computed(node: Node, events: pa.RecordBatch) -> Any:
    """The value of an expression for each event, or one for all."""
    if isinstance(node, Value):
        return pa.scalar(node.value)
    if isinstance(node, Name):
        return events.column(node.name)
    operands = [computed(operand, events) for operand in node.operands]
    if node.operator == "in":
        return reduce(pc.or_kleene, [pc.equal(operands[0], value) for value in operands[1:]])
    return reduce(_OPERATORS[node.operator], operands) if len(operands) > 1 else _ALONE[node.operator](operands[0])


def _quotient(left: Any, right: Any) -> Any:
    divisor = pc.cast(right, pa.float64(), safe=False)
    divisor = pc.if_else(pc.equal(divisor, 0.0), pa.scalar(None, pa.float64()), divisor)
    return pc.divide(pc.cast(left, pa.float64(), safe=False), divisor)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": _quotient,
}
_ALONE: Mapping[str, Callable[[Any], Any]] = {"not": pc.invert, "is null": pc.is_null, "minus": pc.negate_checked}

where = Implementation(type=WHERE, make=_where)


def _project(config: ProjectConfig) -> Behaviour:
    """Expressions are those of [`where`](#where), of any kind, such as `'a text'` or `warmth * 9 / 5 + 32`.

    Where an expression is null, so is its field. An event with NaN or an infinity in a named field is parked, and so is
    one for which an expression gives that, or whose integers become too large.

    >>> config = {"fields": ["room"], "computed": {"fahrenheit": "warmth * 9 / 5 + 32", "warm": "warmth > 25"}}
    >>> try_out(project, config, [{"warmth": 20.0, "room": "a", "dust": 7}])["out"]
    [{'room': 'a', 'fahrenheit': 68.0, 'warm': False}]
    """
    parts = config.parsed
    fields = tuple(dict.fromkeys(field for part in parts.values() for field in names(part)))

    @cache
    def checked(schema: pa.Schema) -> Mapping[str, tuple[Node, Kind]]:
        kinds = kinds_of(schema, fields)
        return {name: typed(node, kinds) for name, node in parts.items()}

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        nodes = checked(events.schema)
        for field in fields:
            check_finite(events, field)
        columns = {name: events.column(name) for name in config.fields}
        columns |= {name: _column(name, node, kind, events) for name, (node, kind) in nodes.items()}
        made = pa.record_batch(columns)
        for name in nodes:
            check_finite(made, name)
        return {"out": PortEmission(made)}

    return behave


def _column(name: str, node: Node, kind: Kind, events: pa.RecordBatch) -> pa.Array:
    try:
        value: Any = computed(node, events)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the field {name!r} cannot be computed: {error}") from error
    type_ = ARROW_TYPES[kind]
    return pa.repeat(value.cast(type_), events.num_rows) if isinstance(value, pa.Scalar) else value.cast(type_)


def _unnest(config: UnnestConfig, events: pa.RecordBatch, _state: Staged) -> PortEmission:
    """An item that is null gives an event with a null, and an empty array no event.

    An event whose field is null or no array is parked, and so is one with an item of another kind.

    >>> config = {"field": "words", "kind": "string", "keep": ["line"]}
    >>> try_out(unnest, config, [{"line": 1, "words": ["to", "be"]}, {"line": 2, "words": []}])["out"]
    [{'line': 1, 'words': 'to'}, {'line': 1, 'words': 'be'}]
    """
    lists = [_items(config.field, text) for text in events.column(config.field).to_pylist()]
    items = from_json(config.field, config.kind, [item for values in lists for item in values])
    origin = np.repeat(np.arange(len(lists), dtype=np.int64), [len(values) for values in lists])
    kept = {name: events.column(name).take(pa.array(origin)) for name in config.keep}
    return PortEmission(pa.record_batch({**kept, config.field: items}), origin)


_array_in = msgspec.json.Decoder(list[Any]).decode


def _items(field: str, text: str | None) -> list[Any]:
    if text is None:
        raise unfit(field, text, "it needs a JSON array")
    try:
        return _array_in(text)
    except (ValueError, RecursionError) as error:
        raise unfit(field, text, f"it is not a JSON array: {error}") from None


project = Implementation(type=PROJECT, make=_project)
unnest = Implementation(type=UNNEST, make=one_port(_unnest))
