"""Streams inside the kernel: events with their causes, and ways to combine streams.

Every raw event of a batch is a cause and has a number, in the order of arrival. The events that a task emits for an
event have the same cause. So causes never decrease along a stream, and they determine how streams are merged.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridge.wire import Birth

Numbers = npt.NDArray[np.int64]


class Arrived(NamedTuple):
    """Events of one item of a spool, as they enter the kernel."""

    stream: str
    first: int
    """The position of the first event."""
    count: int  # type: ignore[assignment]  # hides the tuple's method, which is not used
    stamp: int
    """The time when they were spooled, in milliseconds."""
    payload: bytes
    """The events as an Arrow IPC stream."""
    births: tuple[Birth, ...] = ()
    """The times of birth of all of them; empty if unknown."""


class EventStream(NamedTuple):
    """Events in order, each with its cause."""

    rows: pa.RecordBatch
    causes: Numbers

    def __len__(self) -> int:
        return len(self.causes)

    def take(self, indexes: Numbers) -> "EventStream":
        """The events at some indexes, in ascending order."""
        if len(indexes) == len(self):
            return self
        return EventStream(self.rows.take(pa.array(indexes)), self.causes[indexes])

    def slice(self, first: int, end: int) -> "EventStream":
        """The events between two indexes."""
        return EventStream(self.rows.slice(first, end - first), self.causes[first:end])


class PortRun(NamedTuple):
    """Consecutive events at one input port."""

    port: str
    stream: EventStream


def in_order(items: Iterable[Arrived]) -> Iterator[tuple[int, Arrived]]:
    """Items in the order of arrival, each with the cause of its first event."""
    # The order within a stream is kept even if the clock went back between two of its items.
    stamps: dict[str, int] = {}
    keys: list[tuple[int, str, int]] = []
    items = sorted(items, key=lambda item: (item.stream, item.first))
    for item in items:
        stamps[item.stream] = max(stamps.get(item.stream, item.stamp), item.stamp)
        keys.append((stamps[item.stream], item.stream, item.first))
    ordered = [item for _, item in sorted(zip(keys, items, strict=True), key=itemgetter(0))]
    return zip(accumulate((item.count for item in ordered), initial=0), ordered, strict=False)


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """An empty batch of a schema."""
    return pa.record_batch([pa.array([], kind) for kind in schema.types], schema=schema)


def shared(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The fields that all schemas have with the same type, in the order of the first.

    >>> text, number = pa.string(), pa.float64()
    >>> shared([pa.schema({"b": text, "a": number}), pa.schema({"a": number, "b": number})]).names
    ['a']
    """
    first = schemas[0]
    others = [dict(zip(other.names, other.types, strict=True)) for other in schemas[1:] if not other.equals(first)]
    return pa.schema([field for field in first if all(types.get(field.name) == field.type for types in others)])


def conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The events with exactly these fields. Missing fields are null; fields of another type are converted."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    if rows.schema.equals(schema):
        # Only the fields' metadata differ.
        return pa.RecordBatch.from_arrays(rows.columns, schema=schema) if len(schema) else rows.select([])
    if not len(schema):
        return rows.select([])
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def without_metadata(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The events without the metadata of their schema; fields keep theirs."""
    return rows if rows.schema.metadata is None else rows.replace_schema_metadata(None)


def joined(streams: Sequence[EventStream], schema: pa.Schema) -> EventStream:
    """Streams of one schema, one after the other."""
    if len(streams) == 1:
        return streams[0]
    if not streams:
        return EventStream(nothing(schema), np.empty(0, np.int64))
    return EventStream(
        pa.concat_batches([stream.rows for stream in streams]), np.concatenate([stream.causes for stream in streams])
    )


def gathered(streams: Sequence[tuple[EventStream, int]], schema: pa.Schema) -> EventStream:
    """Merge streams with their multiplicities: by cause, and for one cause in the order given."""
    filled = [(stream, times) for stream, times in streams if len(stream)]
    one = joined([EventStream(conformed(stream.rows, schema), stream.causes) for stream, _ in filled], schema)
    if len(filled) <= 1 and all(times == 1 for _, times in filled):
        return one
    repeats = np.concatenate([np.full(len(stream), times) for stream, times in filled])
    order = np.repeat(np.arange(len(one)), repeats)
    # Stable, and after repetition, so that the copies of an event stay together.
    order = order[np.argsort(one.causes[order], kind="stable")]
    return EventStream(one.rows.take(pa.array(order)), one.causes[order])


def runs(ports: Sequence[PortRun]) -> list[PortRun]:
    """Split the events at several ports into runs, in the order of arrival."""
    filled = [run for run in ports if len(run.stream)]
    if len(filled) <= 1:
        return filled
    of_port = np.concatenate([np.full(len(run.stream), at) for at, run in enumerate(filled)])
    of_port = of_port[np.argsort(np.concatenate([run.stream.causes for run in filled]), kind="stable")]
    bounds = [0, *(np.flatnonzero(np.diff(of_port)) + 1).tolist(), len(of_port)]
    taken = [0] * len(filled)
    split = []
    for first, end in pairwise(bounds):
        at = int(of_port[first])
        port, stream = filled[at]
        split.append(PortRun(port, stream.slice(taken[at], taken[at] + end - first)))
        taken[at] += end - first
    return split
