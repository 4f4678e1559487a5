"""The intake: the decisions of a receiver about each frame of a producer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bridge.intake import Counts, Expected, Intake, Taken, expire, offer
from bridge.wire import Frame, FrameKind

START = 5
"""The first number of every producer here; a stream need not begin at 0."""

Entry = int | str
"""An event is its number, a marker its name."""


def _data(first: int, end: int, epoch: int = 0) -> Frame:
    events = pa.record_batch({"n": pa.array(range(first, end), pa.int64())})
    return Frame(instance=7, port="out", epoch=epoch, first=first, events=events)


def _marker(first: int, epoch: int = 0) -> Frame:
    return Frame(instance=7, port="out", epoch=epoch, first=first, kind=FrameKind.MARKER, marker=f"m{first}")


def _open(first: int, epoch: int = 0) -> Frame:
    return Frame(instance=7, port="out", epoch=epoch, first=first, kind=FrameKind.OPEN)


def _close(first: int, epoch: int = 0) -> Frame:
    return Frame(instance=7, port="out", epoch=epoch, first=first, kind=FrameKind.CLOSE)


def _entries(frames: Iterable[Frame]) -> list[Entry]:
    """The content of frames; a frame with a wrong number shows."""
    found: list[Entry] = []
    for frame in frames:
        values: list[Entry] = frame.events.column("n").to_pylist() if frame.kind is FrameKind.DATA else [frame.marker]
        assert not values or values[0] in {frame.first, f"m{frame.first}"}
        found += values
    return found


@dataclass(kw_only=True)
class Sequel:
    """Offers frames one after another, and checks what has to hold after each."""

    intake: Intake = field(default_factory=Intake)
    now: float = 0.0
    offered: list[Frame] = field(default_factory=list)
    taken: list[Frame] = field(default_factory=list)
    held: int = 0
    refused: int = 0

    @property
    def next(self) -> int:
        return self.intake.expected.next or 0

    def send(self, *frames: Frame) -> "Sequel":
        for frame in frames:
            before = self.intake
            self.offered.append(frame)
            if frame.epoch < before.expected.epoch:
                self.refused += frame.count
            elif frame.epoch > before.expected.epoch:
                self.refused += sum(early.count for early, _ in before.early.values())
            taken = offer(before, frame, self.now)
            held = taken.intake.early.get(frame.first)
            if held is not None and held is not before.early.get(frame.first):
                self.held += frame.count
            self.note(taken)
        return self

    def wait(self, seconds: float, patience: float = 10.0) -> "Sequel":
        self.now += seconds
        self.note(expire(self.intake, self.now, patience))
        return self

    def note(self, taken: Taken) -> None:
        self.intake = taken.intake
        self.taken += taken.frames
        following = self.intake.expected.next
        known = following is not None and not self.intake.expected.closed
        waiting = [first for first in self.intake.early if known]
        assert (None if not waiting else (self.next, min(waiting))) == taken.missing
        assert all(first > self.next for first in waiting)
        # What was offered is taken, was there, was refused, is held or was lost for good: nothing else.
        early = sum(frame.count for frame, _ in self.intake.early.values())
        counts = self.intake.counts
        offered = sum(frame.count for frame in self.offered)
        assert offered == sum(each.count for each in self.taken) + counts.duplicates + counts.refused + early


@st.composite
def producers(draw: st.DrawFn) -> list[Entry]:
    """The numbered events of a producer, with markers in between."""
    markers = draw(st.lists(st.booleans(), min_size=1, max_size=14))
    return [f"m{number}" if marker else number for number, marker in enumerate(markers, START)]


@st.composite
def frames_of(draw: st.DrawFn, entries: Sequence[Entry], first: int, end: int, epoch: int = 0) -> list[Frame]:
    """A part of a producer's entries, cut into frames in any way."""
    frames: list[Frame] = []
    while first < end:
        if isinstance(entries[first - START], str):
            frames.append(_marker(first, epoch))
            first += 1
            continue
        run = next((n for n in range(first, end) if isinstance(entries[n - START], str)), end)
        until = draw(st.integers(first + 1, run))
        frames.append(_data(first, until, epoch))
        first = until
    return frames


