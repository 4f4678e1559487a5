"""Expressions over the fields of events, computed for whole batches with three-valued logic as in SQL."""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.raw_events import ARROW_TYPES
from dags import Kind, Schema
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.values import check_finite
from engine.records.state import Staged
from engine.tasks.expressions import Name, Node, Value, names, suited
from engine.tasks.filters import WHERE, WhereConfig


def _where(config: WhereConfig) -> Behaviour:
    """A field is written as its name, in double quotes if the name is not a plain word.

    The operators are `= != < <= > >=`, `in (…)`, `is null`, `is not null`, `and`, `or`, `not` and `+ - * /`. The values
    are numbers, `true`, `false` and texts in single quotes. A text that is compared with a time is read as ISO 8601. An
    integer and a float are compared as floats, and a quotient is a float.

    A comparison or computation with null gives null, and so does a division by zero. `null and false` is false, `null
    or true` is true, and `not null` is null. An event for which the expression is null does not pass. An event with NaN
    or an infinity in a named field is parked, and so is one whose integers become too large.

    >>> from engine.trial import try_out
    >>> events = [{"warmth": 31.0, "room": "a"}, {"warmth": 31.0, "room": "x"}, {"warmth": None, "room": "a"}]
    >>> try_out(where, {"expression": "warmth * 9 / 5 + 32 > 80 and room in ('a', 'b')"}, events)
    {'out': [{'room': 'a', 'warmth': 31.0}]}
    """
    expression = config.parsed
    fields = tuple(dict.fromkeys(names(expression)))
    known: dict[pa.Schema, Node] = {}

    def behave(_port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        found = known.get(events.schema)
        if found is None:
            found = known[events.schema] = suited(expression, kinds_of(events.schema, fields))
        for field in fields:
            check_finite(events, field)
        try:
            true = computed(found, events)
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
    operands = [computed(each, events) for each in node.operands]
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
