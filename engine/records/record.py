"""The record: what one batch of a job did, written once, whole.

The kernel makes it, the state adds images, the store keeps it. A publisher sends what is in it, workers catch up from
it, and a batch that is run again and finds it computes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from bridge.events.births import Birth
from engine.offset import Offset
from engine.plan import Port

Table: TypeAlias = Mapping[int, Mapping[int, Mapping[bytes, bytes | None]]]
"""State by instance, key group and key, or a change of it: there None says that the key is deleted."""
Image: TypeAlias = Mapping[int, Mapping[bytes, bytes]]
"""All that a key group holds, by instance and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedEvents:
    """Events of one stream that left the job in a batch, or a marker in it; made by the kernel."""

    origin: Port
    first: int
    """The number of its first event; numbers count what left there since the instance began."""
    events: pa.RecordBatch | None = None
    marker: str = ""
    """The marker's name; then there are no events."""
    births: tuple[Birth, ...] = ()
    """When its events were born, all of them; none where that is not known."""

    @property
    def count(self) -> int:
        """How many numbers it takes: one for each event, one for a marker."""
        return 1 if self.events is None else int(self.events.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """Events that an instance could not take; made by the kernel."""

    instance: int
    port: str
    reason: str
    events: pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMeter:
    """What an instance did in a batch; measured by the kernel."""

    cpu_ns: int = 0
    taken: int = 0
    emitted: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A marker aligned at the end of the batch, in one connected part of the plan; made by the kernel.

    The states of its instances are those of this batch.
    """

    name: str
    instances: tuple[int, ...]
    positions: Mapping[str, int]
    """For each stream of the part the position just after the marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one batch did; made by the kernel, completed by `InstanceStates.settle`."""

    batch: int
    start: Offset
    end: Offset
    """The batch answers for what lies between these two offsets."""
    dropped: tuple[int, ...] = ()
    """Instances whose state is forgotten, before anything is changed."""
    changes: Table = field(default_factory=dict)
    """What `InstanceStates.changes` said."""
    opened: tuple[tuple[Port, int], ...] = ()
    """Where the batch begins a new plan: for each stream that it forwards the number that comes next."""
    emitted: tuple[EmittedEvents, ...] = ()
    dead: tuple[Dead, ...] = ()
    meters: Mapping[int, InstanceMeter] = field(default_factory=dict)
    cuts: tuple[Cut, ...] = ()
    imaged: Mapping[int, Image] = field(default_factory=dict)
    """Key groups with all that they hold after the batch, so that older records need not be read for them."""
    base: int = 0
    """The oldest record that the state after this batch is made from."""
    credit: int = 0
    """Bytes that were changed up to this batch and not paid for by images yet; any worker goes on from there."""
