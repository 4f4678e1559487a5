"""The rows that Spark passes from the spools to the kernel for a shard: the offsets of the batch, then its items.

With the offsets go the instances that somebody looks at while the batch begins, nearly always none, and whether its
parts are timed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from bridge import ItemKind, between
from engine.kernel.batch import Arrived
from engine.kernel.entering_events import EVERYTHING, Portion
from engine.offset import Span
from engine.plan import Entry
from engine.records.job_folder import spool_folder

_ROWS = pa.schema({"batch": pa.int64(), "span": pa.string(), "last": pa.bool_(), "items": pa.binary()})
NUDGE = pa.record_batch([[-1], [""], [False], [b"n" * 128]], schema=_ROWS)
"""The row that follows a batch: Spark passes a row on when the next one is there."""
_ITEMS = msgspec.msgpack.Decoder(list[Arrived])
_MOST_BYTES = 8_000_000
"""The size at which a piece is sent."""
_NOTHING: Mapping[str, int] = {}


def arriving(
    root: Path, entry: Entry, span: Span, gone: Mapping[str, int] = _NOTHING, portion: Portion = EVERYTHING
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


def written_rows(  # noqa: PLR0913 - what a shard of a batch is given
    batch: int,
    span: Span,
    items: Iterable[Arrived],
    shard: int = 0,
    looked_at: Sequence[int] = (),
    *,
    timed: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows that the source gives to Spark for one shard of a batch."""
    header = json.dumps([shard, span.as_json(), looked_at, timed])
    piece: list[Arrived] = []
    size = 0
    for item in items:
        if size >= _MOST_BYTES:
            yield _row(batch, header, piece, last=False)
            piece, size = [], 0
        piece.append(item)
        size += len(item.payload)
    yield _row(batch, header, piece, last=True)


class ShardRows(NamedTuple):
    """The rows that one shard of a batch was given."""

    batch: int
    span: Span
    items: list[Arrived]
    shard: int
    looked_at: Sequence[int]
    timed: bool


def read_rows(pieces: Iterable[pa.RecordBatch]) -> Iterator[ShardRows]:
    """Batch after batch of a shard, from their rows."""
    items: list[Arrived] = []
    for rows in pieces:
        for batch, span, last, content in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if batch < 0:
                continue
            if content:
                items += _ITEMS.decode(content)
            if last:
                shard, kept, looked_at, timed = json.loads(span)
                yield ShardRows(batch, Span.of_json(kept), items, shard, looked_at, timed)
                items = []


def _row(batch: int, header: str, items: Sequence[Arrived], *, last: bool) -> pa.RecordBatch:
    return pa.record_batch([[batch], [header], [last], [msgspec.msgpack.encode(items) if items else b""]], schema=_ROWS)
