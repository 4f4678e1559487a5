"""The files of records: how a record is written, read part by part, and put together from those of its shards.

A file is a line, a header in JSON, and parts that can be read one at a time. The line contains the version of the
format, the lengths of header and parts, and the header's checksum. The header contains everything small, and the place,
length and checksum of each part: changes and images of state in MessagePack, events as Arrow IPC streams. So looking up
a record takes a few kilobytes, a worker that catches up reads changes but no events, and a publisher reads events but
no state.

**Shards.** The record of one shard is that of its own events: it numbers what it emits as if it were alone. Once all
shards have theirs, any of them makes the whole record: a header that names the parts in the files of the shards, in
which the numbers of each stream go on from shard to shard. It depends on the files alone, so every worker makes the
same. A batch counts when its whole record is there.

**Early ends.** A shard that has used the time of a batch ends early, and all shards have to end at the same places. So
there is no whole record while one has read events behind the place where another ended. Such a shard runs the batch
again, up to that place, and writes another file; a file that is there never changes. Those that have none of the
events that wait need not do anything.

**Damage** is any file of one job or stream that cannot be read or written; it must not affect others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain, groupby
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar, cast
from zlib import crc32

import msgspec
import pyarrow as pa

from bridge import PositionsGone, SpoolClosed, SpoolDamaged
from bridge.spools.log import packed, unpacked
from bridge.wire import Birth
from engine.offset import EarlyEnd, Offset
from engine.plan import Port, is_switch
from engine.records.record import (
    BatchRecord,
    CodeTraceback,
    Dead,
    EmittedEvents,
    Image,
    InstanceMeter,
    Record,
    RecordPart,
    ShardPart,
    Table,
)
from engine.records.state import NUMBERS, packed_number, unpacked_number

RECORD_VERSION = 1
"""The version of the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedPart:
    """`EmittedEvents` in a header, with the place of its events instead of these; None for a marker."""

    origin: Port
    first: int
    count: int
    marker: str
    events: RecordPart | None
    births: tuple[Birth, ...] = ()
    """Empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadPart:
    """`Dead` in a header, with the place of its events instead of these."""

    instance: int
    port: str
    reason: str
    count: int
    events: RecordPart
    traceback: CodeTraceback | None = None


Header: TypeAlias = BatchRecord[RecordPart, EmittedPart, DeadPart, RecordPart]
"""A record without state and events, read first by `RecordFile`."""
_pack = msgspec.msgpack.Encoder().encode
T = TypeVar("T")


def _like(kind: type[T], other: object, **changes: object) -> T:
    """A record with the fields of one of another kind, but for some."""
    same = {each.name: getattr(other, each.name) for each in fields(cast("Any", kind)) if each.name not in changes}
    return kind(**same, **changes)


def written_record(record: Record) -> bytes:
    """The file content of a record."""
    parts = list[bytes]()
    end = 0

    def part(content: bytes) -> RecordPart:
        nonlocal end
        parts.append(content)
        end += len(content)
        return RecordPart(end - len(content), len(content), crc32(content))

    header: Header = _like(
        BatchRecord,
        record,
        changes=part(_pack(record.changes)),
        imaged={group: part(_pack(image)) for group, image in record.imaged.items()},
        emitted=tuple(
            _like(EmittedPart, emitted, events=None if emitted.events is None else part(packed(emitted.events)))
            for emitted in record.emitted
        ),
        dead=tuple(
            _like(
                DeadPart,
                letter,
                # An exception's message may be unencodable, which must not fail the batch.
                reason=letter.reason.encode(errors="replace").decode(),
                count=letter.events.num_rows,
                events=part(packed(letter.events)),
            )
            for letter in record.dead
        ),
    )
    return _framed(msgspec.json.encode(header), parts)


def written_whole(header: Header, common: Image) -> bytes:
    """The file content of a record whose other parts are in the files of shards, with its image of `NUMBERS`."""
    parts = [_pack(common), _pack({})]
    imaged = {NUMBERS: RecordPart(0, len(parts[0]), crc32(parts[0]))}
    changes = RecordPart(len(parts[0]), len(parts[1]), crc32(parts[1]))
    return _framed(msgspec.json.encode(replace(header, imaged=imaged, changes=changes)), parts)


def _framed(header: bytes, parts: Sequence[bytes]) -> bytes:
    end = sum(map(len, parts))
    line = f"braid record {RECORD_VERSION} header {len(header):010d} parts {end:015d} checksum {crc32(header):08x}\n"
    return b"".join((line.encode(), header, *parts))


_LINE = re.compile(rb"braid record (\d+) header (\d{10}) parts (\d{15}) checksum ([0-9a-f]{8})\n")
_AT_ONCE = 8_192
"""The bytes read first, so that most headers take one read."""
_HEADER = msgspec.json.Decoder(Header)
_TABLE = msgspec.msgpack.Decoder(dict[int, dict[int, dict[bytes, bytes | None]]])
_IMAGE = msgspec.msgpack.Decoder(dict[int, dict[bytes, bytes]])


class RecordDamaged(RuntimeError):
    """A record cannot be read, or is missing between others."""


class RecordFile:
    """A record that is read part by part, on demand. Raises FileNotFoundError if there is no file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with damage_named(path, FileNotFoundError), path.open("rb") as file:
            begin = file.read(_AT_ONCE)
            line = _LINE.match(begin)
            if line is None:
                raise RecordDamaged("it does not begin like a record")
            version, header_bytes, parts_bytes = map(int, line.groups()[:3])
            if version != RECORD_VERSION:
                raise RecordDamaged(f"it has version {version}, but this Braid reads version {RECORD_VERSION}")
            self._parts = line.end() + header_bytes
            """Where the parts begin."""
            if file.seek(0, SEEK_END) != self._parts + parts_bytes:
                raise RecordDamaged("it is shorter or longer than its first line says")
            header = begin[line.end() : self._parts]
            if self._parts > len(begin):
                header += _read(file, len(begin), self._parts - len(begin))
            _check(header, int(line[4], 16))
            self.header: Header = _HEADER.decode(header)

    def changes(self, part: RecordPart | None = None) -> Table:
        """A part with changes of states; without one, those of the batch, but for its shards' if it had several."""
        with self._opened() as file:
            return _TABLE.decode(self._part(file, part or self.header.changes))

    def image(self, part: RecordPart) -> Image:
        """A part with the content of a key group after the batch."""
        with self._opened() as file:
            return _IMAGE.decode(self._part(file, part))

    def in_whole(self, part: RecordPart, shard: int) -> RecordPart:
        """The place of a part, as the record of the whole batch names it."""
        return part._replace(first=self._parts + part.first, shard=shard, repeats=self.header.repeats)

    def emitted(self, origin: Port | None = None) -> tuple[EmittedEvents, ...]:
        """The events that left the job, or only those that left at a port."""
        if not self.header.emitted:
            return ()
        with self._opened() as file:
            read = (
                _like(EmittedEvents, part, events=part.events and unpacked(self._part(file, part.events)))
                for part in self.header.emitted
                if origin in {None, part.origin}
            )
            return tuple(read if not self.header.shards else _joined(read))

    def dead(self) -> tuple[Dead, ...]:
        """The events that could not be taken."""
        if not self.header.dead:
            return ()
        with self._opened() as file:
            return tuple(_like(Dead, part, events=unpacked(self._part(file, part.events))) for part in self.header.dead)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with damage_named(self.path, FileNotFoundError), self.path.open("rb") as file:
            yield file

    def _part(self, file: BinaryIO, part: RecordPart) -> bytes:
        if part.shard is None:
            content = _read(file, self._parts + part.first, part.size)
        else:
            path = shard_path(self.path, part.shard, part.repeats)
            try:
                with path.open("rb") as other:
                    content = _read(other, part.first, part.size)
            except FileNotFoundError as error:
                raise RecordDamaged(f"{path} is missing") from error
        _check(content, part.checksum)
        return content