@st.composite
def deliveries(draw: st.DrawFn, entries: Sequence[Entry], epoch: int = 0) -> list[Frame]:
    """Frames as a broker may deliver a producer's entries: cut in several ways, lost, doubled, in any order."""
    end = START + len(entries)
    frames = [
        *draw(frames_of(entries, START, end, epoch)),
        *draw(frames_of(entries, draw(st.integers(START, end)), end, epoch)),
    ]
    return draw(st.lists(st.sampled_from(frames), max_size=12))


def _resend(data: st.DataObject, sequel: Sequel, entries: Sequence[Entry], epoch: int = 0) -> None:
    """The producer sends missing events again, and in the end all that may be missing."""
    while sequel.intake.early:
        until = min(sequel.intake.early)
        sequel.send(*data.draw(frames_of(entries, sequel.next, until, epoch)))
    sequel.send(*data.draw(frames_of(entries, sequel.next, START + len(entries), epoch)))


@given(producers(), st.data())
def test_exactly_the_produced_entries_are_taken(entries: list[Entry], data: st.DataObject) -> None:
    """However frames are cut, delayed, doubled and sent again, each entry is taken once, in order, in its place."""
    delivered = data.draw(deliveries(entries))
    delivered.insert(data.draw(st.integers(0, len(delivered))), _open(START))
    sequel = Sequel().send(*delivered)
    _resend(data, sequel, entries)
    assert entries == _entries(sequel.taken)
    assert Expected(epoch=0, next=START + len(entries), opened=True) == sequel.intake.expected
    assert {} == sequel.intake.early
    offered = sum(frame.count for frame in sequel.offered)
    assert Counts(duplicates=offered - len(entries), held=sequel.held) == sequel.intake.counts


@given(producers(), st.data())
def test_entries_that_never_come_are_skipped_and_counted(entries: list[Entry], data: st.DataObject) -> None:
    """After the patience each hole is counted by its length, the rest goes on, and late entries are duplicates."""
    delivered = data.draw(deliveries(entries))
    sequel = Sequel().send(_open(START), *delivered)
    came = {number for frame in delivered for number in range(frame.first, frame.end)}
    while sequel.intake.early:
        sequel.wait(10)
    assert [entries[number - START] for number in sorted(came)] == _entries(sequel.taken)
    lost = set(range(START, max(came, default=START))) - came
    assert len(lost) == sequel.intake.counts.gaps
    before = sequel.intake.counts.duplicates
    taken = list(sequel.taken)
    late = [frame for number in sorted(lost) for frame in data.draw(frames_of(entries, number, number + 1))]
    sequel.send(*late)
    assert (taken, before + len(lost)) == (sequel.taken, sequel.intake.counts.duplicates)


@given(producers(), st.data())
def test_a_higher_epoch_continues_the_numbers(entries: list[Entry], data: st.DataObject) -> None:
    """A producer that took over continues the other one's numbers; later frames of the older one are refused."""
    older = data.draw(deliveries(entries))
    newer = data.draw(deliveries(entries, epoch=3))
    sequel = Sequel().send(_open(START), *older, _open(START, epoch=3))
    assert 3 == sequel.intake.expected.epoch
    for frame in newer:
        sequel.send(frame, *data.draw(st.lists(st.sampled_from(older), max_size=1) if older else st.just([])))
    _resend(data, sequel, entries, epoch=3)
    assert entries == _entries(sequel.taken)
    assert Expected(epoch=3, next=START + len(entries), opened=True) == sequel.intake.expected
    assert (sequel.refused, sequel.held) == (sequel.intake.counts.refused, sequel.intake.counts.held)


def test_early_frames_wait_for_missing_ones() -> None:
    """An early frame is held, the hole is named, and both are taken in order once it fills."""
    sequel = Sequel().send(_open(5), _data(8, 10))
    assert ([], Counts(held=2)) == (sequel.taken, sequel.intake.counts)
    last = offer(sequel.intake, _data(5, 8), 0.0)
    assert ((_data(5, 8), _data(8, 10)), None) == (last.frames, last.missing)


