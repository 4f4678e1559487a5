"""The outbox: decides, by pure functions, what a sender sends of one stream; and the line that sends it.

Emitted events lie in durable records. The outbox knows up to which number they were sent and up to which number the
consumer's spool has them, and says what is due: the opening, new numbers, numbers to send again, the end. A broker may
lose messages that it acknowledged, so its acknowledgements do not count here: only the receiver's reports move
`confirmed`. A `ForwardLine` is the outbox of one stream with the frames that are read for it.

A loss is found in one of two ways. If later frames arrived, the receiver sees the hole and asks. If none did, nobody
can see the loss, so after a while without news the first frame is sent again, as a probe. If the receiver then has
exactly that one frame more, everything behind it was lost as well and is sent again; if it has more, it was only slow.
A probe is one frame, and the wait doubles, so that an absent consumer does not fill the broker.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from bridge.wire import Again, Emitted, Frame, FrameKind, Have, Stream, frames

_PATIENCE = 2.0
"""Seconds without news after which the first unconfirmed frame is sent again."""
MOST_PATIENCE = 30.0
"""The longest wait, which doubles each time that no news comes."""
MOST_FRAMES = 250
"""Unconfirmed frames of one stream: if the first is lost, its receiver holds no more than these meanwhile."""


class DueKind(StrEnum):
    """The kinds of things to send."""

    OPEN = "open"
    AGAIN = "again"
    DATA = "data"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The next thing to send; made by `due`."""

    kind: DueKind
    first: int
    end: int | None = None
    """The number to stop at; only for events that are sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """The end of an outbox because a higher epoch sends its stream now; it may send nothing more."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of an outbox because the consumer's spool has everything, including the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """The state of one forwarded stream in one epoch; made by `opening`."""

    epoch: int
    opened: int
    next: int
    confirmed: int
    """The first number that the consumer's spool is not known to have."""
    moved: float
    """The time of the last news: something was confirmed, or was sent while nothing was awaited."""
    patience: float = _PATIENCE
    reported: bool = False
    """True once the receiver has reported in this epoch, and so knows of the opening."""
    more: bool = True
    """True if there may be more to send than was sent."""
    last: int | None = None
    """The number after the last one known to be emitted; None while only the records can tell."""
    opens: bool = True
    closing: bool = False
    """True if the stream is to end after what was emitted."""
    ended: bool = False
    sent: tuple[tuple[int, int], ...] = ()
    """The unconfirmed frames: the number after each, and its bytes."""
    asked: tuple[tuple[int, int], ...] = ()
    """Numbers to send again, as ranges without their ends; sorted and disjoint."""
    probe: int | None = None

    @property
    def unconfirmed(self) -> int:
        """The bytes that the consumer's spool is not known to have."""
        return sum(size for _, size in self.sent)

    @property
    def rests(self) -> bool:
        """True if there may be events that were never sent. Those emitted after the closing are in the same records."""
        return self.more and (self.last is None or self.next < self.last)

    @property
    def waits(self) -> bool:
        """True if news from the receiver is awaited."""
        return not self.reported or bool(self.sent) or self.ended


def opening(epoch: int, first: int, now: float) -> Outbox:
    """Make the outbox of a stream that opens."""
    return Outbox(epoch=epoch, opened=first, next=first, confirmed=first, moved=now)


def due(outbox: Outbox, most_unconfirmed: int) -> Due | None:
    """The next thing to send, if any. One frame may always be unconfirmed, however large it is."""
    if outbox.opens:
        return Due(kind=DueKind.OPEN, first=outbox.opened)
    if outbox.asked:
        first, end = outbox.asked[0]
        return Due(kind=DueKind.AGAIN, first=first, end=end)
    if outbox.rests:
        room = not outbox.sent or (outbox.unconfirmed < most_unconfirmed and len(outbox.sent) < MOST_FRAMES)
        return Due(kind=DueKind.DATA, first=outbox.next) if room else None
    if outbox.closing and not outbox.ended:
        return Due(kind=DueKind.CLOSE, first=outbox.next)
    return None


