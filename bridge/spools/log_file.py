"""One file of a spool's log: items, and what was expected of their producers and in doubt after them.

A file is a line of JSON that describes all but the payloads of the items, then these one after another, then a checksum
of all that. So writing a file takes little more than writing its bytes, and the line alone says where items end.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import msgspec

from bridge.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.events.births import Birth
from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, LogFile, Mark, Placed, SpoolDamaged, damage_named

_CHECKSUM = 4
"""Bytes of the checksum at the end of a file."""
_LINE_END = b"\n"
"""Never part of the JSON in front of it."""


class _ItemHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item without its payload."""

    kind: ItemKind
    count: int
    stamp: int
    size: int
    """Bytes of its payload."""
    births: tuple[Birth, ...] = ()


class _Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of a file."""

    producers: dict[str, Expected]
    items: tuple[_ItemHeader, ...]
    in_doubt: InDoubt = NOTHING_IN_DOUBT


class Extent(NamedTuple):
    """An item without its payload, as an index keeps it."""

    end: int
    """The position after it."""
    size: int
    """Bytes of its payload."""
    marker: str | None
    """The marker's name, if the item is a marker."""


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
    for item in _content(file).items:
        yield Placed(first, item)
        first += item.count


def mark_in(file: LogFile) -> Mark:
    """The end of a file, as a high-water mark."""
    content = _content(file)
    return Mark(file.end, content.producers, content.in_doubt)


def extents_in(file: LogFile) -> list[Extent]:
    """The extents of a file's items. Payloads are not read, so the checksum is not verified."""
    with damage_named(file.path), file.path.open("rb") as opened:
        line = opened.readline()
        headers = _DECODER.decode(line).items
        *begins, end = accumulate((each.size for each in headers), initial=len(line))
        if end + _CHECKSUM != os.fstat(opened.fileno()).st_size:
            raise ValueError("it is torn")
        names = [
            os.pread(opened.fileno(), each.size, begin).decode() if each.kind is ItemKind.MARKER else None
            for each, begin in zip(headers, begins, strict=True)
        ]
    _check_count(file, headers)
    return _extents(file.first, (each.count for each in headers), (each.size for each in headers), names)


def extents_of(first: int, items: Sequence[Item]) -> list[Extent]:
    """The extents of items that begin at a position."""
    names = (item.payload.decode() if item.kind is ItemKind.MARKER else None for item in items)
    return _extents(first, (item.count for item in items), (len(item.payload) for item in items), names)


def _extents(first: int, counts: Iterable[int], sizes: Iterable[int], names: Iterable[str | None]) -> list[Extent]:
    ends = islice(accumulate(counts, initial=first), 1, None)
    return [Extent(*each) for each in zip(ends, sizes, names, strict=True)]


class _Content(NamedTuple):
    """All that a file holds."""

    items: list[Item]
    producers: dict[str, Expected]
    in_doubt: InDoubt


def _content(file: LogFile) -> _Content:
    with damage_named(file.path):
        whole = file.path.read_bytes()
        if len(whole) < _CHECKSUM:
            raise ValueError("it is torn")
        if _checksum(memoryview(whole)[:-_CHECKSUM]) != whole[-_CHECKSUM:]:
            raise ValueError("its checksum does not match")
        content = _parsed(whole)
    _check_count(file, content.items)
    return content


def _parsed(whole: bytes) -> _Content:
    begin = whole.index(_LINE_END) + len(_LINE_END)
    header = _DECODER.decode(memoryview(whole)[:begin])
    places = pairwise(accumulate((each.size for each in header.items), initial=begin))
    items = [
        Item(kind=each.kind, count=each.count, stamp=each.stamp, payload=whole[at:end], births=each.births)
        for each, (at, end) in zip(header.items, places, strict=True)
    ]
    return _Content(items, header.producers, header.in_doubt)


def _check_count(file: LogFile, items: Sequence[Item] | Sequence[_ItemHeader]) -> None:
    if sum(item.count for item in items) != file.end - file.first:
        raise SpoolDamaged(f"{file.path} does not hold the positions that its name says; restore it")


def _checksum(content: bytes | memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM)