def test_only_the_first_hole_is_missing() -> None:
    """With several holes, the first one is asked for."""
    taken = offer(Sequel().send(_open(5), _data(20, 22), _data(12, 14)).intake, _data(5, 7), 0.0)
    assert (7, 12) == taken.missing


def test_a_frame_that_overlaps_gives_its_rest() -> None:
    """Only the new events of an overlapping frame are taken, and the others count as duplicates."""
    sequel = Sequel().send(_open(5), _data(5, 8), _data(6, 10))
    assert [_data(5, 8), _data(8, 10)] == sequel.taken
    assert Counts(duplicates=2) == sequel.intake.counts


def test_an_early_frame_that_overlaps_gives_its_rest() -> None:
    """Each event of overlapping held frames is taken once, and the others count as duplicates."""
    sequel = Sequel().send(_open(5), _data(7, 10), _data(8, 12), _data(8, 9), _data(5, 7))
    assert [_data(5, 7), _data(7, 10), _data(10, 12)] == sequel.taken
    assert Counts(held=7, duplicates=3) == sequel.intake.counts


def test_a_longer_early_frame_replaces_the_shorter() -> None:
    """Of two early frames with the same first number the longer is held, since the first of them came."""
    sequel = Sequel().send(_open(5), _data(8, 9)).wait(6).send(_data(8, 12))
    assert Counts(held=5, duplicates=1) == sequel.intake.counts
    sequel.wait(4)
    assert ([_data(8, 12)], 3) == (sequel.taken, sequel.intake.counts.gaps)


def test_before_a_stream_opens_everything_is_held() -> None:
    """While the beginning of a stream is unknown, nothing is taken, and nothing can be asked for."""
    sequel = Sequel().send(_data(5, 7))
    assert ([], None) == (sequel.taken, sequel.intake.expected.next)
    sequel.send(_open(5))
    assert [_data(5, 7)] == sequel.taken


def test_a_stream_that_never_opens_begins_with_its_first_frame() -> None:
    """If the opening was lost, the patience ends the wait, and no unknown gap is counted."""
    sequel = Sequel().send(_data(8, 9), _data(6, 8)).wait(10)
    assert ([_data(6, 8), _data(8, 9)], Counts(held=3)) == (sequel.taken, sequel.intake.counts)


def test_an_opening_moves_neither_back_nor_ahead() -> None:
    """A stream that opens again goes on at the expected number, so that events lost in between are asked for."""
    sequel = Sequel().send(_open(5), _data(5, 8), _open(5), _open(20))
    assert 8 == sequel.next
    assert (8, 20) == offer(sequel.intake, _data(20, 21), 0.0).missing


def test_a_hole_is_passed_over_after_the_patience_only() -> None:
    """The patience runs exactly from the arrival of the first early frame."""
    sequel = Sequel().send(_open(5)).wait(100).send(_data(7, 8)).wait(9.5)
    assert ([], Counts(held=1)) == (sequel.taken, sequel.intake.counts)
    sequel.wait(0.5)
    assert ([_data(7, 8)], Counts(held=1, gaps=2)) == (sequel.taken, sequel.intake.counts)


def test_without_early_frames_nothing_expires() -> None:
    """Time alone skips nothing."""
    sequel = Sequel().send(_open(5), _data(5, 6)).wait(1_000)
    assert (6, Counts()) == (sequel.next, sequel.intake.counts)


def test_the_end_of_a_stream_is_taken_at_its_place() -> None:
    """A stream's end that comes early waits for the events before it."""
    sequel = Sequel().send(_open(5), _close(7), _data(5, 7))
    assert [_data(5, 7), _close(7)] == sequel.taken


def test_a_late_end_ends_nothing() -> None:
    """The old end of a stream that has opened again is refused, at its own number too; nothing is taken twice."""
    again, rest = _open(7, epoch=1), _data(7, 9, epoch=1)
    sequel = Sequel().send(_open(5), _data(5, 7), _close(7), again, _close(7), rest, _close(7), rest)
    assert [_data(5, 7), _close(7), rest] == sequel.taken
    assert (9, Counts(duplicates=2)) == (sequel.next, sequel.intake.counts)
    assert Expected(epoch=1, next=9, opened=True) == sequel.intake.expected


