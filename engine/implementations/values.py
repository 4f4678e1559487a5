"""The values of a field: how tasks read numbers, refuse what is none, and put a field in an event."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")
"""What a timestamp is in a column."""


class Floating(NamedTuple):
    """A field's numbers as floats; made by `floats`."""

    values: Floats
    """Where there is none, any number."""
    present: Flags


def floats(events: pa.RecordBatch, field: str) -> Floating:
    """The numbers of a field; raises where one is not finite, or the field holds something else than numbers."""
    column = events.column(field)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise ValueError(
            f"the field {field!r} holds {column.type} and no numbers; name a field of kind float or integer"
        )
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    _check(field, values)
    return Floating(values, present)


def check_finite(events: pa.RecordBatch, field: str) -> None:
    """Raise where the field holds a number that is not finite; what is no number passes."""
    column = events.column(field)
    if pa.types.is_floating(column.type):
        _check(field, column.fill_null(0.0).to_numpy(zero_copy_only=False))


def check_present(events: pa.RecordBatch, field: str) -> None:
    """Raise where an event lacks the field."""
    if events.column(field).null_count:
        raise ValueError(f"the field {field!r} is null; it needs a value")


def _check(field: str, values: Floats) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"the field {field!r} is {values[~finite][0]}; it needs a finite number")


def replaced(events: pa.RecordBatch, field: str, values: pa.Array) -> pa.RecordBatch:
    """The events with a field more, or with other values in the one of that name."""
    at = events.schema.get_field_index(field)
    described = pa.field(field, values.type)
    return events.append_column(described, values) if at < 0 else events.set_column(at, described, values)


def nullable(values: Floats, present: Flags) -> pa.Array:
    """Floats as a column, null where there is none."""
    return pa.array(values, mask=~present)


def plain(column: pa.Array) -> list[Any]:
    """Values as state can keep them; a timestamp is its milliseconds."""
    found: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return found


def restored(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """What `plain` gave, as a column again."""
    return pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)


def moments(events: pa.RecordBatch, field: str) -> npt.NDArray[np.int64]:
    """A field's times in milliseconds; raises where one is null, or the field holds something else than times."""
    column = events.column(field)
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"the field {field!r} holds {column.type} and no times; name a field of kind timestamp")
    check_present(events, field)
    found: npt.NDArray[np.int64] = column.cast(TIMESTAMP_TYPE).cast(pa.int64()).to_numpy()
    return found
