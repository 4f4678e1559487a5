"""Streams inside the kernel: events with their causes, and how several of them become one.

Every raw event of a batch is a cause and has a number, in the order in which events arrived. What a task emits for an
event has that event's cause. So causes never fall along a stream, and they decide how streams meet.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridge.events.births import Birth

Numbers = npt.NDArray[np.int64]


class Arrived(NamedTuple):
    """Events that lay together in a spool, as they enter the kernel."""

    stream: str
    first: int
    """The position of the first event."""
    count: int  # type: ignore[assignment]  # nobody counts in it
    stamp: int
    """When they were spooled, in milliseconds."""
    payload: bytes
    """The events as an Arrow IPC stream."""
    births: tuple[Birth, ...] = ()
    """When they were born, all of them; none where that is not known."""


class EventStream(NamedTuple):
    """Events in order, each with its cause."""

    rows: pa.RecordBatch
    causes: Numbers

    def __len__(self) -> int:
        return len(self.causes)

    def slice(self, first: int, end: int) -> "EventStream":
        """Some of the events."""
        return EventStream(self.rows.slice(first, end - first), self.causes[first:end])


class PortRun(NamedTuple):
    """Consecutive events at one input port."""

    port: str
    stream: EventStream


def in_order(items: Iterable[Arrived]) -> Iterator[tuple[int, Arrived]]:
    """Items in the order in which they arrived, each with the cause of its first event.

    A stream's own order holds even where the clock went back between two of its items.
    """
    stamps: dict[str, int] = {}
    keys: list[tuple[int, str, int]] = []
    items = sorted(items, key=lambda item: (item.stream, item.first))
    for item in items:
        stamps[item.stream] = max(stamps.get(item.stream, item.stamp), item.stamp)
        keys.append((stamps[item.stream], item.stream, item.first))
    ordered = [item for _, item in sorted(zip(keys, items, strict=True), key=lambda each: each[0])]
    return zip(accumulate((item.count for item in ordered), initial=0), ordered, strict=False)


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """No events of a schema."""
    return pa.record_batch([pa.array([], kind) for kind in schema.types], schema=schema)


def shared(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The fields that all schemas have with the same type, in the order of the first.

    >>> text, number = pa.string(), pa.float64()
    >>> shared([pa.schema({"b": text, "a": number}), pa.schema({"a": number, "b": number})]).names
    ['a']
    """
    first, *others = schemas
    return pa.schema(
        [field for field in first if all(_type(other, field.name) == field.type for other in others)]
        if any(not first.equals(other) for other in others)
        else list(first)
    )


def _type(schema: pa.Schema, name: str) -> pa.DataType | None:
    at = schema.get_field_index(name)
    return None if at < 0 else schema.field(at).type


def conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The events with just these fields; what they lack is null, what has another type is converted if it can be."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    if rows.schema.equals(schema):
        # Only the fields' marks are others.
        return pa.RecordBatch.from_arrays(rows.columns, schema=schema) if len(schema) else rows.select([])
    if not len(schema):
        return rows.select([])
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


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
    """Streams with their multiplicities as one: by cause, and for one cause in the order given."""
    filled = [(stream, times) for stream, times in streams if len(stream)]
    one = joined([EventStream(conformed(stream.rows, schema), stream.causes) for stream, _ in filled], schema)
    if len(filled) <= 1 and all(times == 1 for _, times in filled):
        return one
    repeats = np.concatenate([np.full(len(stream), times) for stream, times in filled])
    order = np.repeat(np.arange(len(one)), repeats)
    # Stable, and after repeating, so that the copies of an event stay together.
    order = order[np.argsort(one.causes[order], kind="stable")]
    return EventStream(one.rows.take(pa.array(order)), one.causes[order])


def runs(ports: Sequence[PortRun]) -> list[PortRun]:
    """What comes in at several ports, cut so that one run after the other is the order of arrival."""
    filled = [each for each in ports if len(each.stream)]
    if len(filled) <= 1:
        return filled
    of_port = np.concatenate([np.full(len(each.stream), at) for at, each in enumerate(filled)])
    of_port = of_port[np.argsort(np.concatenate([each.stream.causes for each in filled]), kind="stable")]
    bounds = [0, *(np.flatnonzero(np.diff(of_port)) + 1).tolist(), len(of_port)]
    taken = [0] * len(filled)
    found = []
    for first, end in pairwise(bounds):
        at = int(of_port[first])
        port, stream = filled[at]
        found.append(PortRun(port, stream.slice(taken[at], taken[at] + end - first)))
        taken[at] += end - first
    return found
