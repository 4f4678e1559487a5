"""The values of a field: tasks read and check them, and replace fields of events."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")
"""The column type of timestamps."""


class Floating(NamedTuple):
    """A field's numbers as floats; made by `floats`."""

    values: Floats
    """Any number where the value is null."""
    present: Flags


def floats(events: pa.RecordBatch, field: str) -> Floating:
    """The numbers of a field. Raises if one is not finite, or if they are not numbers."""
    column = events.column(field)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise ValueError(
            f"the field {field!r} is of type {column.type}, not a number; choose a field of kind float or integer"
        )
    if column.type == pa.float64() and not column.null_count:
        # With few events, each call of Arrow costs more than their values do.
        values = column.to_numpy()
        _check(field, values)
        return Floating(values, np.ones(len(column), bool))
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    _check(field, values)
    return Floating(values, present)


def check_finite(events: pa.RecordBatch, field: str) -> None:
    """Raise if a number of the field is not finite. Other values pass."""
    column = events.column(field)
    if pa.types.is_floating(column.type):
        _check(field, column.fill_null(0.0).to_numpy(zero_copy_only=False))


def check_present(events: pa.RecordBatch, field: str) -> None:
    """Raise if the field is null in an event."""
    if events.column(field).null_count:
        raise ValueError(f"the field {field!r} is null; it needs a value")


def _check(field: str, values: Floats) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"the field {field!r} is {values[~finite][0]}; it needs a finite number")


def replaced(events: pa.RecordBatch, field: str, values: pa.Array) -> pa.RecordBatch:
    """Add a field to the events, or replace the one of that name."""
    at = events.schema.get_field_index(field)
    described = pa.field(field, values.type)
    return events.append_column(described, values) if at < 0 else events.set_column(at, described, values)


def nullable(values: Floats, present: Flags) -> pa.Array:
    """Make a column of floats, null where not present."""
    return pa.array(values, mask=~present)


def plain(column: pa.Array) -> list[Any]:
    """Values in a form that state can keep. Timestamps become milliseconds."""
    found: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return found


def restored(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Make a column from values of `plain`."""
    return pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)


def moments(events: pa.RecordBatch, field: str) -> npt.NDArray[np.int64]:
    """The times of a field in milliseconds. Raises if one is null, or if they are not times."""
    column = events.column(field)
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"the field {field!r} is of type {column.type}, not a time; choose a field of kind timestamp")
    check_present(events, field)
    found: npt.NDArray[np.int64] = column.cast(TIMESTAMP_TYPE).cast(pa.int64()).to_numpy()
    return found
