"""Receipts: events with what was written where."""

from collections.abc import Sequence

import pyarrow as pa

from engine.tasks.outside import RECEIPT


def with_receipts(events: pa.RecordBatch, receipts: Sequence[str]) -> pa.RecordBatch:
    """Events, each with its receipt; it takes the place of one that it has already."""
    return with_field(events, RECEIPT, pa.array(receipts, pa.string()))


def with_field(events: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Events with one field more, or another one of its name."""
    at = events.schema.get_field_index(name)
    field = pa.field(name, values.type)
    return events.append_column(field, values) if at < 0 else events.set_column(at, field, values)