def _joined(emitted: Iterable[EmittedEvents]) -> Iterator[EmittedEvents]:
    """What shards emitted at a port as one, because each becomes a message at least."""
    for _, group in groupby(emitted, key=_alike):
        parts = list(group)
        rows = [part.events for part in parts if part.events is not None]
        if len(rows) < 2:  # noqa: PLR2004 - one needs no other
            yield from parts
            continue
        births = tuple(birth for part in parts for birth in part.births)
        yield replace(parts[0], events=pa.concat_batches(rows), births=births)


def _alike(emitted: EmittedEvents) -> object:
    """What is equal for neighbours that can be joined."""
    shape = emitted.marker if emitted.events is None else emitted.events.schema.serialize().to_pybytes()
    return emitted.origin, shape, bool(emitted.births)


def shard_path(path: Path, shard: int, repeats: int = 0) -> Path:
    """The file of one shard's record, beside the record of its batch; another one for each time that it runs again."""
    return path.parent / "shards" / f"{path.name}.{shard:03d}{f'.{repeats}' if repeats else ''}"


def early_ends(headers: Iterable[Header]) -> dict[str, EarlyEnd]:
    """The first place in each stream where a shard of a batch ended early."""
    early: dict[str, EarlyEnd] = {}
    for header in headers:
        for stream, stamp in header.waiting.items():
            end = EarlyEnd(header.end.at[stream], stamp)
            early[stream] = min(early.get(stream, end), end)
    return early


def has_read_beyond(header: Header, early: Mapping[str, EarlyEnd]) -> bool:
    """Whether a shard has read events that wait because others ended before them."""
    return any(header.read.get(stream, header.end.at[stream]) > end.position for stream, end in early.items())


def _read(file: BinaryIO, first: int, size: int) -> bytes:
    file.seek(first)
    return file.read(size)


