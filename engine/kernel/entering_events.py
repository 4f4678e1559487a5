"""Events that enter a plan, as the columns that the plan declares for their stream.

A spool keeps them as they were declared when they came. A source's schema may be another one by then, or one job may
read by the schema before and another by the one after. Such events are read again, as if they came now.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bridge.output_messages import event_texts
from bridge.raw_events import arrow_schema, rows_in
from dags import Schema
from engine.event_streams import Numbers, conformed, nothing
from engine.kernel.task_run import reason_of


class UnfitEvents(NamedTuple):
    """Events that do not fit, with the reason."""

    reason: str
    events: pa.RecordBatch


class EnteringEvents(NamedTuple):
    """The events of a batch that fit, and the others."""

    rows: pa.RecordBatch
    kept: Numbers
    """The index of each row in the batch."""
    unfit: tuple[tuple[int, UnfitEvents], ...] = ()
    """The others, each with the index of the first."""


def entering(batch: pa.RecordBatch, schema: Schema) -> EnteringEvents:
    """The events of a batch with the columns of a schema.

    >>> from dags import Kind
    >>> was = pa.record_batch({"t": [1.5, 2.5], "_rest": ['{"unit":"C"}', '{"unit":5}']})
    >>> now = entering(was, Schema.of(unit=Kind.STRING))
    >>> now.rows.to_pylist(), now.kept.tolist(), [(at, unfit.reason) for at, unfit in now.unfit]
    ([{'unit': 'C', '_rest': '{"t":1.5}'}], [0], [(1, "the field 'unit' should be of kind string")])
    """
    wanted = arrow_schema(schema)
    if batch.schema.equals(wanted):
        return EnteringEvents(conformed(batch, wanted), np.arange(len(batch)))
    unfit: dict[int, str] = {}

    def note(place: int, error: ValueError) -> None:
        unfit.setdefault(place, str(error))

    rows = rows_in(_read(batch), schema, on_unfit=note)
    kept = np.array([at for at in range(len(batch)) if at not in unfit], np.int64)
    others = ((at, UnfitEvents(reason, batch.slice(at, 1))) for at, reason in sorted(unfit.items()))
    return EnteringEvents(conformed(rows, wanted), kept, tuple(others))


def from_bridge(batch: pa.RecordBatch, schema: pa.Schema) -> EnteringEvents:
    """The events of a batch from another job with the columns of its stream: all of them, or none."""
    try:
        return EnteringEvents(conformed(batch, schema), np.arange(len(batch)))
    except pa.ArrowException as error:
        unfit = UnfitEvents(reason_of(error), batch)
        return EnteringEvents(nothing(schema), np.empty(0, np.int64), ((0, unfit),))


def _read(batch: pa.RecordBatch) -> Iterator[object]:
    return map(json.loads, event_texts(batch))
