"""A stream being forwarded, as a sender has it: its outbox, and the frames that are read for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bridge.emitted import Emitted, Stream, frames
from bridge.outbox import Due, DueKind, Outbox, due, emitted, exhausted, opening, sent
from bridge.wire import Frame, FrameKind

ReadEmitted = Callable[[int], Iterator[Emitted]]
"""Reads from the records what a stream emitted from a number on."""


@dataclass(slots=True)
class _Reading:
    """Frames being taken from the records, or straight from what was emitted."""

    position: int
    frames: Iterator[Frame]


class Line:
    """A stream being forwarded; made by a sender, and used by its thread only."""

    def __init__(self, stream: Stream, *, epoch: int, first: int, kept: ReadEmitted, now: float) -> None:
        self.stream = stream
        self.outbox: Outbox = opening(epoch, first, now)
        self.unanswered = 0
        """Messages for which the broker owes an answer."""
        self.idle_until = now
        """Nothing is sent before; later than now where the records could not be read."""
        self.following: Line | None = None
        """The stream as it opens again once this end has come."""
        self._kept = kept
        self._onward: _Reading | None = None
        self._again: _Reading | None = None
        # Whether the records have more than the reading onward may know of.
        self._behind = False

    @property
    def chain(self) -> "list[Line]":
        """This one, and those that wait behind it."""
        return [self, *(self.following.chain if self.following else ())]

    @property
    def last(self) -> "Line":
        """The one that was opened last."""
        return self.chain[-1]

    def emit(self, new: Emitted) -> None:
        """Note what was emitted: sent straight where nothing else waits, else read from the records when it is due."""
        at = self.outbox.next
        if self.outbox.closing:
            return
        if not self.outbox.rests and new.first <= at < new.end:
            self._onward = _Reading(at, frames(self.stream, self.outbox.epoch, [new], at))
        else:
            self._behind = True
        self.outbox = emitted(self.outbox, new.end)

    def due(self, most_unconfirmed: int, now: float) -> Due | None:
        """What to send next, if anything."""
        return None if now < self.idle_until else due(self.outbox, most_unconfirmed)

    def frame(self, what: Due) -> Frame | None:
        """The next frame of what is due, or None where there is none; raises what reading the records raises."""
        match what.kind:
            case DueKind.OPEN:
                return self._bound(what, FrameKind.OPEN)
            case DueKind.CLOSE:
                return self._bound(what, FrameKind.CLOSE)
            case DueKind.AGAIN:
                return self._frame_again(what)
            case DueKind.DATA:
                return self._frame_onward(what)

    def lacks(self, what: Due, now: float) -> None:
        """Note that there was no frame for what is due: it is done with, unless there may be more in the records."""
        if what.kind is DueKind.AGAIN and what.end is not None:
            self.outbox = sent(self.outbox, what, what.end, 0, now)
        elif not self._behind:
            self.outbox = exhausted(self.outbox)

    def _bound(self, what: Due, kind: FrameKind) -> Frame:
        instance, port = self.stream
        return Frame(instance=instance, port=port, epoch=self.outbox.epoch, first=what.first, kind=kind)

    def _read(self, number: int) -> _Reading:
        return _Reading(number, frames(self.stream, self.outbox.epoch, self._kept(number), number))

    def _frame_onward(self, what: Due) -> Frame | None:
        if self._onward is None or self._onward.position != what.first:
            self._behind = False
            self._onward = self._read(what.first)
        try:
            frame = next(self._onward.frames, None)
        except BaseException:
            # Where it stopped it does not go on: begin anew.
            self._onward = None
            raise
        if frame is None:
            self._onward = None
        else:
            self._onward.position = frame.end
        return frame

    def _frame_again(self, what: Due) -> Frame | None:
        if self._again is None or self._again.position != what.first:
            self._again = self._read(what.first)
        reading, self._again = self._again, None
        frame = next(reading.frames, None)
        if frame is None or what.end is None or frame.first >= what.end:
            return None
        if frame.end < what.end:
            reading.position, self._again = frame.end, reading
        return frame.until(what.end)
