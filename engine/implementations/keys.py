"""Events by key: batches sorted by the key of the state."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
_SHORT = 2**16


class Keyed(NamedTuple):
    """The events of a batch, sorted by key. Those of one key keep their order."""

    keys: list[tuple[Any, ...]]
    """Each key once. Timestamps are numbers, and both zeros are the same."""
    order: Numbers
    """The indexes of the events: those of the first key, then those of the second, and so on."""
    bounds: Numbers
    """The beginning of each key in the order, and the end of the last one."""


def keyed(events: pa.RecordBatch, by: Sequence[str]) -> Keyed:
    """Sort events by the fields of their key. Nulls and NaNs are values like any other."""
    count = events.num_rows
    if not by or not count:
        return Keyed([()] if count else [], np.arange(count), np.array([0, count] if count else [0]))
    columns = [_comparable(events.column(name)) for name in by]
    codes, values = _codes(columns[0])
    for column in columns[1:]:
        more, others = _codes(column)
        codes, values = _codes(pa.array(codes * len(others) + more))
    many = len(values)
    # Short integers are sorted by radix, in linear time.
    order = np.argsort(codes.astype(np.uint16) if many <= _SHORT else codes, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=many))))
    if len(columns) == 1:
        return Keyed([(value,) for value in values.to_pylist()], order, bounds)
    firsts = pa.array(order[bounds[:-1]])
    keys = list(zip(*(column.take(firsts).to_pylist() for column in columns), strict=True))
    return Keyed(keys, order, bounds)


def _comparable(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.add(column, 0.0)
    return column


def _codes(column: pa.Array) -> tuple[Numbers, pa.Array]:
    """A small number for each value, and the values by their numbers."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def key_columns(events: pa.RecordBatch, by: Sequence[str], name: str, values: pa.Array) -> pa.RecordBatch:
    """The fields of the key and one more, which replaces a key field of the same name."""
    columns = {field: events.column(field) for field in by} | {name: values}
    return pa.record_batch(columns)
