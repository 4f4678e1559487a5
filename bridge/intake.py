"""The intake: what a receiver takes of numbered events, from other jobs and from callers. Decided purely.

**Frames between jobs.** A broker may deliver a frame twice, deliver new frames before the backlog after a reconnect, or
lose frames that it had accepted. A producer's events are numbered, so the receiver restores their order: it takes the
next events, holds early ones, drops those that it has, and asks for missing ones. Events that stay missing are counted
as a gap and skipped. A producer that took over has a higher epoch; frames of an older epoch are refused.

Within an epoch a stream opens once and closes once. So an opening or an end that comes twice changes nothing, and
opening again takes a higher epoch. If the stream closed in between, events not forwarded meanwhile are not missing.

**Numbered raw events** are those that callers send to a source over REST, to be spooled exactly once. Here a producer
is a name under which a caller numbers what it sends to one source. What the spool expects of each producer is kept with
the events, so that repeated events add nothing, and early ones are not taken. Callers wait for an answer to each
message, so nothing need be held back and put in order, as between jobs.

Names that begin with `~` are for one use. A spool remembers only the newest producers of both kinds, because every file
of its log names all of them. No other process takes over such a producer, so its epoch is the position of its newest
events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa

from bridge.wire import NO_EVENTS, Frame, FrameKind, JsonAnswer, MalformedFrame, ipc_stream
from dags.vocabulary import ONE_TIME_PRODUCER


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The next frame that a receiver expects of one producer; kept with the spool."""

    epoch: int = 0
    next: int | None = None
    """The next number; None until the stream has opened."""
    opened: bool = False
    closed: bool = False
    """True if the stream ended: in this epoch if it opened in it, else in an earlier one."""

    @property
    def begins(self) -> bool:
        """True if only an opening can tell the next number."""
        return self.next is None or (self.closed and not self.opened)

    @property
    def over(self) -> bool:
        """True if nothing more comes in this epoch."""
        return self.opened and self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of what an intake has met so far."""

    duplicates: int = 0
    held: int = 0
    gaps: int = 0
    refused: int = 0
    """Events of an older epoch, or from after the end of their stream."""

    def plus(self, **more: int) -> "Counts":
        """With more of what is named."""
        return replace(self, **{name: getattr(self, name) + count for name, count in more.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """The state of one producer's stream."""

    expected: Expected = field(default_factory=Expected)
    early: Mapping[int, tuple[Frame, float]] = field(default_factory=dict)
    """Frames held back, by first number, with the time since when."""
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The result of an offer."""

    intake: Intake
    frames: tuple[Frame, ...] = ()
    missing: tuple[int, int] | None = None
    """Numbers to ask for, as a range without its end."""


def offer(intake: Intake, frame: Frame, now: float) -> Taken:
    """Decide what to do with a frame."""
    expected = intake.expected
    if frame.epoch < expected.epoch:
        return _dropped(intake, refused=frame.count)
    if frame.epoch > expected.epoch:
        # Early frames of an older epoch cannot be joined to frames of the newer one.
        counts = intake.counts.plus(refused=_count(intake.early))
        raised = replace(expected, epoch=frame.epoch, opened=False)
        return offer(replace(intake, expected=raised, early={}, counts=counts), frame, now)
    if expected.over:
        is_behind = frame.end > (expected.next or 0)
        return _dropped(intake, refused=frame.count) if is_behind else _dropped(intake, duplicates=frame.count)
    return _placed(intake, frame, now)


def expire(intake: Intake, now: float, patience: float) -> Taken:
    """Give up on events that have been missing for too long: count them, and go on with the early frames."""
    if not intake.early or now - min(since for _, since in intake.early.values()) < patience:
        return Taken(intake=intake, missing=_missing(intake))
    expected = intake.expected
    following = max(min(intake.early), expected.next or 0)
    # Before a stream has opened, nobody knows which events were lost.
    lost = 0 if expected.begins or expected.next is None else following - expected.next
    passed = replace(expected, next=following, closed=False)
    return _drained(replace(intake, expected=passed, counts=intake.counts.plus(gaps=lost)), ())


def _placed(intake: Intake, frame: Frame, now: float) -> Taken:
    """The result for a frame of the expected epoch, in a stream that is not over."""
    expected = intake.expected
    if frame.kind is FrameKind.OPEN:
        following = max(frame.first, expected.next or 0) if expected.begins else expected.next
        return _drained(replace(intake, expected=replace(expected, next=following, opened=True, closed=False)), ())
    if expected.begins or expected.next is None or frame.first > expected.next:
        return _held(intake, frame, now)
    if _passed(frame, expected.next):
        return _dropped(intake, duplicates=frame.count)
    counts = intake.counts.plus(duplicates=expected.next - frame.first)
    taken = replace(intake, expected=replace(expected, next=frame.end), counts=counts)
    return _drained(taken, (_rest(frame, expected.next),))


def _dropped(intake: Intake, **counted: int) -> Taken:
    return Taken(intake=replace(intake, counts=intake.counts.plus(**counted)), missing=_missing(intake))


def _held(intake: Intake, frame: Frame, now: float) -> Taken:
    there = intake.early.get(frame.first)
    if there is not None and there[0].end >= frame.end:
        return _dropped(intake, duplicates=frame.count)
    counts = intake.counts.plus(held=frame.count, duplicates=0 if there is None else there[0].count)
    since = now if there is None else there[1]
    holding = replace(intake, early={**intake.early, frame.first: (frame, since)}, counts=counts)
    return Taken(intake=holding, missing=_missing(holding))


def _drained(intake: Intake, frames: tuple[Frame, ...]) -> Taken:
    """The result once the early frames that come next are taken as well."""
    following = intake.expected.next or 0
    early = dict(intake.early)
    taken, duplicates = list(frames), 0
    for first in sorted(early):
        if first > following:
            break
        frame, _ = early.pop(first)
        if _passed(frame, following):
            duplicates += frame.count
        else:
            duplicates += following - frame.first
            taken.append(_rest(frame, following))
            following = frame.end
    expected, refused = replace(intake.expected, next=following), 0
    if any(frame.kind is FrameKind.CLOSE for frame in taken):
        # An end without an opening of its epoch shows that there was one.
        expected = replace(expected, opened=True, closed=True)
        refused, early = _count(early), {}
    counts = intake.counts.plus(duplicates=duplicates, refused=refused)
    drained = replace(intake, expected=expected, early=early, counts=counts)
    return Taken(intake=drained, frames=tuple(taken), missing=_missing(drained))


def _count(early: Mapping[int, tuple[Frame, float]]) -> int:
    return sum(frame.count for frame, _ in early.values())


def _passed(frame: Frame, number: int) -> bool:
    # A late end of the stream takes no number; it must not reset the stream to its place.
    return frame.first < number and frame.end <= number


def _rest(frame: Frame, number: int) -> Frame:
    return frame if frame.first == number else frame.since(number)


def _missing(intake: Intake) -> tuple[int, int] | None:
    if not intake.early or intake.expected.next is None or intake.expected.closed:
        return None
    return intake.expected.next, min(intake.early)


MOST_REMEMBERED = 32
"""The number of producers of each kind that a spool remembers: those that sent last."""
_PRODUCER = "sent/"
"""The beginning of the names of these producers among all producers of a spool."""
_VERSION = b"1"


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
        return cls(producer=producer, first=0, events=NO_EVENTS, ask=ask)

    def encoded(self) -> bytes:
        """The bytes of the message."""
        metadata = {
            b"braid": _VERSION,
            b"producer": self.producer.encode(),
            b"first": str(self.first).encode(),
            b"ask": self.ask.encode(),
        }
        return ipc_stream(self.events.schema.with_metadata(metadata), self.events.replace_schema_metadata(metadata))

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


class Receipt(JsonAnswer, frozen=True, kw_only=True):
    """The answer to one message of numbered raw events: the next number of its producer."""

    ask: str
    next: int
    """The next number; everything before it is durable."""


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
    newest = sorted(expected, key=lambda name: expected[name].epoch, reverse=True)
    once = [name for name in newest if name.startswith(f"{_PRODUCER}{ONE_TIME_PRODUCER}")]
    named = [name for name in newest if name.startswith(_PRODUCER) and name not in once]
    gone = {*once[MOST_REMEMBERED:], *named[MOST_REMEMBERED:]}
    return {name: known for name, known in expected.items() if name not in gone}
