"""Events that enter a plan, as the columns that the plan declares for their stream.

A spool keeps them as they were declared when they came. A source's schema may be another one by then, or one job may
read by the schema before and another by the one after. Such events are read again, as if they came now.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from bridge.events.output_messages import event_texts
from bridge.events.raw_events import arrow_schema, rows_in
from dags import Schema
from engine.event_streams import conformed


class EnteringEvents(NamedTuple):
    """The events of a batch that fit, and the others."""

    rows: pa.RecordBatch
    kept: tuple[int, ...]
    """The index of each row in the batch."""
    unfit: tuple[tuple[int, str], ...] = ()
    """The index of each other event, with the reason."""


def entering(batch: pa.RecordBatch, schema: Schema) -> EnteringEvents:
    """The events of a batch with the columns of a schema.

    >>> from dags import Kind
    >>> was = pa.record_batch({"t": [1.5, 2.5], "_rest": ['{"unit":"C"}', '{"unit":5}']})
    >>> now = entering(was, Schema.of(unit=Kind.STRING))
    >>> now.rows.to_pylist(), now.kept, now.unfit
    ([{'unit': 'C', '_rest': '{"t":1.5}'}], (0,), ((1, "the field 'unit' should be of kind string"),))
    """
    wanted = arrow_schema(schema)
    if batch.schema.equals(wanted):
        return EnteringEvents(conformed(batch, wanted), tuple(range(len(batch))))
    unfit: dict[int, str] = {}

    def note(place: int, error: ValueError) -> None:
        unfit.setdefault(place, str(error))

    rows = rows_in(_read(batch), schema, on_unfit=note)
    kept = tuple(at for at in range(len(batch)) if at not in unfit)
    return EnteringEvents(conformed(rows, wanted), kept, tuple(sorted(unfit.items())))


def _read(batch: pa.RecordBatch) -> Iterator[object]:
    return map(json.loads, event_texts(batch))
