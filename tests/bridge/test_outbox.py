"""The outbox of a forwarded stream, alone and against a receiver's intake over an unreliable transport."""

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.intake import Intake, offer
from bridge.outbox import (
    _PATIENCE,
    MOST_FRAMES,
    MOST_PATIENCE,
    Due,
    DueKind,
    Finished,
    Outbox,
    Superseded,
    asked,
    closed,
    due,
    emitted,
    exhausted,
    opening,
    passed,
    reconnected,
    reported,
    sent,
)
from bridge.wire import Again, Emitted, Frame, FrameKind, Have, Stream, frames

STREAM = Stream(7, "out")


def _kept(first: int, end: int) -> Emitted:
    return Emitted(first=first, events=pa.record_batch({"n": pa.array(range(first, end), pa.int64())}))


def _still(decided: Outbox | Superseded | Finished) -> Outbox:
    assert isinstance(decided, Outbox)
    return decided


def _after(outbox: Outbox, *ends: int, size: int = 10, now: float = 0.0) -> Outbox:
    """After the opening and frames up to these numbers were sent."""
    outbox = sent(outbox, Due(kind=DueKind.OPEN, first=outbox.opened), outbox.opened, 10, now)
    for end in ends:
        outbox = sent(outbox, Due(kind=DueKind.DATA, first=outbox.next), end, size, now)
    return outbox


def _have(following: int, *, epoch: int = 3, ended: bool = False) -> Have:
    return Have(epoch=epoch, next=following, closed=ended)


def test_a_stream_opens_sends_and_ends_in_this_order() -> None:
    """The opening is due first, then the events, then the end; and nothing once the receiver has everything."""
    outbox = opening(3, 5, 0.0)
    assert Due(kind=DueKind.OPEN, first=5) == due(outbox, 100)
    outbox = closed(_after(outbox))
    assert Due(kind=DueKind.DATA, first=5) == due(outbox, 100)
    outbox = exhausted(_after(outbox, 8))
    end = Due(kind=DueKind.CLOSE, first=8)
    assert end == due(outbox, 100)
    outbox = sent(outbox, end, 8, 10, 0.0)
    assert None is due(outbox, 100)
    assert Finished() == reported(_still(reported(outbox, _have(8), 1.0)), _have(8, ended=True), 1.0)


def test_events_emitted_after_the_closing_are_not_sent() -> None:
    """A stream that closes ends after the events emitted until then, although the same records hold more."""
    outbox = closed(emitted(_after(opening(3, 0, 0.0), 10), 15))
    assert Due(kind=DueKind.DATA, first=10) == due(outbox, 100)
    assert Due(kind=DueKind.CLOSE, first=15) == due(_after(outbox, 15), 100)


def test_no_more_than_the_bound_goes_out_unconfirmed() -> None:
    """Unconfirmed bytes and frames are bounded, one frame may always be sent, and a confirmation makes room."""
    outbox = _after(opening(3, 0, 0.0), 10, 20, size=60)
    assert (None, 120) == (due(outbox, 100), outbox.unconfirmed)
    outbox = _still(reported(outbox, _have(10), 1.0))
    assert (Due(kind=DueKind.DATA, first=20), 10) == (due(outbox, 100), outbox.confirmed)
    assert Due(kind=DueKind.DATA, first=0) == due(_after(opening(3, 0, 0.0)), 0)
    many = _after(opening(3, 0, 0.0), *range(1, MOST_FRAMES + 1), size=0)
    assert None is due(many, 100)


def test_requested_events_are_sent_before_new_ones() -> None:
    """Requests are cut to numbers sent and not confirmed, joined where they touch, and served frame by frame."""
    outbox = _still(reported(_after(opening(3, 0, 0.0), 10, 20), _have(4), 0.0))
    outbox = _still(asked(outbox, Again(epoch=3, first=0, end=6)))
    outbox = _still(asked(outbox, Again(epoch=3, first=6, end=9)))
    outbox = _still(asked(outbox, Again(epoch=3, first=15, end=99)))
    assert ((4, 9), (15, 20)) == outbox.asked
    first = due(outbox, 0)
    assert Due(kind=DueKind.AGAIN, first=4, end=9) == first
    outbox = sent(outbox, first, 7, 10, 0.0)
    assert ((7, 9), (15, 20)) == outbox.asked
    assert ((15, 20),) == sent(outbox, Due(kind=DueKind.AGAIN, first=7, end=9), 9, 10, 0.0).asked


def test_without_news_the_first_frame_is_sent_again_more_and_more_rarely() -> None:
    """After the patience the first unconfirmed frame is due again, then after twice as long, up to a bound."""
    outbox = _still(reported(_after(opening(3, 0, 0.0), 10, 20), _have(0), 0.0))
    assert outbox == passed(outbox, _PATIENCE - 0.1)
    waited, now = [], 0.0
    for _ in range(7):
        waited.append(outbox.patience)
        now += outbox.patience
        outbox = passed(outbox, now)
        again = Due(kind=DueKind.AGAIN, first=0, end=10)
        assert again == due(outbox, 0)
        outbox = sent(outbox, again, 10, 10, now)
    assert [2, 4, 8, 16, MOST_PATIENCE, MOST_PATIENCE, MOST_PATIENCE] == waited
    assert _PATIENCE == _still(reported(outbox, _have(10), now)).patience