def _check(content: bytes, checksum: int) -> None:
    if crc32(content) != checksum:
        raise RecordDamaged("a checksum does not match")


DAMAGE = (RecordDamaged, SpoolDamaged, SpoolClosed, PositionsGone, OSError)
"""The exceptions for damaged or missing files and full disks. They are retried, since an operator may fix the cause."""


_UNREADABLE = (RecordDamaged, msgspec.MsgspecError, pa.ArrowException, KeyError, TypeError, ValueError, OSError)


@contextmanager
def damage_named(path: Path, *but: type[Exception]) -> Iterator[None]:
    """Raise read errors within the context as damage of this file of a job, but for some."""
    try:
        yield
    except but:
        raise
    except _UNREADABLE as error:
        raise RecordDamaged(f"{path} cannot be read: {error}; restore it") from error


def whole_record(files: Sequence[RecordFile]) -> bytes:
    """The content of the whole record of a batch, from the records of its shards in order."""
    first, *others = headers = [file.header for file in files]
    early = early_ends(headers)
    common = {instance: dict(items) for instance, items in files[0].image(first.imaged[NUMBERS]).items()}
    for file in files[1:]:
        for instance, items in file.image(file.header.imaged[NUMBERS]).items():
            # A shard that saw none of a stream's events notes nothing of it.
            common.setdefault(instance, {}).update(items)
    emitted = tuple(_emitted_parts(files, common))
    header = replace(
        first,
        end=_latest_end(headers).ended_early(early),
        dropped=tuple(sorted({instance for header in (first, *others) for instance in header.dropped})),
        emitted=emitted,
        dead=tuple(_dead_parts(files)),
        meters=_summed_meters(file.header.meters for file in files),
        # A key group is one shard's.
        grouped=dict(sorted(count for file in files for count in file.header.grouped.items())),
        sizes=dict(sum((Counter(file.header.sizes) for file in files), Counter[int]())),
        base=min(file.header.base for file in files),
        credit=0,
        shards=tuple(_shard_part(file, shard) for shard, file in enumerate(files)),
        waiting={stream: end.stamp for stream, end in early.items()},
        read={},
        repeats=0,
    )
    return written_whole(
        header, {instance: {k: v for k, v in items.items() if v} for instance, items in common.items()}
    )


def _latest_end(headers: Sequence[Header]) -> Offset:
    """The end that the batch of some shards was to have, where any of them reached it."""
    ends = [header.end for header in headers]
    at = {stream: max(end.at[stream] for end in ends) for stream in ends[0].at}
    return replace(ends[0], at=at, held=dict(chain.from_iterable(end.held.items() for end in ends)))


def _emitted_parts(files: Sequence[RecordFile], common: dict[int, dict[bytes, bytes]]) -> Iterator[EmittedPart]:
    """What all shards emitted, numbered through: the markers of switches, all events, the markers of cuts."""
    # Only the first shard has markers.
    marked = [part for part in files[0].header.emitted if part.marker]
    events: dict[Port, list[EmittedPart]] = {}
    for shard, file in enumerate(files):
        for part in file.header.emitted:
            if part.events is not None:
                placed = replace(part, events=file.in_whole(part.events, shard))
                events.setdefault(part.origin, []).append(placed)
    ordered = [
        *(part for part in marked if is_switch(part.marker)),
        *chain.from_iterable(events.values()),
        *(part for part in marked if not is_switch(part.marker)),
    ]
    next_numbers: dict[Port, int] = {}
    for part in files[0].header.emitted:
        # The first shard left the number as if it were alone.
        next_numbers.setdefault(part.origin, part.first)
    for part in ordered:
        number = next_numbers.get(part.origin)
        if number is None:
            kept = common.get(part.origin.instance, {}).get(part.origin.port.encode())
            number = 0 if kept is None else unpacked_number(kept)
        yield replace(part, first=number)
        next_numbers[part.origin] = number + part.count
    for origin, number in next_numbers.items():
        common.setdefault(origin.instance, {})[origin.port.encode()] = packed_number(number)


def _dead_parts(files: Sequence[RecordFile]) -> Iterator[DeadPart]:
    for shard, file in enumerate(files):
        for part in file.header.dead:
            yield replace(part, events=file.in_whole(part.events, shard))


def _shard_part(file: RecordFile, shard: int) -> ShardPart:
    header = file.header
    return ShardPart(
        changes=file.in_whole(header.changes, shard),
        imaged={group: file.in_whole(part, shard) for group, part in header.imaged.items() if group != NUMBERS},
        credit=header.credit,
        cpu_ns=sum(meter.cpu_ns for meter in header.meters.values()),
    )


def _summed_meters(meters: Iterable[Mapping[int, InstanceMeter]]) -> dict[int, InstanceMeter]:
    total: dict[int, InstanceMeter] = {}
    for instance, meter in chain.from_iterable(shard.items() for shard in meters):
        total[instance] = total.get(instance, InstanceMeter()) + meter
    return total
