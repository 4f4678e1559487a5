"""The header of a record: everything small, and the place of each part of the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.wire import Birth
from engine.offset import Offset
from engine.plan import Port
from engine.records.record import CodeTraceback, Cut, InstanceMeter

RECORD_VERSION = 1
"""The version of the format."""


class RecordPart(NamedTuple):
    """The place of a part: after the header, or at a place in the file of a shard."""

    first: int
    size: int
    checksum: int
    shard: int | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A record without state and events, read first by `RecordFile`. The fields are those of `Record`."""

    batch: int
    start: Offset
    end: Offset
    dropped: tuple[int, ...]
    changes: RecordPart
    opened: tuple[tuple[Port, int], ...]
    emitted: tuple[EmittedPart, ...]
    dead: tuple[DeadPart, ...]
    meters: Mapping[int, InstanceMeter]
    cuts: tuple[Cut, ...]
    imaged: Mapping[int, RecordPart]
    base: int
    credit: int
    shards: tuple["ShardPart", ...] = ()
    """The states and the CPU of each shard, if the batch had several."""
    grouped: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPart:
    """The state that one shard of a batch changed, and its work."""

    changes: RecordPart
    imaged: Mapping[int, RecordPart]
    credit: int
    cpu_ns: int = 0
    """The CPU of its tasks."""
