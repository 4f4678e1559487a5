"""The intake: decides, by pure functions, what a receiver does with each frame of a stream between jobs.

A broker may deliver a frame twice, deliver new frames before the backlog after a reconnect, or lose frames that it had
accepted. The events of a producer are numbered, so the receiver restores their order: it takes the next events, holds
early ones, drops those it has, and asks for missing ones. Events that stay missing are counted as a gap and skipped. A
producer that took over has a higher epoch; frames of an older epoch are refused.

Within an epoch a stream opens once and closes once. So an opening or an end that comes twice changes nothing, and
opening again takes a higher epoch. If the stream closed in between, events not forwarded meanwhile are not missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bridge.wire import Frame, FrameKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The next frame that a receiver expects of one producer; kept with the spool."""

    epoch: int = 0
    next: int | None = None
    """The next number; None until the stream has opened."""
    opened: bool = False
    """True if the stream opened in this epoch."""
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
    """Events that were there already."""
    held: int = 0
    """Events that came early."""
    gaps: int = 0
    """Events that never came."""
    refused: int = 0
    """Events of an older epoch, or from after the end of their stream."""


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
    """Frames to spool, in this order."""
    missing: tuple[int, int] | None = None
    """Numbers to ask for, as a range without its end."""


def offer(intake: Intake, frame: Frame, now: float) -> Taken:
    """Decide what to do with a frame."""
    expected = intake.expected
    if frame.epoch < expected.epoch:
        return _dropped(intake, refused=frame.count)
    if frame.epoch > expected.epoch:
        # Early frames of an older epoch cannot be joined to frames of the newer one.
        refused = intake.counts.refused + _count(intake.early)
        counts = replace(intake.counts, refused=refused)
        raised = replace(expected, epoch=frame.epoch, opened=False)
        return offer(replace(intake, expected=raised, early={}, counts=counts), frame, now)
    if expected.over:
        behind = frame.end > (expected.next or 0)
        return _dropped(intake, duplicates=0 if behind else frame.count, refused=frame.count if behind else 0)
    return _placed(intake, frame, now)


def expire(intake: Intake, now: float, patience: float) -> Taken:
    """Give up on events that have been missing for too long: count them, and go on with the early frames."""
    if not intake.early or now - min(since for _, since in intake.early.values()) < patience:
        return Taken(intake=intake, missing=_missing(intake))
    expected = intake.expected
    following = max(min(intake.early), expected.next or 0)
    # Before a stream has opened, nobody knows which events were lost.
    lost = 0 if expected.begins or expected.next is None else following - expected.next
    counts = replace(intake.counts, gaps=intake.counts.gaps + lost)
    passed = replace(expected, next=following, closed=False)
    return _drained(replace(intake, expected=passed, counts=counts), ())


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
    counts = replace(intake.counts, duplicates=intake.counts.duplicates + expected.next - frame.first)
    taken = replace(intake, expected=replace(expected, next=frame.end), counts=counts)
    return _drained(taken, (_rest(frame, expected.next),))


def _dropped(intake: Intake, *, duplicates: int = 0, refused: int = 0) -> Taken:
    counts = replace(
        intake.counts, duplicates=intake.counts.duplicates + duplicates, refused=intake.counts.refused + refused
    )
    return Taken(intake=replace(intake, counts=counts), missing=_missing(intake))


def _held(intake: Intake, frame: Frame, now: float) -> Taken:
    there = intake.early.get(frame.first)
    if there is not None and there[0].end >= frame.end:
        return _dropped(intake, duplicates=frame.count)
    duplicates = 0 if there is None else there[0].count
    counts = replace(
        intake.counts, held=intake.counts.held + frame.count, duplicates=intake.counts.duplicates + duplicates
    )
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
    counts = replace(
        intake.counts, duplicates=intake.counts.duplicates + duplicates, refused=intake.counts.refused + refused
    )
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
