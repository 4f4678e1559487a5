"""A line of a sender: a stream that is forwarded, with its outbox and the frames that are read for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bridge.emitted import Emitted, Stream, frames
from bridge.outbox import Due, DueKind, Outbox, due, emitted, exhausted, opening, sent
from bridge.wire import Frame, FrameKind

ReadEmitted = Callable[[int], Iterator[Emitted]]
"""Reads a stream's emitted events from the records, from a number on."""


@dataclass(slots=True)
class _FrameSource:
    """Frames from the records, or straight from a job."""

    position: int
    frames: Iterator[Frame]


class ForwardLine:
    """A stream that is forwarded; made by a sender, and used by its thread only."""

    def __init__(self, stream: Stream, *, epoch: int, first: int, kept: ReadEmitted, now: float) -> None:
        self.stream = stream
        self.outbox: Outbox = opening(epoch, first, now)
        self.unanswered = 0
        """Messages that the broker has not answered."""
        self.idle_until = now
        """The time before which nothing is sent; in the future if the records could not be read."""
        self.following: ForwardLine | None = None
        """The next opening of the stream, which waits for the end of this one."""
        self._kept = kept
        self._new_frames: _FrameSource | None = None
        self._repeated: _FrameSource | None = None
        self._behind = False
        """True if the records may have more than the current frames."""

    @property
    def chain(self) -> "list[ForwardLine]":
        """This opening, and those that wait for its end."""
        return [self, *(self.following.chain if self.following else ())]

    @property
    def last(self) -> "ForwardLine":
        """The last opening."""
        return self.chain[-1]

    @property
    def is_quiet(self) -> bool:
        """True if nothing is due or awaited."""
        return not self.outbox.waits and due(self.outbox, 1) is None

    def emit(self, new: Emitted) -> None:
        """Take emitted events: to be sent straight if nothing else waits, else read from the records when due."""
        at = self.outbox.next
        if self.outbox.closing:
            return
        if not self.outbox.rests and new.first <= at < new.end:
            self._new_frames = _FrameSource(at, frames(self.stream, self.outbox.epoch, [new], at))
        else:
            self._behind = True
        self.outbox = emitted(self.outbox, new.end)

    def due(self, most_unconfirmed: int, now: float) -> Due | None:
        """The next thing to send, if any."""
        return None if now < self.idle_until else due(self.outbox, most_unconfirmed)

    def frame(self, what: Due) -> Frame | None:
        """The next frame of what is due; None if there is none. Raises any error of reading the records."""
        match what.kind:
            case DueKind.OPEN:
                return self._bound(what, FrameKind.OPEN)
            case DueKind.CLOSE:
                return self._bound(what, FrameKind.CLOSE)
            case DueKind.AGAIN:
                return self._repeated_frame(what)
            case DueKind.DATA:
                return self._new_frame(what)

    def lacks(self, what: Due, now: float) -> None:
        """Note that there was no frame for what is due. It is done, unless the records may have more."""
        if what.kind is DueKind.AGAIN and what.end is not None:
            self.outbox = sent(self.outbox, what, what.end, 0, now)
        elif not self._behind:
            self.outbox = exhausted(self.outbox)

    def _bound(self, what: Due, kind: FrameKind) -> Frame:
        instance, port = self.stream
        return Frame(instance=instance, port=port, epoch=self.outbox.epoch, first=what.first, kind=kind)

    def _read(self, number: int) -> _FrameSource:
        return _FrameSource(number, frames(self.stream, self.outbox.epoch, self._kept(number), number))

    def _new_frame(self, what: Due) -> Frame | None:
        if self._new_frames is None or self._new_frames.position != what.first:
            self._behind = False
            self._new_frames = self._read(what.first)
        try:
            frame = next(self._new_frames.frames, None)
        except BaseException:
            # A generator that raised is finished, so begin a new one.
            self._new_frames = None
            raise
        if frame is None:
            self._new_frames = None
        else:
            self._new_frames.position = frame.end
        return frame

    def _repeated_frame(self, what: Due) -> Frame | None:
        if self._repeated is None or self._repeated.position != what.first:
            self._repeated = self._read(what.first)
        source, self._repeated = self._repeated, None
        frame = next(source.frames, None)
        if frame is None or what.end is None or frame.first >= what.end:
            return None
        if frame.end < what.end:
            source.position, self._repeated = frame.end, source
        return frame.until(what.end)
