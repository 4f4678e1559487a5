"""Emitted events, as the records of a job keep them, and the frames in which they are sent."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from bridge.events.births import Birth, part_of
from bridge.wire import Frame, FrameKind, cut


class Stream(NamedTuple):
    """A stream between jobs, named by the instance and port that it leaves."""

    instance: int
    port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """Events that left a port together, or a marker; made by a job from its records."""

    first: int
    """The number of its first event, or of the marker."""
    events: pa.RecordBatch | None = None
    marker: str = ""
    """The marker's name, if there are no events."""
    births: tuple[Birth, ...] = ()
    """The births of all its events; empty if they are unknown."""

    @property
    def end(self) -> int:
        """The number after its last. A marker takes one number."""
        return self.first + (1 if self.events is None else len(self.events))


def frames(stream: Stream, epoch: int, kept: Iterable[Emitted], number: int) -> Iterator[Frame]:
    """Yield what was emitted from a number on, in frames small enough for any broker."""
    frame = partial(Frame, instance=stream.instance, port=stream.port, epoch=epoch)
    for emitted in kept:
        if emitted.end <= number:
            continue
        if emitted.events is None:
            yield frame(first=emitted.first, kind=FrameKind.MARKER, marker=emitted.marker)
            continue
        first = max(number, emitted.first)
        for events in cut(emitted.events.slice(first - emitted.first)):
            at = first - emitted.first
            yield frame(first=first, events=events, births=part_of(emitted.births, at, at + len(events)))
            first += len(events)
