"""A spool's log: numbered items in files, with what was expected of producers and in doubt after each file.

A file is named by its first position and the one after its last, so that readers open only the files they need. The
high-water mark has the end of the log, with the expectations and doubts, when no file has them.

A file is a line of JSON that describes all but the payloads of the items, then these one after another, then a checksum
of all that. So writing a file takes little more than writing its bytes, and the line alone says where items end.
"""

import json
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from bridge.files import Steps, write_whole
from bridge.intake import Expected
from bridge.spools.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.wire import Birth, ipc_stream, part_of

LOG_FILE_NAME = re.compile(r"(\d{20})-(\d{20})")
"""The name of a file in a log. Files follow each other in the order of their names."""
LOG, _HIGH_WATER = "log", "high-water"


class SpoolDamaged(RuntimeError):
    """A file of a spool that cannot be read, or does not follow the one before."""


class PositionsGone(RuntimeError):
    """Positions that were removed, because every consumer had passed them."""

    def __init__(self, spool: Path | str, position: int, first: int) -> None:
        super().__init__(
            f"the spool {spool} begins at position {first}; position {position} was removed because every consumer "
            f"had passed it; read from {first} on, and commit a position that must stay"
        )
        self.first = first


class ItemKind(StrEnum):
    """The kinds of items in a spool: events, or a marker between them."""

    DATA = "data"
    MARKER = "marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Events that came together, or a marker; made by receivers and generators."""

    kind: ItemKind = ItemKind.DATA
    count: int
    """The number of positions it takes: one for each event, one for a marker."""
    stamp: int
    """The time when it was spooled, in milliseconds. Tasks see no other clock."""
    payload: bytes
    """The events as an Arrow IPC stream, or the marker's name."""
    births: tuple[Birth, ...] = ()


class Placed(NamedTuple):
    """An item with its position."""

    first: int
    item: Item

    @property
    def end(self) -> int:
        """The position after it."""
        return self.first + self.item.count

    def since(self, position: int) -> "Placed":
        """The part of it from a position on."""
        if position <= self.first:
            return self
        return Placed(position, _part(self.item, position - self.first, self.item.count))

    def until(self, position: int) -> "Placed":
        """The part of it before a position."""
        if position >= self.end:
            return self
        return Placed(self.first, _part(self.item, 0, position - self.first))


def _part(item: Item, first: int, end: int) -> Item:
    """A slice of an item's events."""
    events = unpacked(item.payload).slice(first, end - first)
    return replace(item, count=events.num_rows, payload=packed(events), births=part_of(item.births, first, end))


class LogFile(NamedTuple):
    """A file of the log, as described by its name."""

    first: int
    end: int
    path: Path


def packed(events: pa.RecordBatch) -> bytes:
    """Events as the payload of an item."""
    return ipc_stream(events.schema, events)


def unpacked(payload: bytes) -> pa.RecordBatch:
    """The events in the payload of an item."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


class Mark(NamedTuple):
    """The high-water mark: the end of the log, the expectations there, and the deliveries in doubt."""

    end: int
    producers: Mapping[str, Expected]
    in_doubt: InDoubt = NOTHING_IN_DOUBT


def log_files(folder: Path, after: int = 0) -> list[LogFile]:
    """The files of a log that hold positions from `after` on, in order; a hole between them is damage.

    Listing a folder takes time: a file that is appended or pruned meanwhile may be missing although a newer or an older
    one is listed. Files are appended and pruned in order, so the next listing does not show that hole again.
    """
    hole, again = None, False
    while True:
        files = _listed(folder, after)
        new_hole = next(((before, late) for before, late in pairwise(files) if before.end != late.first), None)
        begins_late = bool(files) and files[0].first > after
        if new_hole is None and (again or not begins_late):
            return files[1:] if files and files[0].end <= after else files
        if new_hole is not None and new_hole == hole:
            before, late = new_hole
            raise SpoolDamaged(f"{late.path} does not follow {before.path}; restore what lay between them")
        hole, again = new_hole, True


def _listed(folder: Path, after: int) -> list[LogFile]:
    """The files of one listing, beginning with the one that holds a position or ends before it."""
    names = sorted(filter(LOG_FILE_NAME.fullmatch, os.listdir(folder)))  # noqa: PTH208 - a path for each name would cost the most
    # A dot sorts after the hyphen, so this comes after every file that begins at the position.
    begin = max(0, bisect_right(names, f"{after:020d}.") - 1)
    return [LogFile(int(name[:20]), int(name[21:]), folder / name) for name in names[begin:]]


def log_path(folder: Path, first: int, end: int) -> Path:
    """The path of the file with these positions."""
    return folder / f"{first:020d}-{end:020d}"


def read_mark(spool: Path) -> Mark:
    """The high-water mark of a spool; without one, nothing was ever removed or expected."""
    path = spool / _HIGH_WATER
    if not path.exists():
        return Mark(0, {})
    with damage_named(path):
        mark = json.loads(path.read_bytes())
        producers = json.loads(mark["producers"])
        # The very default, as files leave it out by identity.
        in_doubt = msgspec.convert(mark["in_doubt"], InDoubt) if "in_doubt" in mark else NOTHING_IN_DOUBT
        return Mark(mark["end"], {producer: Expected(**expected) for producer, expected in producers.items()}, in_doubt)


def write_mark(spool: Path, mark: Mark, step: Steps) -> None:
    """Make the high-water mark durable."""
    producers = msgspec.json.encode(dict(sorted(mark.producers.items()))).decode()
    in_doubt = {} if mark.in_doubt == NOTHING_IN_DOUBT else {"in_doubt": msgspec.to_builtins(mark.in_doubt)}
    text = json.dumps({"end": mark.end, "producers": producers, **in_doubt})
    write_whole(spool / _HIGH_WATER, text.encode(), step)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Report a failure to read as damage of this file."""
    try:
        yield
    except (pa.ArrowException, msgspec.MsgspecError, KeyError, TypeError, ValueError, OSError) as error:
        raise SpoolDamaged(f"{path} cannot be read: {error}; restore it") from error


