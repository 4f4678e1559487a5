"""Numbered raw events: events that callers send to a source over REST, to be spooled exactly once.

A producer is a name under which a caller numbers the events that it sends to one source. The spool's expectations of
each producer are kept with the events, so that repeated events add nothing, and early ones are not taken. Callers wait
for an answer to each message, so events need not be held back and put in order, as between jobs.

Names that begin with `~` are for one use. A spool remembers only the newest producers of both kinds, because every file
of its log names all of them. No other process takes over such a producer, so its epoch is the position of its newest
events.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Self

import pyarrow as pa

from bridge.intake import Expected
from bridge.wire import MalformedFrame

ONE_TIME_PRODUCER = "~"
"""The beginning of the name of a producer that is for one use."""
MOST_REMEMBERED = 32
"""The number of producers of each kind that a spool remembers: those that sent last."""
_PRODUCER = "sent/"
"""The beginning of the names of these producers among all producers of a spool."""
_VERSION = b"1"
_NOTHING = pa.record_batch([], schema=pa.schema([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message of numbered raw events; without events, the question which number comes next."""

    producer: str
    first: int
    """The number of its first event."""
    events: pa.RecordBatch
    ask: str
    """The id that the answer repeats, so that the caller recognizes it."""

    @property
    def end(self) -> int:
        """The number after its last."""
        return self.first + int(self.events.num_rows)

    @classmethod
    def question(cls, producer: str, ask: str) -> Self:
        """Make a message that only asks for a producer's next number."""
        return cls(producer=producer, first=0, events=_NOTHING, ask=ask)

    def encoded(self) -> bytes:
        """The bytes of the message."""
        metadata = {
            b"braid": _VERSION,
            b"producer": self.producer.encode(),
            b"first": str(self.first).encode(),
            b"ask": self.ask.encode(),
        }
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.events.schema.with_metadata(metadata)) as writer:
            writer.write_batch(self.events.replace_schema_metadata(metadata))
        message: bytes = sink.getvalue().to_pybytes()
        return message

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """Read the bytes of a message."""
        try:
            with pa.ipc.open_stream(message) as reader:
                metadata = reader.schema.metadata or {}
                if metadata.get(b"braid") != _VERSION:
                    raise MalformedFrame("the message has another version than 1")
                events = reader.read_next_batch().replace_schema_metadata(None)
            events.validate(full=True)
            return cls(
                producer=metadata[b"producer"].decode(),
                first=int(metadata[b"first"]),
                events=events,
                ask=metadata[b"ask"].decode(),
            )
        except (pa.ArrowException, KeyError, ValueError, OSError, StopIteration) as error:
            if isinstance(error, MalformedFrame):
                raise
            raise MalformedFrame(f"the message holds no numbered events: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to one message of numbered raw events: the next number of its producer."""

    ask: str
    next: int
    """The next number; everything before it is durable."""

    def encoded(self) -> bytes:
        """The bytes of the message."""
        return json.dumps({"ask": self.ask, "next": self.next}).encode()

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """Read the bytes of a message."""
        try:
            receipt = json.loads(message)
            return cls(ask=str(receipt["ask"]), next=int(receipt["next"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise MalformedFrame(f"the message is no answer to numbered events: {error!r}") from error


def next_of(expected: Mapping[str, Expected], producer: str) -> int:
    """A producer's next number; 0 if it is not remembered."""
    known = expected.get(f"{_PRODUCER}{producer}")
    return 0 if known is None else known.next or 0


def taken(expected: Mapping[str, Expected], sent: Sent, at: int) -> tuple[dict[str, Expected], pa.RecordBatch]:
    """The expectations after a message, and its new events, which will begin at a position.

    >>> events = pa.record_batch({"n": [5, 6, 7]})
    >>> after, new = taken({}, Sent(producer="a", first=0, events=events, ask=""), 10)
    >>> after, new = taken(after, Sent(producer="a", first=2, events=events, ask=""), 13)
    >>> next_of(after, "a"), new.column("n").to_pylist()
    (5, [6, 7])
    >>> after, new = taken(after, Sent(producer="a", first=9, events=events, ask=""), 15)
    >>> next_of(after, "a"), new.num_rows
    (5, 0)
    """
    following = next_of(expected, sent.producer)
    if not sent.first <= following < sent.end:
        return dict(expected), sent.events.slice(0, 0)
    known = Expected(epoch=at, next=sent.end, opened=True)
    return {**expected, f"{_PRODUCER}{sent.producer}": known}, sent.events.slice(following - sent.first)


def remembered(expected: Mapping[str, Expected]) -> dict[str, Expected]:
    """The expectations without those of older producers of raw events.

    >>> many = {f"sent/{number}": Expected(epoch=number, next=1) for number in range(40)}
    >>> len(remembered(many)), "sent/7" in remembered(many), "sent/8" in remembered(many)
    (32, False, True)
    """
    if len(expected) <= MOST_REMEMBERED:
        return dict(expected)
    of_sent = [(each.epoch, name) for name, each in expected.items() if name.startswith(_PRODUCER)]
    once = [each for each in of_sent if each[1].startswith(f"{_PRODUCER}{ONE_TIME_PRODUCER}")]
    named = [each for each in of_sent if not each[1].startswith(f"{_PRODUCER}{ONE_TIME_PRODUCER}")]
    gone = {
        name for kind in (once, named) for _, name in sorted(kind, key=itemgetter(0), reverse=True)[MOST_REMEMBERED:]
    }
    return {name: each for name, each in expected.items() if name not in gone}
