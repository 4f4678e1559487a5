"""Numbered raw events: what callers send to a source over REST, on its way into the source's spool exactly once.

A producer is a name under which somebody numbers the events that it sends to one source. What the spool expects of each
is kept with the events, so that what comes again adds nothing, and what comes too early is not taken. Whoever sends
waits for an answer to each message, so nothing has to be held back and put in order here, as between jobs.

Names that begin with `~` are for one use. Of both kinds a spool remembers the newest only: every file of its log names
all that it remembers. Nobody takes such a producer over, so its epoch is where its newest events begin in the spool.
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
"""What the name of a producer begins with that is for one use."""
MOST_REMEMBERED = 32
"""How many producers of each kind a spool remembers, those that sent last."""
_PRODUCER = "sent/"
"""What producers of raw events begin with among all that a spool knows."""
_VERSION = b"1"
_NOTHING = pa.record_batch([], schema=pa.schema([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message of numbered raw events, or without any the question which number comes next."""

    producer: str
    first: int
    """The number of its first event."""
    events: pa.RecordBatch
    ask: str
    """What the answer names, so that whoever waits for it knows it."""

    @property
    def end(self) -> int:
        """The number after its last."""
        return self.first + int(self.events.num_rows)

    @classmethod
    def question(cls, producer: str, ask: str) -> Self:
        """A message that only asks which number comes next of a producer."""
        return cls(producer=producer, first=0, events=_NOTHING, ask=ask)

    def encoded(self) -> bytes:
        """As the bytes of a message."""
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
        """From the bytes of a message."""
        try:
            with pa.ipc.open_stream(message) as reader:
                told = reader.schema.metadata or {}
                if told.get(b"braid") != _VERSION:
                    raise MalformedFrame("the message has another version than 1")
                events = reader.read_next_batch().replace_schema_metadata(None)
            events.validate(full=True)
            return cls(
                producer=told[b"producer"].decode(),
                first=int(told[b"first"]),
                events=events,
                ask=told[b"ask"].decode(),
            )
        except (pa.ArrowException, KeyError, ValueError, OSError, StopIteration) as error:
            if isinstance(error, MalformedFrame):
                raise
            raise MalformedFrame(f"the message holds no numbered events: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to one message of numbered raw events: how far its producer lies in the spool."""

    ask: str
    next: int
    """The number that comes next; everything before it is there for good."""

    def encoded(self) -> bytes:
        """As the bytes of a message."""
        return json.dumps({"ask": self.ask, "next": self.next}).encode()

    @classmethod
    def decoded(cls, message: bytes) -> Self:
        """From the bytes of a message."""
        try:
            told = json.loads(message)
            return cls(ask=str(told["ask"]), next=int(told["next"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise MalformedFrame(f"the message is no answer to numbered events: {error!r}") from error


def next_of(expected: Mapping[str, Expected], producer: str) -> int:
    """The number that comes next of a producer; 0 where none came, or it is not remembered."""
    known = expected.get(f"{_PRODUCER}{producer}")
    return 0 if known is None else known.next or 0


def taken(expected: Mapping[str, Expected], sent: Sent, at: int) -> tuple[dict[str, Expected], pa.RecordBatch]:
    """What is expected after a message, and the events that are new in it; they are to lie at a position.

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
    """Expectations without those of producers of raw events beyond the newest.

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
