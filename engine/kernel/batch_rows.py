"""The rows that Spark passes from the spools to the kernel for a shard: the offsets of the batch, then its items."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bridge import ItemKind, between
from bridge.events.births import births_in, births_text
from engine.kernel.batch import Arrived
from engine.kernel.portion import EVERYTHING, Portion
from engine.offset import Offset
from engine.plan import Entry
from engine.records.job_folder import JobFolder, spool_folder
from engine.records.record_store import RecordStore

_SCHEMA = pa.schema(
    {
        "stream": pa.string(),
        "first": pa.int64(),
        "count": pa.int64(),
        "stamp": pa.int64(),
        "payload": pa.binary(),
        "births": pa.string(),
    }
)
_MOST_BYTES = 8_000_000
"""The size at which a piece is sent."""
_NOTHING: Mapping[str, int] = {}


class Span(NamedTuple):
    """The offsets between which a batch runs."""

    start: Offset
    end: Offset


def arriving(
    root: Path,
    entry: Entry,
    span: Span,
    gone: Mapping[str, int] = _NOTHING,
    portion: Portion = EVERYTHING,
) -> Iterator[Arrived]:
    """The events between two offsets among which are those of a shard, except events that are known to be lost."""
    bridged = entry.plan.bridged
    for stream in sorted(span.end.at):
        # Only the last of a bridge's events say which fields it has.
        low, high = portion.range(stream, span.start, span.end, whole=stream in bridged)
        begin = max(low, span.start.begins(stream, entry.starts), gone.get(stream, 0))
        for first, item in between(spool_folder(root, stream), begin, high) if begin < high else ():
            if item.kind is ItemKind.DATA:
                yield Arrived(stream, first, item.count, item.stamp, item.payload, item.births)


def is_recorded(folder: JobFolder, span: Span) -> bool:
    """True if the latest record is that of this batch. Spark repeats no earlier one."""
    store = RecordStore(folder.records)
    batches = store.batches()
    found = store.find(batches[-1]) if batches else None
    return found is not None and (found.header.start, found.header.end) == span


def written_rows(span: Span, items: Iterable[Arrived], shard: int = 0) -> Iterator[pa.RecordBatch]:
    """The rows that the source gives to Spark for one shard."""
    header = json.dumps([span.start.as_json(), span.end.as_json()])
    piece, size = [Arrived("", shard, 0, 0, header.encode())], 0
    for item in items:
        piece.append(item)
        size += len(item.payload)
        if size >= _MOST_BYTES:
            yield _batch(piece)
            piece, size = [], 0
    if piece:
        yield _batch(piece)


class ShardRows(NamedTuple):
    """The rows that one shard of a batch was given."""

    span: Span
    items: list[Arrived]
    shard: int


def read_rows(batches: Iterable[pa.RecordBatch]) -> ShardRows:
    """The span of a batch, and the items for a shard, from its rows."""
    rows = [
        Arrived(stream, first, count, stamp, payload, births_in(births, count))
        for batch in batches
        for stream, first, count, stamp, payload, births in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        )
    ]
    start, end = json.loads(rows[0].payload)
    return ShardRows(Span(Offset.of_json(start), Offset.of_json(end)), rows[1:], rows[0].first)


def _batch(items: list[Arrived]) -> pa.RecordBatch:
    rows = ((*item[:-1], births_text(item.births)) for item in items)
    return pa.record_batch(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _SCHEMA.types, strict=True)],
        schema=_SCHEMA,
    )
