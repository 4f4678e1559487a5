"""Values of columns as Python has them, also those that Python has no room for.

A column may hold a moment of the year 12,000 or a text that is no UTF-8, because nobody looks at each value that a task
emits. Whoever writes such events for somebody outside must not end by them.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_AT_ONCE = 1_000
_NO_ROOM = (OverflowError, ValueError)


def python_rows(events: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The fields of each event; instead of a value that Python has no room for a text that tells it.

    >>> list(python_rows(pa.record_batch({"at": pa.array([253_402_387_139_000], pa.timestamp("ms"))})))
    [{'at': '10000-01-01 23:58:59.000'}]
    """
    for start in range(0, len(events), _AT_ONCE):
        some = events.slice(start, _AT_ONCE)
        try:
            yield from some.to_pylist()
        except _NO_ROOM:
            for row in zip(*map(python_values, some.columns), strict=True):
                yield dict(zip(some.schema.names, row, strict=True))


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column, likewise."""
    try:
        values: list[Any] = column.to_pylist()
    except _NO_ROOM:
        values = [_value(column.slice(at, 1)) for at in range(len(column))]
    return values


def _value(only: pa.Array) -> Any:
    try:
        return only.to_pylist()[0]
    except _NO_ROOM:
        text: str = only.to_string(skip_new_lines=True)
        return text[1:-1]
