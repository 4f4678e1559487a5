"""Behaviours with side effects, and the names of events by which they recognise what is done already.

A worker may die after a batch's effects and before its record; then the batch is repeated. So everything written
outside has a name that the repeated run uses again, and that no other event ever has. The name of a raw event is its
stream and position, which are the same in every batch and job. The name of an event that a task takes is that of the
raw event that caused it, and its place among those that the task takes for this cause.

A call that raises must not have written anything: its events are retried in smaller calls. A behaviour that writes each
event by itself returns those that it refuses instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from engine.behaviour import PortEmission, Refusal
from engine.event_streams import Numbers
from engine.records.state import Staged

MESSAGES = "*messages"
"""The port at which a behaviour emits messages to publish, with the fields `topic` and `event` (JSON).

Workers have no connection to the broker. The host publishes the messages from the batch's record, as it does outputs,
each with its number. A message that may not have left is sent again under the same number.
"""
_NO_NUMBERS = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """The streams and positions of a batch's raw events."""

    deployment: str = ""
    """The unique id of the job's root, so that two roots may write to the same place outside."""
    job: str = ""
    batch: int = 0
    streams: Sequence[str] = ("",)
    """The stream of each item of the batch, in the order of causes."""
    firsts: Numbers = field(default_factory=lambda: _NO_NUMBERS)
    """The position of each item's first event."""
    causes: Numbers = field(default_factory=lambda: _NO_NUMBERS)
    """The cause of each item's first event."""

    @classmethod
    def of(cls, items: Iterable[tuple[int, str, int]], *, deployment: str, job: str, batch: int) -> "Origins":
        """The origins of items, each given as the cause of its first event, its stream, and its position there."""
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
"""For tasks that need no event names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNames:
    """The permanent names of the events of one call."""

    instance: int
    origins: Origins
    causes: Numbers
    """The cause of each event."""
    places: Numbers
    """The place of each event among those of its cause."""

    @property
    def writer(self) -> str:
        """The name of the instance, unique among all deployments."""
        return f"{self.origins.deployment}/{self.instance}"

    @property
    def batch(self) -> str:
        """The name of the batch, unique for the writer."""
        return f"{self.origins.job}-{self.origins.batch:012d}"

    def texts(self) -> list[str]:
        """The names as texts, unique for the writer.

        >>> origins = Origins(streams=["city"], firsts=np.array([40]), causes=np.array([0]))
        >>> EventNames(instance=7, origins=origins, causes=np.array([0, 2, 2]), places=np.array([0, 0, 1])).texts()
        ['city:40.0', 'city:42.0', 'city:42.1']
        """
        origins = self.origins
        items = np.searchsorted(origins.causes, self.causes, side="right") - 1
        positions = origins.firsts[items] + self.causes - origins.causes[items]
        parts = zip(items.tolist(), positions.tolist(), self.places.tolist(), strict=True)
        return [f"{origins.streams[item]}:{position}.{place}" for item, position, place in parts]

    def between(self, first: int, end: int) -> "EventNames":
        """The names of the events between two indexes."""
        return replace(self, causes=self.causes[first:end], places=self.places[first:end])


def names_of(instance: int, origins: Origins, causes: Numbers) -> EventNames:
    """The names of all events that an instance takes in a batch, given their causes in order."""
    count = len(causes)
    begins = np.flatnonzero(np.diff(causes, prepend=causes[:1] - 1))
    places = np.arange(count) - np.repeat(begins, np.diff(begins, append=count))
    return EventNames(instance=instance, origins=origins, causes=causes, places=places)


class OutsideUnreachable(RuntimeError):
    """A system outside is unreachable. No event is at fault, so all that are left are parked without a try."""


class PartlyWritten(NamedTuple):
    """The emissions of a call, and the events that were not written."""

    emissions: Mapping[str, PortEmission]
    refusals: Sequence[Refusal]
    """The events that were not written, in order."""


Act: TypeAlias = Callable[[str, pa.RecordBatch, Staged, EventNames], Mapping[str, PortEmission] | PartlyWritten]
"""Like a `Behaviour`, but also takes the names of the events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingBehaviour:
    """A behaviour with side effects; made by the task library and by third parties."""

    act: Act
    whole: bool = False
    """True if it writes all events of a batch together, in one call. If that raises, all are parked."""

    def __call__(self, port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        """The emissions for an empty batch, which has no names."""
        if len(events):
            raise TypeError("an acting behaviour needs the names of its events; call its `act`")
        outcome = self.act(port, events, state, names_of(0, Origins(), np.empty(0, np.int64)))
        return outcome.emissions if isinstance(outcome, PartlyWritten) else outcome