def test_after_its_end_a_stream_takes_nothing_in_that_epoch() -> None:
    """A late repeated opening opens nothing, and frames after the end are refused and not awaited."""
    sequel = Sequel().send(_open(5), _data(5, 7), _close(7))
    over = Expected(epoch=0, next=7, opened=True, closed=True)
    assert over == sequel.intake.expected
    for frame, counts in (
        (_open(5), Counts()),
        (_close(7), Counts()),
        (_data(5, 6), Counts(duplicates=1)),
        (_data(7, 9), Counts(refused=2)),
        (_data(9, 10), Counts(refused=1)),
    ):
        taken = offer(sequel.intake, frame, 0.0)
        assert (over, counts, None) == (taken.intake.expected, taken.intake.counts, taken.missing)


def test_events_not_forwarded_after_an_end_are_not_missing() -> None:
    """A stream that ended and opens again goes on at its opening; frames that came before the opening wait for it."""
    sequel = Sequel().send(_open(5), _data(5, 7), _close(7))
    early = offer(sequel.intake, _data(20, 22, epoch=1), 0.0)
    assert ((), None) == (early.frames, early.missing)
    opened = offer(early.intake, _open(20, epoch=1), 0.0)
    assert (_data(20, 22, epoch=1),) == opened.frames
    assert Expected(epoch=1, next=22, opened=True) == opened.intake.expected


def test_an_opening_after_an_end_does_not_move_back() -> None:
    """A producer that begins at an older number after an end adds only what the spool does not have."""
    sequel = Sequel().send(_open(5), _data(5, 9), _close(9), _open(7, epoch=1), _data(7, 11, epoch=1))
    assert [_data(5, 9), _close(9), _data(9, 11, epoch=1)] == sequel.taken
    assert 11 == sequel.next


def test_if_an_opening_after_an_end_never_comes_no_gap_is_counted() -> None:
    """The forwarded numbers are unknown, so the patience ends the wait and counts nothing."""
    sequel = Sequel().send(_open(5), _data(5, 7), _close(7))
    sequel.send(_data(20, 22, epoch=1))
    taken = expire(sequel.intake, 10.0, 10.0)
    assert (_data(20, 22, epoch=1),) == taken.frames
    assert (Expected(epoch=1, next=22), 0) == (taken.intake.expected, taken.intake.counts.gaps)


def test_an_end_refuses_held_frames_beyond_it() -> None:
    """They are let go, because they can never be joined."""
    sequel = Sequel().send(_open(5), _data(9, 10), _close(7))
    taken = offer(sequel.intake, _data(5, 7), 0.0)
    assert (_data(5, 7), _close(7)) == taken.frames
    assert (Counts(held=1, refused=1), {}) == (taken.intake.counts, taken.intake.early)


def test_a_held_end_does_not_move_back() -> None:
    """This holds even if the old end was held until a frame went past it."""
    sequel = Sequel().send(_open(5), _close(7), _data(5, 9), _data(7, 9))
    assert [_data(5, 9)] == sequel.taken
    assert (9, Counts(duplicates=2)) == (sequel.next, sequel.intake.counts)


def test_early_frames_of_an_older_epoch_are_refused() -> None:
    """A take-over counts held frames of the older epoch, and takes them from the newer one only."""
    sequel = Sequel().send(_open(5), _data(8, 10), _data(5, 6, epoch=1))
    assert [_data(5, 6, epoch=1)] == sequel.taken
    sequel.send(_data(6, 8), _data(6, 10, epoch=1))
    assert [_data(5, 6, epoch=1), _data(6, 10, epoch=1)] == sequel.taken
    assert Counts(held=2, refused=4) == sequel.intake.counts


def test_an_intake_goes_on_from_a_kept_expectation() -> None:
    """A receiver that starts again drops the frames it had and takes the next ones."""
    sequel = Sequel(intake=Intake(expected=Expected(epoch=2, next=8)))
    sequel.send(_data(5, 8, epoch=2), _data(8, 9, epoch=1), _data(8, 9, epoch=2))
    assert ([_data(8, 9, epoch=2)], Counts(duplicates=3, refused=1)) == (sequel.taken, sequel.intake.counts)
