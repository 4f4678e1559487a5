"""The columns of files, converted to a schema: CSV has only text, and Parquet has its own types."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bridge.output_messages import python_rows, python_values
from bridge.raw_events import ARROW_TYPES, DEEPEST, EARLIEST, LATEST, arrow_schema, deeper_than
from dags import Kind, Schema

_UNFIT = (pa.ArrowException, ValueError, OverflowError, RecursionError)


class Unreplayable(RuntimeError):
    """A file that cannot be replayed: it is missing or malformed, or a value is not of its field's kind."""


def as_events(rows: pa.RecordBatch, schema: Schema, path: Path, before: int) -> pa.RecordBatch:
    """Rows of a file as events; `before` is the number of rows before them, for errors."""
    names = rows.schema.names
    columns = []
    for field in schema.names():
        kind = schema.fields[field]
        if field not in names:
            columns.append(pa.nulls(len(rows), ARROW_TYPES[kind]))
            continue
        column = rows.column(field)
        try:
            columns.append(_cast(column, kind))
        except _UNFIT as error:
            row = next((row for row in range(len(column)) if not _fits(column.slice(row, 1), kind)), 0)
            raise Unreplayable(
                f"{path}, row {before + row + 1}: the field {field!r} should be of kind {kind}, "
                f"but is {python_values(column.slice(row, 1))[0]!r}; correct the file or the source's schema"
            ) from error
    rest = [name for name in names if name not in schema.fields]
    undeclared = [_rest(row) for row in python_rows(rows.select(rest))] if rest else [None] * len(rows)
    columns.append(pa.array(undeclared, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


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


def _fits(column: pa.Array, kind: Kind) -> bool:
    try:
        _cast(column, kind)
    except _UNFIT:
        return False
    return True


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


def _rest(row: dict[str, object]) -> str | None:
    known = {name: value for name, value in row.items() if value is not None}
    return _text(known) if known else None


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
