"""One file of a spool's log: items, and what was expected of their producers after them.

It is a line of JSON that describes the items, then their payloads one after the other, then a checksum of all that. So
to write one takes little but its bytes, and where items end is known from the line alone.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import msgspec

from bridge.events.births import Birth
from bridge.intake import Expected
from bridge.spools import older_log_file
from bridge.spools.log import Item, ItemKind, LogFile, Placed, SpoolDamaged, damage_named

_CHECKSUM = 4
"""Bytes of the checksum at the end of a file."""
_LINE_END = b"\n"
"""Nowhere in JSON as it is written here."""


class _Described(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item without its payload."""

    kind: ItemKind
    count: int
    stamp: int
    size: int
    """How many bytes its payload has."""
    births: tuple[Birth, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    """What a file begins with."""

    producers: dict[str, Expected]
    items: tuple[_Described, ...]


class Extent(NamedTuple):
    """An item without its payload, as an index has it."""

    end: int
    """The position after it."""
    size: int
    """How many bytes its payload has."""
    marker: str | None
    """The name of the marker that it is, if it is one."""


_WRITES = msgspec.json.Encoder(order="deterministic")
_READS = msgspec.json.Decoder(_Line)


def written(items: Sequence[Item], expected: Mapping[str, Expected]) -> bytes:
    """Items, and what is expected of their producers after them, as the content of a file."""
    described = tuple(_Described(item.kind, item.count, item.stamp, len(item.payload), item.births) for item in items)
    line = _WRITES.encode(_Line(dict(expected), described))
    content = b"".join([line, _LINE_END, *(item.payload for item in items)])
    return content + _checksum(content)


def items_in(file: LogFile) -> Iterator[Placed]:
    """The items of a file with their positions."""
    first = file.first
    for item in _held(file).items:
        yield Placed(first, item)
        first += item.count


def expected_in(file: LogFile) -> dict[str, Expected]:
    """What was expected of each producer after a file."""
    return _held(file).producers


def extents_in(file: LogFile) -> list[Extent]:
    """The items of a file without their payloads, which are not even read; so the checksum is not held against it."""
    with damage_named(file.path), file.path.open("rb") as opened:
        line = opened.readline()
        if older_log_file.is_one(line):
            return extents_of(file.first, _held(file).items)
        described = _READS.decode(line).items
        *begins, end = accumulate((each.size for each in described), initial=len(line))
        if end + _CHECKSUM != os.fstat(opened.fileno()).st_size:
            raise ValueError("it is torn")
        names = [
            os.pread(opened.fileno(), each.size, begin).decode() if each.kind is ItemKind.MARKER else None
            for each, begin in zip(described, begins, strict=True)
        ]
    _check_count(file, described)
    return _extents(file.first, (each.count for each in described), (each.size for each in described), names)


def extents_of(first: int, items: Sequence[Item]) -> list[Extent]:
    """Items that lie from a position on, without their payloads."""
    names = (item.payload.decode() if item.kind is ItemKind.MARKER else None for item in items)
    return _extents(first, (item.count for item in items), (len(item.payload) for item in items), names)


def _extents(first: int, counts: Iterable[int], sizes: Iterable[int], names: Iterable[str | None]) -> list[Extent]:
    ends = islice(accumulate(counts, initial=first), 1, None)
    return [Extent(*each) for each in zip(ends, sizes, names, strict=True)]


class _Held(NamedTuple):
    """All that a file holds."""

    items: list[Item]
    producers: dict[str, Expected]


def _held(file: LogFile) -> _Held:
    with damage_named(file.path):
        whole = file.path.read_bytes()
        if len(whole) < _CHECKSUM:
            raise ValueError("it is torn")
        content = memoryview(whole)[:-_CHECKSUM]
        if _checksum(content) != whole[-_CHECKSUM:]:
            raise ValueError("its checksum is another one")
        held = _Held(*older_log_file.parsed(content)) if older_log_file.is_one(whole) else _parsed(whole)
    _check_count(file, held.items)
    return held


def _parsed(whole: bytes) -> _Held:
    begin = whole.index(_LINE_END) + len(_LINE_END)
    line = _READS.decode(memoryview(whole)[:begin])
    places = pairwise(accumulate((each.size for each in line.items), initial=begin))
    items = [
        Item(kind=each.kind, count=each.count, stamp=each.stamp, payload=whole[at:end], births=each.births)
        for each, (at, end) in zip(line.items, places, strict=True)
    ]
    return _Held(items, line.producers)


def _check_count(file: LogFile, items: Sequence[Item] | Sequence[_Described]) -> None:
    if sum(item.count for item in items) != file.end - file.first:
        raise SpoolDamaged(f"{file.path} does not hold the positions that its name says; restore it")


def _checksum(content: bytes | memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM)
