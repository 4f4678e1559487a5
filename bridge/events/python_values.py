"""The values of columns as Python values, even those that Python cannot represent.

The values that a task emits are not checked, so a column may hold a time in the year 12,000, or a text that is not
UTF-8. Such events must not stop the code that writes them for readers outside.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_AT_ONCE = 1_000
_UNREPRESENTABLE = (OverflowError, ValueError)


def python_rows(events: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The fields of each event; a value that Python cannot represent becomes a text.

    >>> list(python_rows(pa.record_batch({"at": pa.array([253_402_387_139_000], pa.timestamp("ms"))})))
    [{'at': '10000-01-01 23:58:59.000'}]
    """
    for start in range(0, len(events), _AT_ONCE):
        some = events.slice(start, _AT_ONCE)
        try:
            yield from some.to_pylist()
        except _UNREPRESENTABLE:
            for row in zip(*map(python_values, some.columns), strict=True):
                yield dict(zip(some.schema.names, row, strict=True))


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column; a value that Python cannot represent becomes a text."""
    try:
        values: list[Any] = column.to_pylist()
    except _UNREPRESENTABLE:
        values = [_value(column.slice(at, 1)) for at in range(len(column))]
    return values


def _value(only: pa.Array) -> Any:
    try:
        return only.to_pylist()[0]
    except _UNREPRESENTABLE:
        text: str = only.to_string(skip_new_lines=True)
        return text[1:-1]