def test_if_exactly_the_probe_was_taken_the_rest_was_lost_as_well() -> None:
    """A receiver that has only the frame sent again gets the rest; one that has more was only slow."""
    outbox = passed(_still(reported(_after(opening(3, 0, 0.0), 10, 20, 30), _have(0), 0.0)), _PATIENCE)
    outbox = sent(outbox, Due(kind=DueKind.AGAIN, first=0, end=10), 10, 10, _PATIENCE)
    assert ((10, 30),) == _still(reported(outbox, _have(10), _PATIENCE)).asked
    assert () == _still(reported(outbox, _have(20), _PATIENCE)).asked


def test_an_unanswered_opening_is_sent_again() -> None:
    """As long as the receiver has not reported in this epoch, the opening is sent with each probe."""
    outbox = passed(exhausted(_after(opening(3, 5, 0.0))), _PATIENCE)
    assert Due(kind=DueKind.OPEN, first=5) == due(outbox, 100)
    outbox = _still(reported(exhausted(_after(outbox)), _have(5), _PATIENCE))
    assert outbox == passed(outbox, 1_000.0)


def test_an_unanswered_end_is_sent_again() -> None:
    """The end is sent again until the receiver reports it."""
    outbox = closed(exhausted(_still(reported(_after(opening(3, 5, 0.0)), _have(5), 0.0))))
    end = Due(kind=DueKind.CLOSE, first=5)
    outbox = passed(sent(outbox, end, 5, 10, 0.0), _PATIENCE)
    assert end == due(outbox, 100)
    assert Finished() == reported(outbox, _have(5, ended=True), _PATIENCE)


def test_a_new_connection_is_a_reason_to_probe() -> None:
    """After a reconnect the first unconfirmed frame is sent again at once; if nothing waits, nothing is sent."""
    outbox = _still(reported(_after(opening(3, 0, 0.0), 10), _have(0), 0.0))
    assert Due(kind=DueKind.AGAIN, first=0, end=10) == due(reconnected(outbox, 0.1), 0)
    outbox = _still(reported(outbox, _have(10), 0.0))
    assert outbox == reconnected(outbox, 0.1)


def test_answers_about_another_epoch_change_nothing_or_end_everything() -> None:
    """Answers of an older epoch are ignored; a higher epoch supersedes, and so does the same epoch if it is over."""
    outbox = _after(opening(3, 0, 0.0), 10)
    assert outbox == reported(outbox, _have(8, epoch=2), 0.0)
    assert outbox == asked(outbox, Again(epoch=2, first=0, end=5))
    assert Superseded(epoch=4) == reported(outbox, _have(8, epoch=4), 0.0)
    assert Superseded(epoch=4) == asked(outbox, Again(epoch=4, first=0, end=5))
    assert Superseded(epoch=3) == reported(outbox, _have(0, ended=True), 0.0)


def test_a_receiver_that_has_more_is_believed() -> None:
    """A producer that begins at an older number goes on at the spool's next number, and sends nothing before it."""
    outbox = _still(reported(_after(opening(3, 0, 0.0), 10), _have(40), 0.0))
    assert (Due(kind=DueKind.DATA, first=40), 40, ()) == (due(outbox, 100), outbox.confirmed, outbox.sent)
    assert outbox == reported(outbox, _have(30), 0.0)


def test_a_receiver_that_lacks_events_from_before_the_opening_gets_them() -> None:
    """Events of an older epoch that the spool never got are sent before anything new."""
    outbox = _still(reported(_after(opening(3, 20, 0.0)), _have(7), 0.0))
    assert (Due(kind=DueKind.AGAIN, first=7, end=20), 7) == (due(outbox, 100), outbox.confirmed)


