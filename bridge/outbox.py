"""What a sender does about one forwarded stream, as pure decisions.

What was emitted lies in durable records. The outbox knows how far it was sent and how far the consumer's spool has it,
and says what is due: the opening, numbers never sent, numbers to send again, the end. A broker's acknowledgement counts
for nothing here, because a broker may lose what it acknowledged: only the receiver's word moves `confirmed`.

There are two ways to find a loss. Where something came after it, the receiver sees the hole and asks. Where nothing
came after it, nobody can see it, so after a while without news the first frame is sent again, as a probe. If the
receiver then has exactly that one more, everything behind it was lost as well and is sent again; if it has more, it was
only slow. A probe is one frame, and the wait doubles, so that an absent consumer does not fill the broker.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from bridge.wire import Again, Have

_PATIENCE = 2.0
"""Seconds without news after which the first unconfirmed frame is sent again."""
MOST_PATIENCE = 30.0
"""What that becomes, doubled each time, where no news comes at all."""
MOST_FRAMES = 250
"""The most unconfirmed frames of one stream: a receiver whose spool is full leaves no more of them with the broker."""


class DueKind(StrEnum):
    """What is to be sent."""

    OPEN = "open"
    AGAIN = "again"
    DATA = "data"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a sender shall send next; made by `due`."""

    kind: DueKind
    first: int
    end: int | None = None
    """Where to stop; only of what is sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A higher epoch sends this stream now; nothing more may be sent in the older one."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The consumer's spool has everything, the end included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """The state of one forwarded stream in one epoch; begun by `opening`."""

    epoch: int
    opened: int
    """The number that the stream opened at."""
    next: int
    """The number to send next."""
    confirmed: int
    """The first number that the consumer's spool is not known to have."""
    moved: float
    """When there was news last: something confirmed, or sent where nothing waited."""
    patience: float = _PATIENCE
    """How long to wait for news."""
    told: bool = False
    """Whether the receiver has spoken in this epoch, and so knows of the opening."""
    more: bool = True
    """Whether there may be more to send than was sent."""
    last: int | None = None
    """The number after the last that is known to have been emitted; None while only the records can tell."""
    opens: bool = True
    """Whether the opening is due."""
    closing: bool = False
    """Whether the stream shall end after what was emitted."""
    ended: bool = False
    """Whether the end was sent."""
    sent: tuple[tuple[int, int], ...] = ()
    """The unconfirmed frames: the number after each, and its bytes."""
    asked: tuple[tuple[int, int], ...] = ()
    """Numbers to send again: from, and up to but without; in order and apart."""
    probe: int | None = None
    """The number after the frame that was last sent again without having been asked for."""

    @property
    def unconfirmed(self) -> int:
        """The bytes that the consumer's spool is not known to have."""
        return sum(size for _, size in self.sent)

    @property
    def rests(self) -> bool:
        """Whether something never sent is left. What is emitted after the closing is in the same records."""
        return self.more and (self.last is None or self.next < self.last)

    @property
    def waits(self) -> bool:
        """Whether news is due from the receiver."""
        return not self.told or bool(self.sent) or self.ended


def opening(epoch: int, first: int, now: float) -> Outbox:
    """The outbox of a stream that opens."""
    return Outbox(epoch=epoch, opened=first, next=first, confirmed=first, moved=now)


def due(outbox: Outbox, most_unconfirmed: int) -> Due | None:
    """What to send next, if anything: one frame at least may always wait, however large it is."""
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
    """After something due was sent, up to a number; the end of a stream that is due and empty is its first number."""
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
    """After more was emitted, up to a number."""
    return replace(outbox, more=True, last=max(end, outbox.last or 0))


def exhausted(outbox: Outbox) -> Outbox:
    """After everything that was emitted has been sent."""
    return replace(outbox, more=False)


def closed(outbox: Outbox) -> Outbox:
    """After the stream was closed."""
    return replace(outbox, closing=True)


def told(outbox: Outbox, have: Have, now: float) -> Outbox | Superseded | Finished:
    """After the receiver said what it has."""
    if have.epoch > outbox.epoch:
        return Superseded(epoch=have.epoch)
    if have.epoch < outbox.epoch or (outbox.told and have.next < outbox.confirmed):
        return outbox
    if have.closed:
        # An end that this outbox never sent was sent by another one in the same epoch, which is spent.
        return Finished() if outbox.closing else Superseded(epoch=have.epoch)
    asked = _joined((*outbox.asked, (have.next, outbox.opened)) if not outbox.told else outbox.asked, have.next)
    news = not outbox.told or have.next > outbox.confirmed
    if outbox.probe == have.next < outbox.next:
        asked = ((have.next, outbox.next),)
    return replace(
        outbox,
        told=True,
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
    """After the receiver said what it misses."""
    if again.epoch > outbox.epoch:
        return Superseded(epoch=again.epoch)
    if again.epoch < outbox.epoch:
        return outbox
    wanted = (again.first, min(again.end, outbox.next))
    return replace(outbox, asked=_joined((*outbox.asked, wanted), outbox.confirmed))


def passed(outbox: Outbox, now: float) -> Outbox:
    """After time passed: without news for the patience, something is sent again."""
    if not outbox.waits or now - outbox.moved < outbox.patience:
        return outbox
    return _probed(replace(outbox, patience=min(2 * outbox.patience, MOST_PATIENCE)), now)


def answered(outbox: Outbox, now: float) -> Outbox:
    """After the broker answered for all that was sent: only from now on can the receiver be expected to speak."""
    return replace(outbox, moved=max(outbox.moved, now))


def reconnected(outbox: Outbox, now: float) -> Outbox:
    """After a new connection began: the broker may have lost its last second, so nothing is waited for."""
    return _probed(replace(outbox, patience=_PATIENCE), now) if outbox.waits else outbox


def _probed(outbox: Outbox, now: float) -> Outbox:
    """With the first of what waits due again: the opening, the first frame, or the end where nothing else waits."""
    following = replace(outbox, moved=now, opens=outbox.opens or not outbox.told)
    if not outbox.sent:
        return replace(following, ended=False)
    end = outbox.sent[0][0]
    return replace(following, asked=_joined((*outbox.asked, (outbox.confirmed, end)), outbox.confirmed), probe=end)


def _joined(ranges: tuple[tuple[int, int], ...], start: int) -> tuple[tuple[int, int], ...]:
    """Ranges from a number on, in order, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted((max(first, start), end) for first, end in ranges):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return tuple(found)
