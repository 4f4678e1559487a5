"""Receipts: events with the place where they were written."""

from collections.abc import Sequence

import pyarrow as pa

from engine.tasks.outside import RECEIPT


def with_receipts(events: pa.RecordBatch, receipts: Sequence[str]) -> pa.RecordBatch:
    """Add receipts to events, in place of earlier ones."""
    return with_field(events, RECEIPT, pa.array(receipts, pa.string()))


def with_field(events: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Add a field to events, or replace the one of that name."""
    at = events.schema.get_field_index(name)
    field = pa.field(name, values.type)
    return events.append_column(field, values) if at < 0 else events.set_column(at, field, values)
