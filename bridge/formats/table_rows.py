"""The rows of a table, such as a part of a Parquet file, as events of a source's schema.

Columns are converted to the kinds of their fields, all at once. Only if a value does not fit, each is looked at alone.
Columns that the schema does not declare stay together in one, as JSON.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.output_messages import python_rows, python_values
from bridge.raw_events import ARROW_TYPES, DEEPEST, EARLIEST, LATEST, arrow_schema, deeper_than
from dags import Kind, Schema

_UNFIT = (pa.ArrowException, ValueError, OverflowError, RecursionError)


class UnfitRow(NamedTuple):
    """A row that does not fit the schema; made by `table_events`."""

    row: int
    """Its place in the table."""
    reason: str


def table_events(rows: pa.RecordBatch, schema: Schema) -> tuple[pa.RecordBatch, Sequence[UnfitRow]]:
    """The rows as events, and those that do not fit, in their order.

    >>> rows = pa.RecordBatch.from_pydict({"t": ["1", "-"], "x": [3, 4]})
    >>> events, unfit = table_events(rows, Schema.of(t=Kind.FLOAT))
    >>> events.to_pylist(), unfit[0].reason
    ([{'t': 1.0, '_rest': '{"x":3}'}], "the field 't' should be of kind float, but is '-'")
    """
    unfit: dict[int, str] = {}
    columns = [_declared(rows, name, schema.fields[name], unfit) for name in schema.names()]
    columns.append(_undeclared(rows, schema, unfit))
    events = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
    if unfit:
        events = events.filter(pa.array(np.isin(np.arange(len(rows)), list(unfit), invert=True)))
    return events, [UnfitRow(*row) for row in sorted(unfit.items())]


def _declared(rows: pa.RecordBatch, name: str, kind: Kind, unfit: dict[int, str]) -> pa.Array:
    """A declared column, with nulls for values that do not fit, which are noted."""
    if name not in rows.schema.names:
        return pa.nulls(len(rows), ARROW_TYPES[kind])
    column = rows.column(name)
    try:
        return _cast(column, kind)
    except _UNFIT:
        values = [_alone(column.slice(row, 1), kind) for row in range(len(column))]
    for row, value in enumerate(values):
        if value is None:
            shown = repr(python_values(column.slice(row, 1))[0])
            unfit.setdefault(row, f"the field {name!r} should be of kind {kind}, but is {shown}")
    return pa.concat_arrays([pa.nulls(1, ARROW_TYPES[kind]) if value is None else value for value in values])


def _alone(value: pa.Array, kind: Kind) -> pa.Array | None:
    try:
        return _cast(value, kind)
    except _UNFIT:
        return None


def _undeclared(rows: pa.RecordBatch, schema: Schema, unfit: dict[int, str]) -> pa.Array:
    """The undeclared columns as one."""
    rest = [name for name in rows.schema.names if name not in schema.fields]
    if not rest:
        return pa.nulls(len(rows), pa.string())
    texts: list[str | None] = []
    for row, values in enumerate(python_rows(rows.select(rest))):
        # Files write missing numbers as NaN, which differs from itself.
        known = {name: value for name, value in values.items() if value is not None and value == value}  # noqa: PLR0124
        try:
            texts.append(_text(known) if known else None)
        except _UNFIT:
            texts.append(None)
            unfit.setdefault(row, "an undeclared field has a value that JSON cannot represent")
    return pa.array(texts, pa.string())


def _cast(column: pa.Array, kind: Kind) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), ARROW_TYPES[kind])
    match kind:
        case Kind.TIMESTAMP:
            moments = _timestamps(column)
            ends = pc.min_max(moments.cast(pa.int64())).as_py()
            if ends["min"] is not None and not EARLIEST <= ends["min"] <= ends["max"] <= LATEST:
                raise ValueError("outside of the years 1 to 9999")
            return moments
        case Kind.JSON:
            return _json(column)
        case Kind.FLOAT:
            numbers = column.cast(pa.float64())
            # Files write missing numbers as NaN.
            numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
            if pc.any(pc.is_inf(numbers)).as_py():
                raise ValueError("infinite")
            return numbers
        case _:
            return column.cast(ARROW_TYPES[kind])


def _timestamps(column: pa.Array) -> pa.Array:
    """Times; whole numbers are milliseconds since the epoch, and times without a zone are UTC."""
    moment = ARROW_TYPES[Kind.TIMESTAMP]
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column.cast(pa.timestamp("ms", tz=getattr(column.type, "tz", None)), safe=False).cast(moment)
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column.cast(pa.int64()).cast(moment)
    for read in _TIME_READERS:
        try:
            return read(column).cast(moment)
        except pa.ArrowException:
            continue
    return pa.array([None if text is None else _moment(text) for text in column.to_pylist()], moment)


_TIME_READERS: tuple[Callable[[pa.Array], pa.Array], ...] = (
    lambda texts: texts.cast(pa.int64()),
    lambda texts: texts.cast(pa.timestamp("ms")),
    lambda texts: texts.cast(pa.timestamp("ms", tz="UTC")),
)
"""Fast ways to read times, for columns as a whole."""


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json(column: pa.Array) -> pa.Array:
    values = python_values(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        for text in values:
            if text is not None and deeper_than(json.loads(text), DEEPEST):
                raise ValueError("nested too deeply")
        return column.cast(pa.string())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str, allow_nan=False)
    # Counting brackets costs next to nothing.
    if text.count("{") + text.count("[") > DEEPEST and deeper_than(value, DEEPEST):
        raise RecursionError
    return text
