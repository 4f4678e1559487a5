"""The wire format of streams between jobs: births, frames of numbered events, and what a job has emitted.

A frame holds events as Arrow IPC, with everything else as metadata, and is small enough for any broker. Numbers count
events, not frames, so they do not depend on how a producer cuts its batches. They belong to the producer, which is an
instance and a port, and to its epoch. A receiver answers in JSON: what it has, and what it wants again.

Births are the times at which the raw events behind an event were received, so that the age of an output is known.
Consecutive events that were born together share one birth. Births stay the same over a bridge, while a stamp is the
time at which a spool received something. What was spooled or recorded without births has an unknown birth.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import starmap
from typing import Annotated, NamedTuple, Self

import msgspec
import pyarrow as pa

UNKNOWN_BIRTH = 0
"""The time of an unknown birth; earlier than all known ones."""


class Birth(NamedTuple):
    """The birth of consecutive events; made by receivers, by generators, and by the kernel for emitted events."""

    many: int
    at: int
    """The time when Braid's first spool received their raw events, in milliseconds."""


def part_of(births: Sequence[Birth], first: int, end: int) -> tuple[Birth, ...]:
    """The births of a slice of the events.

    >>> part_of([Birth(3, 100), Birth(2, 200)], 2, 4)
    (Birth(many=1, at=100), Birth(many=1, at=200))
    """
    parts, place = [], 0
    for many, at in births:
        if (left := min(end, place + many) - max(first, place)) > 0:
            parts.append(Birth(left, at))
        place += many
    return tuple(parts)


def births_text(births: Sequence[Birth]) -> str:
    """Births as text; empty if there are none.

    >>> births_text([Birth(3, 100), Birth(2, 200)])
    '[[3,100],[2,200]]'
    """
    return msgspec.json.encode(births).decode() if births else ""


def births_in(text: str | None, count: int) -> tuple[Birth, ...]:
    """The births of `count` events from their text, which may be absent; raises ValueError if it does not fit.

    >>> births_in("[[3,100],[2,200]]", 5)
    (Birth(many=3, at=100), Birth(many=2, at=200))
    """
    if not text:
        return ()
    try:
        births = tuple(starmap(Birth, _BIRTHS.decode(text)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text[:100]!r} has no births: {error}") from error
    if sum(birth.many for birth in births) != count:
        raise ValueError(f"{text[:100]!r} has the births of another number of events than {count}")
    return births


_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_BIRTHS = msgspec.json.Decoder(tuple[tuple[_Whole, _Whole], ...])
_VERSION = b"1"
MOST_MESSAGE_BYTES = 1_000_000
"""Bytes of events in one frame, at most; a single larger event has a frame of its own."""

NO_EVENTS = pa.record_batch([], schema=pa.schema([]))


class FrameKind(StrEnum):
    """The kinds of frames: events, a marker, the beginning and the end of a stream."""

    DATA = "data"
    MARKER = "marker"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message of a stream between jobs; made by senders, read by receivers."""

    instance: int
    port: str
    epoch: int
    first: int
    """Its first number; if it takes none, the next number."""
    kind: FrameKind = FrameKind.DATA
    events: pa.RecordBatch = field(default_factory=lambda: NO_EVENTS)
    marker: str = ""
    births: tuple[Birth, ...] = ()

    @property
    def count(self) -> int:
        """The count of numbers that it takes: one for each event or marker, so that none can be lost unnoticed."""
        if self.kind is FrameKind.DATA:
            return len(self.events)
        return 1 if self.kind is FrameKind.MARKER else 0

    @property
    def end(self) -> int:
        """The number after its last."""
        return self.first + self.count

    def since(self, number: int) -> "Frame":
        """The frame without the events before a number."""
        return self._part(number, self.end)

    def until(self, number: int) -> "Frame":
        """The frame without the events from a number on."""
        return self if self.end <= number else self._part(self.first, number)

    def _part(self, first: int, end: int) -> "Frame":
        at = first - self.first
        events, births = self.events.slice(at, end - first), part_of(self.births, at, end - self.first)
        return replace(self, first=first, events=events, births=births)


class JsonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver says, in JSON."""

    def encoded(self) -> bytes:
        """The bytes of the message."""
        return json.dumps(msgspec.to_builtins(self)).encode()

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """Read the bytes of a message."""
        try:
            return msgspec.json.decode(message, type=cls)
        except (ValueError, RecursionError) as error:
            raise MalformedFrame(f"the message is no {cls.__name__!r} of a receiver: {error!r}") from error


class Have(JsonAnswer, frozen=True, kw_only=True):
    """A receiver's report of what its spool has of a stream; read by senders."""

    epoch: int
    next: int
    """The next number; everything before it is durable."""
    closed: bool = False


class Again(JsonAnswer, frozen=True, kw_only=True, rename={"first": "from", "end": "to"}):
    """A receiver's request for missing events of a stream; read by senders."""

    epoch: int
    first: int
    end: int
    """The number after the last missing one."""


class MalformedFrame(ValueError):
    """A message that is not what its topic promises, in this version of the wire format."""


def encode(frame: Frame) -> bytes:
    """The bytes of a frame's message."""
    metadata = {
        b"braid": _VERSION,
        b"instance": str(frame.instance).encode(),
        b"port": frame.port.encode(),
        b"epoch": str(frame.epoch).encode(),
        b"first": str(frame.first).encode(),
        b"count": str(frame.count).encode(),
        b"kind": frame.kind.encode(),
        b"marker": frame.marker.encode(),
    }
    if frame.births:
        metadata[b"births"] = births_text(frame.births).encode()
    batches = [frame.events.replace_schema_metadata(metadata)] if frame.kind is FrameKind.DATA else []
    return ipc_stream(frame.events.schema.with_metadata(metadata), *batches)


def ipc_stream(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    """Batches as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def decode(message: bytes) -> Frame:
    """The frame in a message."""
    try:
        with pa.ipc.open_stream(message) as reader:
            metadata = reader.schema.metadata or {}
            if metadata.get(b"braid") != _VERSION:
                raise MalformedFrame(f"the frame has version {metadata.get(b'braid', b'none').decode()}, not 1")
            batches = list(reader)
        if len(batches) > 1:
            raise MalformedFrame(f"the frame has {len(batches)} batches of events, not one")
        frame = Frame(
            instance=int(metadata[b"instance"]),
            port=metadata[b"port"].decode(),
            epoch=int(metadata[b"epoch"]),
            first=int(metadata[b"first"]),
            kind=FrameKind(metadata[b"kind"].decode()),
            events=batches[0].replace_schema_metadata(None) if batches else NO_EVENTS,
            marker=metadata[b"marker"].decode(),
        )
        # Reading events with wrong offsets, or with a name that is no text, would crash.
        frame.events.validate(full=True)
        frame.events.schema.names  # noqa: B018 - reading them is the check
        count = int(metadata[b"count"])
        frame = replace(frame, births=births_in(metadata.get(b"births", b"").decode(), len(frame.events)))
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        if isinstance(error, MalformedFrame):
            raise
        raise MalformedFrame(f"the message is no frame: {error}") from error
    if frame.count != count:
        raise MalformedFrame(f"the frame claims {count} numbers, but has {frame.count}")
    return frame


def cut(events: pa.RecordBatch, most: int = MOST_MESSAGE_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut events into batches of at most so many bytes, or of a single event."""
    if events.num_rows <= 1 or events.nbytes <= most:
        if events.num_rows:
            yield events
        return
    half = events.num_rows // 2
    yield from cut(events.slice(0, half), most)
    yield from cut(events.slice(half), most)


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
    births: tuple[Birth, ...] = ()

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
