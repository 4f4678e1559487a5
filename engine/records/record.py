"""The record of a job's batch: its outcome, written once, as a whole.

The kernel makes it, the state adds images, the store keeps it. A publisher sends its events, workers catch up from it,
and a repeated batch that finds it computes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from bridge.wire import Birth
from engine.offset import Offset
from engine.plan import Port

Table: TypeAlias = Mapping[int, Mapping[int, Mapping[bytes, bytes | None]]]
"""State by instance, key group and key; or a change of it, in which None deletes a key."""
Image: TypeAlias = Mapping[int, Mapping[bytes, bytes]]
"""The whole content of a key group, by instance and key."""
Changes = TypeVar("Changes")
Emitted = TypeVar("Emitted")
Letter = TypeVar("Letter")
Imaged = TypeVar("Imaged")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedEvents:
    """Events of one stream that left the job in a batch, or a marker in it; made by the kernel."""

    origin: Port
    first: int
    """The number of its first event. Numbers count what left the port since the instance began."""
    events: pa.RecordBatch | None = None
    marker: str = ""
    """The name of a marker, which has no events."""
    births: tuple[Birth, ...] = ()
    """The times of birth of all its events; empty if unknown."""

    @property
    def count(self) -> int:
        """The numbers that it takes: one for each event, one for a marker."""
        return 1 if self.events is None else int(self.events.num_rows)


class CodeTraceback(NamedTuple):
    """A traceback of published code, which only its owner may read."""

    owner: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """Events that an instance could not take; made by the kernel."""

    instance: int
    port: str
    reason: str
    events: pa.RecordBatch
    traceback: CodeTraceback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMeter:
    """The work of an instance in a batch; measured by the kernel."""

    cpu_ns: int = 0
    taken: int = 0
    emitted: int = 0
    dead: int = 0

    def __add__(self, other: "InstanceMeter") -> "InstanceMeter":
        return InstanceMeter(
            cpu_ns=self.cpu_ns + other.cpu_ns,
            taken=self.taken + other.taken,
            emitted=self.emitted + other.emitted,
            dead=self.dead + other.dead,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A marker aligned at the end of the batch, in one connected part of the plan; made by the kernel.

    The states of its instances are those of this batch.
    """

    name: str
    instances: tuple[int, ...]
    positions: Mapping[str, int]
    """The position just after the marker, in each stream of the part."""


class RecordPart(NamedTuple):
    """The place of a part of a record's file: after the header, or at a place in the file of a shard."""

    first: int
    size: int
    checksum: int
    shard: int | None = None
    repeats: int = 0
    """Which of the shard's files it is: how often the shard had run the batch before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPart:
    """The state that one shard of a batch changed, and its work."""

    changes: RecordPart
    imaged: Mapping[int, RecordPart]
    credit: int
    cpu_ns: int = 0
    """The CPU of its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord(Generic[Changes, Emitted, Letter, Imaged]):
    """The outcome of one batch: a `Record`, or the header of its file, which has places instead of state and events.

    Files have the fields in this order.
    """

    batch: int
    start: Offset
    end: Offset
    """The batch covers the events between these two offsets."""
    dropped: tuple[int, ...] = ()
    """Instances whose state is dropped, before any change is applied."""
    changes: Changes
    """The result of `InstanceStates.changes`."""
    opened: tuple[tuple[Port, int], ...] = ()
    """If the batch begins a new plan, the next number of each stream that it forwards."""
    emitted: tuple[Emitted, ...] = ()
    dead: tuple[Letter, ...] = ()
    meters: Mapping[int, InstanceMeter] = field(default_factory=dict)
    cuts: tuple[Cut, ...] = ()
    imaged: Mapping[int, Imaged]
    """Images of key groups after the batch, which make older records unnecessary for them."""
    base: int = 0
    """The oldest record that the state after this batch is made from."""
    credit: int = 0
    """The bytes changed up to this batch and not yet covered by images. Any worker continues from it."""
    shards: tuple[ShardPart, ...] = ()
    """In a file, the states and the CPU of each shard, if the batch had several."""
    grouped: Mapping[int, int] = field(default_factory=dict)
    """In a shard of several, the events that it took of each key group."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """The bytes of each state after the batch, but for small ones."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """The streams for which the batch ended early, each with the time when its next event was spooled, in
    milliseconds."""
    read: Mapping[str, int] = field(default_factory=dict)
    """In a shard of several, the position after its own last event of each stream that had events in the batch."""
    repeats: int = 0
    """In a shard of several, how often it had run the batch before: others ended early, where it had read on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(BatchRecord[Table, EmittedEvents, Dead, Image]):
    """The outcome of one batch; made by the kernel, completed by `InstanceStates.settle`."""

    changes: Table = field(default_factory=dict)
    imaged: Mapping[int, Image] = field(default_factory=dict)
