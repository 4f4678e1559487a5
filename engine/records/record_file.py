"""The file of a record: a line, a header in JSON, and parts that can be read one at a time.

The line contains the version of the format, the lengths of header and parts, and the header's checksum. The header
contains everything small, and the place, length and checksum of each part: changes and images of state in MessagePack,
events as Arrow IPC streams. So looking up a record takes a few kilobytes, a worker that catches up reads changes but no
events, and a publisher reads events but no state.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
import pyarrow as pa

from bridge.spools.log import unpacked
from engine.plan import Port
from engine.records.record import Dead, EmittedEvents, Image, Record, Table
from engine.records.record_header import RECORD_VERSION, Header, RecordPart

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
        with _damage_named(path), path.open("rb") as file:
            begin = file.read(_AT_ONCE)
            found = _LINE.match(begin)
            if found is None:
                raise RecordDamaged("it does not begin like a record")
            version, header_bytes, parts_bytes = (int(each) for each in found.groups()[:3])
            if version != RECORD_VERSION:
                raise RecordDamaged(f"it has version {version}, but this Braid reads version {RECORD_VERSION}")
            self._parts = found.end() + header_bytes
            """Where the parts begin."""
            if file.seek(0, SEEK_END) != self._parts + parts_bytes:
                raise RecordDamaged("it is shorter or longer than its first line says")
            header = begin[found.end() : self._parts]
            if self._parts > len(begin):
                header += _read(file, len(begin), self._parts - len(begin))
            _check(header, int(found[4], 16))
            self.header = _HEADER.decode(header)

    def record(self) -> Record:
        """The whole record."""
        header = self.header
        return Record(
            batch=header.batch,
            start=header.start,
            end=header.end,
            dropped=header.dropped,
            changes=self._all_changes(),
            opened=header.opened,
            emitted=self.emitted(),
            dead=self.dead(),
            meters=header.meters,
            grouped=header.grouped,
            sizes=header.sizes,
            cuts=header.cuts,
            waiting=header.waiting,
            imaged=self._all_images(),
            base=header.base,
            credit=header.credit,
        )

    def changes(self) -> Table:
        """The state that the batch changed, without that of its shards if it had several."""
        return self.table(self.header.changes)

    def _all_changes(self) -> Table:
        found = {instance: dict(groups) for instance, groups in self.changes().items()}
        for shard in self.header.shards:
            for instance, groups in self.table(shard.changes).items():
                found.setdefault(instance, {}).update(groups)
        return found

    def _all_images(self) -> Mapping[int, Image]:
        found: dict[int, Image] = {}
        for imaged in (self.header.imaged, *(shard.imaged for shard in self.header.shards)):
            for group, part in imaged.items():
                found[group] = {**found.get(group, {}), **self.image_in(part)}
        return found

    def table(self, part: RecordPart) -> Table:
        """A part with changes of states."""
        with self._opened() as file:
            return _TABLE.decode(self._part(file, part))

    def image(self, group: int) -> Image:
        """The content of a key group after the batch. Only for groups that the header names."""
        return self.image_in(self.header.imaged[group])

    def image_in(self, part: RecordPart) -> Image:
        """A part with an image."""
        with self._opened() as file:
            return _IMAGE.decode(self._part(file, part))

    def in_whole(self, part: RecordPart, shard: int) -> RecordPart:
        """The place of a part, as the record of the whole batch names it."""
        return part._replace(first=self._parts + part.first, shard=shard)

    def emitted(self, origin: Port | None = None) -> tuple[EmittedEvents, ...]:
        """The events that left the job, or only those that left at a port."""
        if not self.header.emitted:
            return ()
        with self._opened() as file:
            read = (
                EmittedEvents(
                    origin=each.origin,
                    first=each.first,
                    events=None if each.events is None else self._events(file, each.events),
                    marker=each.marker,
                    births=each.births,
                )
                for each in self.header.emitted
                if origin in {None, each.origin}
            )
            return tuple(read if not self.header.shards else _joined(read))

    def dead(self) -> tuple[Dead, ...]:
        """The events that could not be taken."""
        if not self.header.dead:
            return ()
        with self._opened() as file:
            return tuple(
                Dead(
                    instance=each.instance,
                    port=each.port,
                    reason=each.reason,
                    events=self._events(file, each.events),
                    traceback=each.traceback,
                )
                for each in self.header.dead
            )

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with _damage_named(self.path), self.path.open("rb") as file:
            yield file

    def _events(self, file: BinaryIO, part: RecordPart) -> pa.RecordBatch:
        return unpacked(self._part(file, part))

    def _part(self, file: BinaryIO, part: RecordPart) -> bytes:
        if part.shard is None:
            content = _read(file, self._parts + part.first, part.size)
        else:
            path = shard_path(self.path, part.shard)
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
        rows = [each.events for each in parts if each.events is not None]
        if len(rows) < 2:  # noqa: PLR2004 - one needs no other
            yield from parts
            continue
        births = tuple(birth for each in parts for birth in each.births)
        yield replace(parts[0], events=pa.concat_batches(rows), births=births)


def _alike(emitted: EmittedEvents) -> object:
    """What is equal for neighbours that can be joined."""
    fields = emitted.marker if emitted.events is None else emitted.events.schema.serialize().to_pybytes()
    return emitted.origin, fields, bool(emitted.births)


def shard_path(path: Path, shard: int) -> Path:
    """The file of one shard's record, beside the record of its batch."""
    return path.parent / "shards" / f"{path.name}.{shard:03d}"


def _read(file: BinaryIO, first: int, size: int) -> bytes:
    file.seek(first)
    return file.read(size)


def _check(content: bytes, checksum: int) -> None:
    if crc32(content) != checksum:
        raise RecordDamaged("a checksum does not match")


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (RecordDamaged, msgspec.MsgspecError, pa.ArrowException, OSError) as error:
        raise RecordDamaged(f"{path} cannot be read: {error}; restore it") from error
