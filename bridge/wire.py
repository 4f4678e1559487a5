"""The wire format of streams between jobs: frames of numbered events as Arrow IPC, everything else in its metadata.

Numbers count events, not frames, so that they do not depend on how a producer cuts its batches; they belong to the
producer, which is an instance and a port, and to its epoch. A frame is small enough for any broker. What a receiver
answers is JSON: what it has, and what it wants again.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

import pyarrow as pa

from bridge.events.births import Birth, births_in, births_text, part_of

_VERSION = b"1"
MOST_MESSAGE_BYTES = 1_000_000
"""The most event data in one frame; a single larger event still goes in a frame of its own."""

_NOTHING = pa.record_batch([], schema=pa.schema([]))


class FrameKind(StrEnum):
    """What a frame says: events follow, a marker stands here, the stream begins, the stream ends."""

    DATA = "data"
    MARKER = "marker"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message of a stream between jobs; made by publishers, read by receivers."""

    instance: int
    port: str
    epoch: int
    first: int
    """Its first number; where it takes none, the one that comes next."""
    kind: FrameKind = FrameKind.DATA
    events: pa.RecordBatch = field(default_factory=lambda: _NOTHING)
    marker: str = ""
    """What the marker is called."""
    births: tuple[Birth, ...] = ()
    """When its events were born, all of them; none where that is not known."""

    @property
    def count(self) -> int:
        """How many numbers it takes: one for each event, and one for a marker, so that neither can be lost unseen."""
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
        """The frame without what it holds from a number on."""
        return self if self.end <= number else self._part(self.first, number)

    def _part(self, first: int, end: int) -> "Frame":
        at = first - self.first
        events, births = self.events.slice(at, end - first), part_of(self.births, at, end - self.first)
        return replace(self, first=first, events=events, births=births)


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """What a receiver's spool has of a stream; published by receivers, read by senders."""

    epoch: int
    next: int
    """The number that comes next; everything before it is there for good."""
    closed: bool = False
    """Whether the end of the stream came too."""

    def encoded(self) -> bytes:
        """As the bytes of a message."""
        return json.dumps({"epoch": self.epoch, "next": self.next, "closed": self.closed}).encode()

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """From the bytes of a message."""
        with _named("have"):
            told = json.loads(message)
            return cls(epoch=int(told["epoch"]), next=int(told["next"]), closed=bool(told.get("closed", False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What a receiver misses of a stream; published by receivers, read by senders."""

    epoch: int
    first: int
    end: int
    """The number after the last that is missing."""

    def encoded(self) -> bytes:
        """As the bytes of a message."""
        return json.dumps({"epoch": self.epoch, "from": self.first, "to": self.end}).encode()

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """From the bytes of a message."""
        with _named("again"):
            told = json.loads(message)
            return cls(epoch=int(told["epoch"]), first=int(told["from"]), end=int(told["to"]))


class MalformedFrame(ValueError):
    """A message is not what its topic promises to those that read this version."""


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedFrame(f"the message is no '{what}' of a receiver: {error!r}") from error


def encode(frame: Frame) -> bytes:
    """A frame as the bytes of one message."""
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
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, frame.events.schema.with_metadata(metadata)) as writer:
        if frame.kind is FrameKind.DATA:
            writer.write_batch(frame.events.replace_schema_metadata(metadata))
    message: bytes = sink.getvalue().to_pybytes()
    return message


def decode(message: bytes) -> Frame:
    """The frame in a message."""
    try:
        with pa.ipc.open_stream(message) as reader:
            told = reader.schema.metadata or {}
            if told.get(b"braid") != _VERSION:
                raise MalformedFrame(f"the frame has version {told.get(b'braid', b'none').decode()}, not 1")
            batches = list(reader)
        if len(batches) > 1:
            raise MalformedFrame(f"the frame has {len(batches)} batches of events, not one")
        frame = Frame(
            instance=int(told[b"instance"]),
            port=told[b"port"].decode(),
            epoch=int(told[b"epoch"]),
            first=int(told[b"first"]),
            kind=FrameKind(told[b"kind"].decode()),
            events=batches[0].replace_schema_metadata(None) if batches else _NOTHING,
            marker=told[b"marker"].decode(),
        )
        # Whoever reads events with wrong offsets, or a name that is no text, would crash.
        frame.events.validate(full=True)
        frame.events.schema.names  # noqa: B018 - reading them is the check
        count = int(told[b"count"])
        # Frames of older hosts have none.
        frame = replace(frame, births=births_in(told.get(b"births", b"").decode(), len(frame.events)))
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        if isinstance(error, MalformedFrame):
            raise
        raise MalformedFrame(f"the message is no frame: {error}") from error
    if frame.count != count:
        raise MalformedFrame(f"the frame says that it takes {count} numbers and takes {frame.count}")
    return frame


def cut(events: pa.RecordBatch, most: int = MOST_MESSAGE_BYTES) -> Iterator[pa.RecordBatch]:
    """The events in batches of at most so many bytes, as far as single events allow."""
    if events.num_rows <= 1 or events.nbytes <= most:
        if events.num_rows:
            yield events
        return
    half = events.num_rows // 2
    yield from cut(events.slice(0, half), most)
    yield from cut(events.slice(half), most)
