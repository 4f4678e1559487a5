"""The whole record of a batch that ran as several shards, made from the records of all of them.

A shard's record is that of its own events: it numbers what it emits as if it were alone. Once all shards have theirs,
any of them makes the whole: a header that names the parts in the files of the shards, in which the numbers of each
stream go on from shard to shard. It depends on the files alone, so every worker makes the same. A batch counts when
its whole record is there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from engine.plan import Port, is_switch
from engine.records.record import InstanceMeter
from engine.records.record_file import RecordFile
from engine.records.record_header import DeadPart, EmittedPart, ShardPart
from engine.records.staged_state import NUMBERS, packed_number, unpacked_number
from engine.records.written_record import written_whole


def whole_record(files: Sequence[RecordFile]) -> bytes:
    """The content of the whole record of a batch, from the records of its shards in order."""
    first, *others = [file.header for file in files]
    common = {instance: dict(items) for instance, items in files[0].image(NUMBERS).items()}
    for file in files[1:]:
        for instance, items in file.image(NUMBERS).items():
            # A shard that saw none of a stream's events notes nothing of it.
            common.setdefault(instance, {}).update(items)
    emitted = tuple(_numbered(files, common))
    header = replace(
        first,
        dropped=tuple(sorted({each for header in (first, *others) for each in header.dropped})),
        emitted=emitted,
        dead=tuple(_dead(files)),
        meters=_summed(file.header.meters for file in files),
        # A key group is one shard's.
        grouped=dict(sorted(each for file in files for each in file.header.grouped.items())),
        sizes=dict(sum((Counter(file.header.sizes) for file in files), Counter[int]())),
        base=min(file.header.base for file in files),
        credit=0,
        shards=tuple(_states(file, shard) for shard, file in enumerate(files)),
    )
    return written_whole(header, {each: {k: v for k, v in items.items() if v} for each, items in common.items()})


def _numbered(files: Sequence[RecordFile], common: dict[int, dict[bytes, bytes]]) -> Iterator[EmittedPart]:
    """What all shards emitted, numbered through: the markers of switches, all events, the markers of cuts."""
    # Only the first shard has markers.
    marked = [each for each in files[0].header.emitted if each.marker]
    events: dict[Port, list[EmittedPart]] = {}
    for shard, file in enumerate(files):
        for each in file.header.emitted:
            if each.events is not None:
                part = replace(each, events=file.in_whole(each.events, shard))
                events.setdefault(each.origin, []).append(part)
    ordered = [
        *(each for each in marked if is_switch(each.marker)),
        *chain.from_iterable(events.values()),
        *(each for each in marked if not is_switch(each.marker)),
    ]
    next_numbers: dict[Port, int] = {}
    for each in files[0].header.emitted:
        # The first shard left the number as if it were alone.
        next_numbers.setdefault(each.origin, each.first)
    for each in ordered:
        number = next_numbers.get(each.origin)
        if number is None:
            number = _number(common, each.origin)
        yield replace(each, first=number)
        next_numbers[each.origin] = number + each.count
    for origin, number in next_numbers.items():
        common.setdefault(origin.instance, {})[origin.port.encode()] = packed_number(number)


def _number(common: Mapping[int, Mapping[bytes, bytes]], origin: Port) -> int:
    kept = common.get(origin.instance, {}).get(origin.port.encode())
    return 0 if kept is None else unpacked_number(kept)


def _dead(files: Sequence[RecordFile]) -> Iterator[DeadPart]:
    for shard, file in enumerate(files):
        for each in file.header.dead:
            yield replace(each, events=file.in_whole(each.events, shard))


def _states(file: RecordFile, shard: int) -> ShardPart:
    header = file.header
    return ShardPart(
        changes=file.in_whole(header.changes, shard),
        imaged={group: file.in_whole(part, shard) for group, part in header.imaged.items() if group != NUMBERS},
        credit=header.credit,
        cpu_ns=sum(meter.cpu_ns for meter in header.meters.values()),
    )


def _summed(meters: Iterable[Mapping[int, InstanceMeter]]) -> dict[int, InstanceMeter]:
    found: dict[int, InstanceMeter] = {}
    for each in meters:
        for instance, meter in each.items():
            before = found.get(instance, InstanceMeter())
            found[instance] = before + meter
    return found