_CHECKSUM = 4
"""Bytes of the checksum at the end of a file."""
_LINE_END = b"\n"
"""Never part of the JSON in front of it."""


class _ItemHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: ItemKind
    count: int
    stamp: int
    size: int
    births: tuple[Birth, ...] = ()


class _Header(msgspec.Struct, frozen=True, omit_defaults=True):
    producers: dict[str, Expected]
    items: tuple[_ItemHeader, ...]
    in_doubt: InDoubt = NOTHING_IN_DOUBT


class Extent(NamedTuple):
    """An item without its payload, as an index keeps it."""

    end: int
    """The position after it."""
    size: int
    marker: str | None


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(_Header)


def written(items: Sequence[Item], expected: Mapping[str, Expected], in_doubt: InDoubt = NOTHING_IN_DOUBT) -> bytes:
    """The content of a file with these items, what is expected of their producers after them, and what is in doubt."""
    headers = tuple(_ItemHeader(item.kind, item.count, item.stamp, len(item.payload), item.births) for item in items)
    line = _ENCODER.encode(_Header(dict(expected), headers, in_doubt))
    content = b"".join([line, _LINE_END, *(item.payload for item in items)])
    return content + _checksum(content)


def items_in(file: LogFile) -> Iterator[Placed]:
    """The items of a file with their positions."""
    first = file.first
    for item in _content(file)[0]:
        yield Placed(first, item)
        first += item.count


def mark_in(file: LogFile) -> Mark:
    """The end of a file, as a high-water mark."""
    return _content(file)[1]


def extents_in(file: LogFile) -> list[Extent]:
    """The extents of a file's items. Payloads are not read, so the checksum is not verified."""
    with damage_named(file.path), file.path.open("rb") as opened:
        line = opened.readline()
        headers = _DECODER.decode(line).items
        *begins, end = accumulate((header.size for header in headers), initial=len(line))
        if end + _CHECKSUM != os.fstat(opened.fileno()).st_size:
            raise ValueError("it is torn")
        names = [
            os.pread(opened.fileno(), header.size, begin).decode() if header.kind is ItemKind.MARKER else None
            for header, begin in zip(headers, begins, strict=True)
        ]
    _check_count(file, headers)
    return _extents(file.first, (header.count for header in headers), (header.size for header in headers), names)


def extents_of(first: int, items: Sequence[Item]) -> list[Extent]:
    """The extents of items that begin at a position."""
    names = (item.payload.decode() if item.kind is ItemKind.MARKER else None for item in items)
    return _extents(first, (item.count for item in items), (len(item.payload) for item in items), names)


def _extents(first: int, counts: Iterable[int], sizes: Iterable[int], names: Iterable[str | None]) -> list[Extent]:
    ends = islice(accumulate(counts, initial=first), 1, None)
    return [Extent(*extent) for extent in zip(ends, sizes, names, strict=True)]


def _content(file: LogFile) -> tuple[list[Item], Mark]:
    with damage_named(file.path):
        whole = file.path.read_bytes()
        if len(whole) < _CHECKSUM:
            raise ValueError("it is torn")
        if _checksum(memoryview(whole)[:-_CHECKSUM]) != whole[-_CHECKSUM:]:
            raise ValueError("its checksum does not match")
        begin = whole.index(_LINE_END) + len(_LINE_END)
        header = _DECODER.decode(memoryview(whole)[:begin])
        places = pairwise(accumulate((item.size for item in header.items), initial=begin))
        items = [
            Item(kind=item.kind, count=item.count, stamp=item.stamp, payload=whole[at:end], births=item.births)
            for item, (at, end) in zip(header.items, places, strict=True)
        ]
    _check_count(file, items)
    return items, Mark(file.end, header.producers, header.in_doubt)


def _check_count(file: LogFile, items: Sequence[Item] | Sequence[_ItemHeader]) -> None:
    if sum(item.count for item in items) != file.end - file.first:
        raise SpoolDamaged(f"{file.path} does not hold the positions that its name says; restore it")


def _checksum(content: bytes | memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM)
