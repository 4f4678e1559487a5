"""Calls of a published function of a batch: `entry(batch: pyarrow.RecordBatch)`.

The function gets the declared fields, and returns a record batch with a row for each that it got, in the same order, or
a pair of such a batch and a boolean array, where false drops the event of that row. So the cause of each event is
known. The outcome of an event must not depend on the others.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from engine.code.cell.calls import WrongOutput

_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_TYPES: Mapping[str, tuple[pa.DataType, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "boolean": (pa.bool_(), (pa.types.is_boolean,)),
    "integer": (pa.int64(), (pa.types.is_integer,)),
    "float": (pa.float64(), (pa.types.is_integer, pa.types.is_floating)),
    "string": (pa.string(), _TEXTS),
    "timestamp": (pa.timestamp("ms", tz="UTC"), (pa.types.is_timestamp,)),
    "json": (pa.string(), _TEXTS),
}
"""The type of the columns of each kind, and the checks of which one has to hold for a column that becomes one."""


class BatchOutcome(NamedTuple):
    """The output of a function for a batch."""

    columns: list[pa.Array]
    """The declared output fields, a row for each event that it got."""
    kept: pa.Array | None
    """Which events it keeps; None for all."""


def called(function: Callable[[Any], Any], batch: pa.RecordBatch, fields: Mapping[str, str]) -> BatchOutcome:
    """Call the function. Raises what it raises, and `WrongOutput`."""
    output = function(batch)
    kept = None
    if isinstance(output, tuple) and len(output) == 2:  # noqa: PLR2004 - a pair
        output, kept = output
        if isinstance(kept, pa.ChunkedArray):
            kept = kept.combine_chunks()
        if not isinstance(kept, pa.BooleanArray) or len(kept) != len(batch) or kept.null_count:
            raise WrongOutput(f"what it keeps is not an array of {len(batch)} booleans without nulls")
    if not isinstance(output, pa.RecordBatch):
        raise WrongOutput(
            f"it returns a {type(output).__name__}, not a RecordBatch, or a pair of one and what it keeps"
        )
    if len(output) != len(batch):
        raise WrongOutput(f"it returns {len(output)} rows for {len(batch)}")
    if len(set(output.schema.names)) < len(output.schema.names):
        raise WrongOutput("it returns two columns of one name")
    for name in output.schema.names:
        if name not in fields and name not in batch.schema.names:
            raise WrongOutput(f"it returns the field {name!r}, which it does not declare")
        if name not in fields and not _same(output.column(name), batch.column(name)):
            raise WrongOutput(f"it changes the field {name!r}, which it does not declare as output")
    return BatchOutcome([_column(output, name, kind) for name, kind in fields.items()], kept)


def plain_columns(columns: Iterable[pa.Array]) -> list[list[Any]]:
    """The values of columns, in which a time is an integer."""
    return [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist() for column in columns
    ]


def warm_up() -> None:
    """Have Arrow load and prepare what it needs for its first calls, such as pandas, if that is installed."""
    batch = pa.record_batch({"n": [1.0, None]})
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        with pa.ipc.open_stream(sink.getvalue()) as stream:
            batch = stream.read_next_batch()
    doubled = called(lambda given: pa.record_batch({"m": pc.multiply(given["n"], 2.0)}), batch, {"m": "float"})
    doubled.columns[0].to_pylist()


def _same(one: pa.Array, other: pa.Array) -> bool:
    if pa.types.is_float64(one.type) and pa.types.is_float64(other.type):
        # As numbers, NaN differs from itself.
        one, other = one.view(pa.int64()), other.view(pa.int64())
    same: bool = one.equals(other)
    return same


def _column(output: pa.RecordBatch, name: str, kind: str) -> pa.Array:
    if name not in output.schema.names:
        raise WrongOutput(f"it does not return the field {name!r}, which it declares")
    column = output.column(name)
    type_, checks = _TYPES[kind]
    if not pa.types.is_null(column.type) and not any(fits(column.type) for fits in checks):
        raise WrongOutput(f"the field {name!r} should be of kind {kind}, and is {column.type}")
    try:
        column = column.cast(type_)
        if kind == "json":
            for text in column.to_pylist():
                if text is not None:
                    json.loads(text)
    except (ValueError, RecursionError):
        raise WrongOutput(f"the field {name!r} should be of kind {kind}, and some of its values are not") from None
    if kind == "float" and pc.all(pc.is_finite(column)).as_py() is False:
        raise WrongOutput(f"the field {name!r} should be of kind float, and some of its values are not finite")
    return column
