"""ActingBehaviour: behaviours that have an effect outside, and the names by which they know what is done already.

A worker may die after a batch's effects and before its record, and then the batch is run again. So whatever writes
outside writes under a name that the second run repeats, and that no other event ever has. A raw event has one: its
stream and its position there, which are the same in whatever batch or job it is read. What a task takes is named after
the raw event that caused it, and by its place among what the task takes for that one.

A call that raises must not have written anything: its events are tried again in smaller calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from engine.behaviour import PortEmission
from engine.kernel.streams import Numbers
from engine.records.staged_state import Staged

MESSAGES = "*messages"
"""At this port a behaviour gives messages to be published, with the fields `topic` and `event`, which is JSON.

No worker is connected to the broker. The host publishes them from the batch's record, as it does with outputs, and each
with its number: a message that may not have left leaves again under the same one.
"""
_NO_NUMBERS = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Where the raw events of one batch lie; made by the kernel."""

    deployment: str = ""
    """The root that the job lies in, by an id of its own, so that two of them may write to one place outside."""
    job: str = ""
    batch: int = 0
    streams: Sequence[str] = ("",)
    """For each item of the batch its stream, in the order of causes."""
    firsts: Numbers = field(default_factory=lambda: _NO_NUMBERS)
    """The position of its first event."""
    causes: Numbers = field(default_factory=lambda: _NO_NUMBERS)
    """The cause of its first event."""

    @classmethod
    def of(cls, items: Iterable[tuple[int, str, int]], *, deployment: str, job: str, batch: int) -> "Origins":
        """Those of items, each by the cause of its first event, its stream, and its position there."""
        causes, streams, firsts = tuple(zip(*items, strict=True)) or ((), (), ())
        return cls(
            deployment=deployment,
            job=job,
            batch=batch,
            streams=streams,
            firsts=np.array(firsts, np.int64),
            causes=np.array(causes, np.int64),
        )


NOWHERE = Origins()
"""For tasks that need no names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNames:
    """What the events of one call are called for good; made for each call of a behaviour that acts."""

    instance: int
    origins: Origins
    causes: Numbers
    """For each event the cause."""
    places: Numbers
    """For each event its place among those of its cause."""

    @property
    def writer(self) -> str:
        """Who writes: no other instance anywhere has this name."""
        return f"{self.origins.deployment}/{self.instance}"

    @property
    def batch(self) -> str:
        """The batch that is run, which no other of the writer is called."""
        return f"{self.origins.job}-{self.origins.batch:012d}"

    def each(self) -> list[str]:
        """The name of each event among those of the writer.

        >>> origins = Origins(streams=["city"], firsts=np.array([40]), causes=np.array([0]))
        >>> EventNames(instance=7, origins=origins, causes=np.array([0, 2, 2]), places=np.array([0, 0, 1])).each()
        ['city:40.0', 'city:42.0', 'city:42.1']
        """
        origins = self.origins
        items = np.searchsorted(origins.causes, self.causes, side="right") - 1
        positions = origins.firsts[items] + self.causes - origins.causes[items]
        told = zip(items.tolist(), positions.tolist(), self.places.tolist(), strict=True)
        return list(starmap(lambda item, position, place: f"{origins.streams[item]}:{position}.{place}", told))

    def between(self, first: int, end: int) -> "EventNames":
        """Those of some of the events."""
        return EventNames(
            instance=self.instance,
            origins=self.origins,
            causes=self.causes[first:end],
            places=self.places[first:end],
        )


def names_of(instance: int, origins: Origins, causes: Numbers) -> EventNames:
    """What all the events are called that an instance takes in a batch, given their causes in order."""
    count = len(causes)
    begins = np.flatnonzero(np.diff(causes, prepend=causes[:1] - 1))
    places = np.arange(count) - np.repeat(begins, np.diff(begins, append=count))
    return EventNames(instance=instance, origins=origins, causes=causes, places=places)


class OutsideUnreachable(RuntimeError):
    """What a behaviour writes to or reads from cannot be reached; raised by behaviours, with the reason.

    No event is to blame, so the rest of them is parked untried.
    """


Act: TypeAlias = Callable[[str, pa.RecordBatch, Staged, EventNames], Mapping[str, PortEmission]]
"""What a behaviour is, told the names of its events as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingBehaviour:
    """A behaviour that has an effect; made by the task library and by third parties."""

    act: Act
    whole: bool = False
    """Whether it is called once for all that it takes in a batch, or not at all, because it writes them together: if it
    raises, all are parked."""

    def __call__(self, port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        """What it gives for no events, which have no names."""
        if len(events):
            raise TypeError("a behaviour that acts is told the names of its events; call its `act`")
        return self.act(port, events, state, names_of(0, Origins(), np.empty(0, np.int64)))