def sent(outbox: Outbox, what: Due, end: int, size: int, now: float) -> Outbox:
    """After something due was sent up to a number, `end`; an opening and a close send no number."""
    moved = outbox.moved if outbox.waits else now
    match what.kind:
        case DueKind.OPEN:
            return replace(outbox, opens=False)
        case DueKind.CLOSE:
            return replace(outbox, ended=True, moved=moved)
        case DueKind.DATA:
            return replace(outbox, next=end, sent=(*outbox.sent, (end, size)), moved=moved)
        case DueKind.AGAIN:
            rest = ((end, what.end),) if what.end is not None and end < what.end else ()
            return replace(outbox, asked=(*rest, *outbox.asked[1:]))


def emitted(outbox: Outbox, end: int) -> Outbox:
    """After more events were emitted, up to a number."""
    return replace(outbox, more=True, last=max(end, outbox.last or 0))


def exhausted(outbox: Outbox) -> Outbox:
    """After every emitted event was sent."""
    return replace(outbox, more=False)


def closed(outbox: Outbox) -> Outbox:
    """After the stream was closed."""
    return replace(outbox, closing=True)


def reported(outbox: Outbox, have: Have, now: float) -> Outbox | Superseded | Finished:
    """After the receiver reported what it has."""
    if have.epoch > outbox.epoch:
        return Superseded(epoch=have.epoch)
    if have.epoch < outbox.epoch or (outbox.reported and have.next < outbox.confirmed):
        return outbox
    if have.closed:
        # If this outbox never sent the end, another one did in the same epoch, so that epoch is over.
        return Finished() if outbox.closing else Superseded(epoch=have.epoch)
    asked = _joined((*outbox.asked, (have.next, outbox.opened)) if not outbox.reported else outbox.asked, have.next)
    news = not outbox.reported or have.next > outbox.confirmed
    if outbox.probe == have.next < outbox.next:
        asked = ((have.next, outbox.next),)
    return replace(
        outbox,
        reported=True,
        opens=False,
        confirmed=have.next,
        next=max(outbox.next, have.next),
        sent=tuple(frame for frame in outbox.sent if frame[0] > have.next),
        asked=asked,
        probe=None if news else outbox.probe,
        moved=now if news else outbox.moved,
        patience=_PATIENCE if news else outbox.patience,
    )


def asked(outbox: Outbox, again: Again) -> Outbox | Superseded:
    """After the receiver asked for missing events."""
    if again.epoch > outbox.epoch:
        return Superseded(epoch=again.epoch)
    if again.epoch < outbox.epoch:
        return outbox
    wanted = (again.first, min(again.end, outbox.next))
    return replace(outbox, asked=_joined((*outbox.asked, wanted), outbox.confirmed))


def passed(outbox: Outbox, now: float) -> Outbox:
    """After time passed: if no news came within the patience, something is sent again."""
    if not outbox.waits or now - outbox.moved < outbox.patience:
        return outbox
    return _probed(replace(outbox, patience=min(2 * outbox.patience, MOST_PATIENCE)), now)


def answered(outbox: Outbox, now: float) -> Outbox:
    """After the broker answered for everything sent: only from now on can the receiver have news."""
    return replace(outbox, moved=max(outbox.moved, now))


def reconnected(outbox: Outbox, now: float) -> Outbox:
    """After a new connection began: the broker may have lost its last second, so a probe is sent at once."""
    return _probed(replace(outbox, patience=_PATIENCE), now) if outbox.waits else outbox


def _probed(outbox: Outbox, now: float) -> Outbox:
    """The outbox with a probe due: the opening, the first unconfirmed frame, or else the end."""
    following = replace(outbox, moved=now, opens=outbox.opens or not outbox.reported)
    if not outbox.sent:
        return replace(following, ended=False)
    end = outbox.sent[0][0]
    return replace(following, asked=_joined((*outbox.asked, (outbox.confirmed, end)), outbox.confirmed), probe=end)


def _joined(ranges: tuple[tuple[int, int], ...], start: int) -> tuple[tuple[int, int], ...]:
    """Ranges from a number on, sorted, with those that touch joined."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted((max(first, start), end) for first, end in ranges):
        if first >= end:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return tuple(joined)


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