class Bridge(RuleBasedStateMachine):
    """A producer with records, a receiver with a spool, and a transport that loses, doubles and reorders both ways.

    What the receiver took is durable, and so is what was emitted. Everything else may be lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.records: list[Emitted] = []
        self.ends = 0
        """The number after the last emitted."""
        self.forwarded: list[int] = []
        """The numbers that the receiver must get."""
        self.spooled: list[int] = []
        self.intake = Intake()
        self.frames: list[Frame] = []
        self.words: list[Have | Again] = []
        self.epoch = 0
        self.outbox: Outbox | None = None

    @rule()
    @precondition(lambda self: self.outbox is None)
    def forward(self) -> None:
        self.epoch += 1
        self.outbox = opening(self.epoch, self.ends, self.now)

    @rule(behind=st.integers(0, 3))
    @precondition(lambda self: self.outbox is not None and not self.outbox.closing)
    def take_over(self, behind: int) -> None:
        """The producer dies and begins again with a higher epoch, at a number that it still has."""
        assert self.outbox is not None
        self.epoch += 1
        first = max(self.outbox.opened, self.outbox.confirmed - behind)
        self.outbox = opening(self.epoch, first, self.now)

    @rule(count=st.integers(1, 5))
    def emit(self, count: int) -> None:
        self.records.append(_kept(self.ends, self.ends + count))
        if self.outbox is not None and not self.outbox.closing:
            self.forwarded += range(self.ends, self.ends + count)
            self.outbox = emitted(self.outbox, self.ends + count)
        self.ends += count

    @rule()
    @precondition(lambda self: self.outbox is not None and not self.outbox.closing)
    def close(self) -> None:
        assert self.outbox is not None
        # A producer that heard of no emission since it began knows the end by the records alone, as they are now.
        while self.outbox.last is None and self.step(most=1 << 30):
            pass
        self.outbox = closed(self.outbox)

    @rule(most=st.integers(0, 40))
    def send(self, most: int) -> None:
        self.step(most)

    def step(self, most: int) -> bool:
        """Send one frame that is due; whether there was one."""
        if self.outbox is None or (what := due(self.outbox, most)) is None:
            return False
        if what.kind in {DueKind.OPEN, DueKind.CLOSE}:
            kind = FrameKind(what.kind.value)
            frame = Frame(instance=7, port="out", epoch=self.outbox.epoch, first=what.first, kind=kind)
        else:
            found = next(frames(STREAM, self.outbox.epoch, self.records, what.first), None)
            if found is None:
                self.outbox = exhausted(self.outbox)
                return True
            frame = found if what.end is None else found.until(what.end)
        self.frames.append(frame)
        self.outbox = sent(self.outbox, what, frame.end, 10 * frame.count, self.now)
        return True

    @rule(chance=st.data(), keeps=st.booleans())
    @precondition(lambda self: self.frames)
    def deliver(self, chance: st.DataObject, keeps: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        index = chance.draw(st.integers(0, len(self.frames) - 1), "which")
        frame = self.frames[index] if keeps else self.frames.pop(index)
        self.receive(frame)

    def receive(self, frame: Frame) -> None:
        taken = offer(self.intake, frame, self.now)
        self.intake = taken.intake
        for each in taken.frames:
            self.spooled += each.events["n"].to_pylist() if each.kind is FrameKind.DATA else []
        if taken.missing is not None:
            self.words.append(Again(epoch=self.intake.expected.epoch, first=taken.missing[0], end=taken.missing[1]))
        self.tell()

    def tell(self) -> None:
        expected = self.intake.expected
        if expected.opened and expected.next is not None:
            self.words.append(Have(epoch=expected.epoch, next=expected.next, closed=expected.closed))

    @rule(chance=st.data(), keeps=st.booleans())
    @precondition(lambda self: self.words)
    def hear(self, chance: st.DataObject, keeps: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        index = chance.draw(st.integers(0, len(self.words) - 1), "which")
        word = self.words[index] if keeps else self.words.pop(index)
        self.listen(word)

    def listen(self, word: Have | Again) -> None:
        if self.outbox is None:
            return
        decided = reported(self.outbox, word, self.now) if isinstance(word, Have) else asked(self.outbox, word)
        assert not isinstance(decided, Superseded)
        self.outbox = None if isinstance(decided, Finished) else decided

    @rule()
    @precondition(lambda self: self.frames or self.words)
    def lose_everything_on_its_way(self) -> None:
        self.frames.clear()
        self.words.clear()

    @rule()
    def lose_the_connection(self) -> None:
        """The receiver asks for all that it may have missed meanwhile."""
        if self.outbox is not None:
            self.outbox = reconnected(self.outbox, self.now)
        self.ask_for_rest()
        self.tell()

    @rule()
    def have_no_room(self) -> None:
        """The receiver drops what it holds early, and asks for everything once there is room."""
        self.intake = Intake(expected=self.intake.expected, counts=self.intake.counts)
        self.ask_for_rest()

    def ask_for_rest(self) -> None:
        expected = self.intake.expected
        if expected.next is not None:
            self.words.append(Again(epoch=expected.epoch, first=expected.next, end=1 << 62))

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.outbox is not None:
            self.outbox = passed(self.outbox, self.now)

    @invariant()
    def nothing_is_spooled_twice_or_out_of_order_or_unasked(self) -> None:
        assert self.forwarded[: len(self.spooled)] == self.spooled
        if self.outbox is not None:
            assert self.outbox.confirmed <= max(self.outbox.opened, self.intake.expected.next or 0)

    def teardown(self) -> None:
        """From any state, a transport that errs no more delivers everything within a bounded time."""
        for _ in range(400):
            if self.outbox is None or (not self.outbox.waits and due(self.outbox, 40) is None):
                break
            if not (self.step(most=40) or self.frames or self.words):
                self.wait(MOST_PATIENCE)
            while self.frames:
                self.receive(self.frames.pop(0))
            while self.words:
                self.listen(self.words.pop(0))
        assert self.forwarded == self.spooled
        assert 0 == self.intake.counts.gaps


Bridge.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
test_whatever_the_transport_does_every_number_arrives_once_and_in_order = Bridge.TestCase
