"""The content of a record's file, as `engine.records.record_file` reads it."""

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import msgspec

from bridge.spools.log import packed
from engine.records.record import Image, Record
from engine.records.record_header import RECORD_VERSION, DeadPart, EmittedPart, Header, RecordPart
from engine.records.staged_state import NUMBERS

_pack = msgspec.msgpack.Encoder().encode


def written_record(record: Record) -> bytes:
    """The file content of a record."""
    parts = list[bytes]()
    end = 0

    def part(content: bytes) -> RecordPart:
        nonlocal end
        parts.append(content)
        end += len(content)
        return RecordPart(end - len(content), len(content), crc32(content))

    header = msgspec.json.encode(
        Header(
            batch=record.batch,
            start=record.start,
            end=record.end,
            dropped=record.dropped,
            changes=part(_pack(record.changes)),
            imaged={group: part(_pack(image)) for group, image in record.imaged.items()},
            opened=record.opened,
            emitted=tuple(
                EmittedPart(
                    origin=each.origin,
                    first=each.first,
                    count=each.count,
                    marker=each.marker,
                    events=None if each.events is None else part(packed(each.events)),
                    births=each.births,
                )
                for each in record.emitted
            ),
            dead=tuple(
                DeadPart(
                    instance=each.instance,
                    port=each.port,
                    # An exception's message may be unencodable, which must not fail the batch.
                    reason=each.reason.encode(errors="replace").decode(),
                    count=each.events.num_rows,
                    events=part(packed(each.events)),
                    traceback=each.traceback,
                )
                for each in record.dead
            ),
            meters=record.meters,
            grouped=record.grouped,
            sizes=record.sizes,
            cuts=record.cuts,
            waiting=record.waiting,
            base=record.base,
            credit=record.credit,
        )
    )
    return _framed(header, parts)


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
