"""The follower: what it publishes of the records, where it continues after a restart, and what may be pruned."""

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.sender import NO_RECORD_NEEDED
from engine.delivery.follower import REWIND
from engine.delivery.publisher import RUNS
from tests.engine.follower_scene import STREAM, LateCopies, Scene


def test_events_are_delivered_with_their_numbers(tmp_path: Path) -> None:
    """Each record's events go to the dataflow's topic, under an epoch of this start of the job."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    for many in (2, 0, 3):
        scene.batch(many)
    follower = scene.follower()
    assert [0, 1, 2] == [header.batch for header in follower.follow()]
    assert [] == follower.follow()
    assert [(RUNS + 1, 0, 2), (RUNS + 1, 2, 3)] == [
        (each.payload["epoch"], each.payload["first"], len(each.payload["events"])) for each in scene.sender.plain
    ]
    assert {"braid/1/out/ann/d/s"} == {each.topic for each in scene.sender.plain}


def test_a_record_without_all_its_copies_is_not_followed(tmp_path: Path) -> None:
    """Nobody sees what would be lost with this machine, and nothing overtakes it."""
    scene, copies = Scene(tmp_path), LateCopies()
    scene.plan(delivered=True)
    paths = [scene.store.file(scene.batch(2)).path for _ in range(3)]
    follower = scene.follower(copies)
    copies.there |= {paths[0], paths[2]}
    assert [0] == [header.batch for header in follower.follow()]
    assert follower.waits_for_copies
    copies.there.add(paths[1])
    assert [1, 2] == [header.batch for header in follower.follow()]
    assert not follower.waits_for_copies


def test_events_that_enter_and_leave_are_counted(tmp_path: Path) -> None:
    """They count since this start; positions that a batch skips when it begins a plan do not."""
    scene = Scene(tmp_path)
    follower = scene.follower()
    scene.position = 1_000
    scene.batch()
    for many in (2, 3):
        scene.batch(many, marker="m")
    scene.plan(delivered=True)
    scene.batch(50)
    scene.batch(4)
    follower.follow()
    assert ({"s": 9}, 59) == (follower.so_far.entered, follower.so_far.left)
    scene.sender.answer()
    follower.tidy()
    again = scene.follower()
    scene.batch(1)
    again.follow()
    assert ({"s": 1}, 1, 2) == (again.so_far.entered, again.so_far.left, again.run)


def test_the_sizes_of_states_are_known_from_the_start(tmp_path: Path) -> None:
    """Those of the last record that was followed: they count for a quota even while no event comes."""
    scene = Scene(tmp_path)
    scene.batch(1, keys=[b"k" * 20_000])
    follower = scene.follower()
    assert {} == follower.so_far.sizes
    follower.follow()
    scene.sender.answer()
    follower.tidy()
    sizes = follower.so_far.sizes
    assert ({7}, True) == (set(sizes), sizes[7] > 20_000)
    assert sizes == scene.follower().so_far.sizes


def test_events_that_were_removed_before_their_batch_ran_are_not_counted(tmp_path: Path) -> None:
    """The batch that a job was stopped in may have been planned over events that were removed before it ran."""
    scene = Scene(tmp_path)
    for many in (2, 3, 4):
        scene.batch(many)
    scene.folder.save_gone({"s": scene.position - 3})
    follower = scene.follower()
    follower.follow()
    assert {"s": 3} == follower.so_far.entered


def test_a_plan_has_left_once_nothing_of_it_would_be_sent_again(tmp_path: Path) -> None:
    """Not when the broker has all of it: only when that is on disk too, for a host may be killed in between."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    assert 0 == scene.follower().oldest_leaving_entry()
    follower = scene.follower()
    scene.batch(2)
    follower.follow()
    scene.plan()
    scene.batch(1)
    follower.follow()
    assert [2, 3] == [scene.store.file(batch).header.end.entry for batch in scene.store.batches()]
    assert (2, False) == (follower.oldest_leaving_entry(), follower.has_left())
    scene.sender.answer()
    assert (2, False) == (follower.oldest_leaving_entry(), follower.has_left())
    killed = scene.follower()
    killed.follow()
    assert 1 == len(scene.sender.plain)
    assert 2 == killed.oldest_leaving_entry()
    scene.sender.answer()
    killed.tidy()
    assert (3, True) == (killed.oldest_leaving_entry(), killed.has_left())
    again = scene.follower()
    again.follow()
    again.tidy()
    assert [] == scene.sender.plain
    assert (3, True) == (again.oldest_leaving_entry(), again.has_left())


def test_a_plan_has_left_once_all_peers_know_it(tmp_path: Path) -> None:
    """Another machine that goes on with an older note would send it again."""
    scene, copies = Scene(tmp_path), LateCopies()
    scene.plan(delivered=True)
    copies.there |= {scene.store.file(scene.batch(2)).path}
    scene.plan()
    copies.there |= {scene.store.file(scene.batch(1)).path}
    follower = scene.follower(copies)
    follower.follow()
    scene.sender.answer()
    follower.tidy()
    assert (2, False) == (follower.oldest_leaving_entry(), follower.has_left())
    copies.there.add(scene.folder.path / "published")
    follower.tidy()
    assert (3, True) == (follower.oldest_leaving_entry(), follower.has_left())


def test_a_restart_publishes_unconfirmed_messages_again(tmp_path: Path) -> None:
    """It continues with the first batch that the broker has not confirmed completely, with the same numbers."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    follower = scene.follower()
    for many in (2, 1, 3):
        scene.batch(many)
    follower.follow()
    first, second, third = scene.sender.plain
    third.done()
    first.done()
    assert 1 == follower.first_unsent
    follower.tidy()
    again = scene.follower()
    again.follow()
    assert [second.payload["events"], third.payload["events"]] == [
        each.payload["events"] for each in scene.sender.plain
    ]
    assert [2, 3] == [each.payload["first"] for each in scene.sender.plain]
    assert {RUNS + 2} == {each.payload["epoch"] for each in scene.sender.plain}


def test_a_restart_publishes_no_confirmed_message_again(tmp_path: Path) -> None:
    """Once the broker has confirmed them and the follower has written that down, they are done."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    follower = scene.follower()
    scene.batch(2)
    follower.follow()
    scene.sender.answer()
    follower.tidy()
    again = scene.follower()
    assert [] == again.follow()
    assert [] == scene.sender.plain
    assert {"s": 2} == again.so_far.positions


def test_while_the_broker_is_behind_records_wait_in_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is followed while too many bytes are unconfirmed; once they are confirmed, records follow."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    follower = scene.follower()
    for many in (2, 1, 3):
        scene.batch(many)
    monkeypatch.setattr("engine.delivery.follower.MOST_UNSENT", 1)
    assert [0] == [header.batch for header in follower.follow()]
    assert [] == follower.follow()
    scene.sender.answer()
    assert [1] == [header.batch for header in follower.follow()]
    scene.sender.answer()
    assert [2] == [header.batch for header in follower.follow()]


def test_records_with_unsent_messages_are_not_pruned(tmp_path: Path) -> None:
    """They stay as long as the broker does not answer; once it has, they go."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    follower = scene.follower()
    scene.batch(2)
    for _ in range(20):
        scene.batch()
    follower.follow()
    follower.tidy()
    again = scene.follower()
    again.follow()
    assert [0] == [each.payload["first"] for each in scene.sender.plain]
    scene.sender.answer()
    again.tidy()
    assert 20 - REWIND == scene.store.batches().start


def test_records_that_a_consumer_may_ask_for_are_not_pruned(tmp_path: Path) -> None:
    """The record with the first number that it has not confirmed stays, and so do those after it."""
    scene = Scene(tmp_path)
    scene.plan(forwarded=True)
    follower = scene.follower()
    for _ in range(20):
        scene.batch(2)
    follower.follow()
    scene.sender.confirmed[STREAM] = 9
    follower.tidy()
    assert 4 == scene.store.batches().start
    assert list(range(8, 40)) == scene.sender.opened[0].numbers(9)


def test_what_a_consumer_may_lack_is_not_handed_on(tmp_path: Path) -> None:
    """A batch is handed on once the spool of its reader is known to have all of it and of those before."""
    scene = Scene(tmp_path)
    follower = scene.follower()
    scene.batch(2)
    follower.follow()
    assert 1 == follower.first_not_handed_on()
    scene.plan(forwarded=True)
    batches = [scene.batch(many) for many in (3, 0, 4)]
    follower.follow()
    assert batches[0] == follower.first_not_handed_on()
    scene.sender.confirmed[STREAM] = 5
    assert batches[2] == follower.first_not_handed_on()
    again = scene.follower()
    again.follow()
    assert batches[0] >= again.first_not_handed_on()
    scene.sender.confirmed[STREAM] = 9
    assert batches[2] + 1 == again.first_not_handed_on()


def test_a_stream_opens_at_its_number_in_the_plan_that_forwards_it(tmp_path: Path) -> None:
    """Events from before the plan are not forwarded; those of later batches are."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True)
    follower = scene.follower()
    scene.batch(5)
    scene.plan(delivered=True, forwarded=True)
    scene.batch(2)
    scene.batch(1)
    follower.follow()
    [opened] = scene.sender.opened
    assert (STREAM, 5, RUNS + 1) == (opened.stream, opened.first, opened.epoch)
    assert [(STREAM, 5), (STREAM, 7)] == [(stream, each.first) for stream, each in scene.sender.emitted]
    assert [5, 6, 7] == opened.numbers(5)
    assert [7] == opened.numbers(7)
    assert {"7:out": 5} == follower.forwarder.unconfirmed()


def test_a_closed_stream_has_no_event_from_after_its_end(tmp_path: Path) -> None:
    """The records hold more events of that port, because it was delivered as well."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True, forwarded=True)
    follower = scene.follower()
    scene.batch(3)
    scene.plan(delivered=True)
    scene.batch(4)
    follower.follow()
    [opened] = scene.sender.opened
    assert opened.closed
    assert [0, 1, 2] == opened.numbers(0)


def test_a_closing_stream_survives_restarts(tmp_path: Path) -> None:
    """Until its consumer has the end, every start opens it where it was opened, and closes it where it ended."""
    scene = Scene(tmp_path)
    scene.plan(delivered=True, forwarded=True)
    follower = scene.follower()
    scene.batch(3)
    scene.plan(delivered=True)
    scene.batch(4)
    follower.follow()
    scene.sender.answer()
    follower.tidy()
    for _ in range(3):
        follower = scene.follower()
        follower.follow()
        [opened] = scene.sender.opened
        assert opened.closed
        assert [0, 1, 2] == opened.numbers(opened.first)
        assert {"7:out": 0} == follower.forwarder.unconfirmed()
        follower.tidy()
    scene.sender.confirmed[STREAM] = NO_RECORD_NEEDED
    follower.tidy()
    scene.follower().follow()
    assert [] == scene.sender.opened


def test_a_stream_that_was_opened_again_keeps_both_ends(tmp_path: Path) -> None:
    """After a restart the first opening comes with its own events and its end, and then the second."""
    scene = Scene(tmp_path)
    follower = scene.follower()
    for forwarded, many in ((True, 3), (False, 2), (True, 1)):
        scene.plan(delivered=True, forwarded=forwarded)
        scene.batch(many)
    follower.follow()
    scene.sender.answer()
    follower.tidy()
    follower = scene.follower()
    follower.follow()
    first, second = scene.sender.opened
    assert (True, False) == (first.closed, second.closed)
    assert [0, 1, 2] == first.numbers(first.first)
    assert [5] == second.numbers(second.first)


def test_an_epoch_that_is_too_low_is_reported_and_stops_nothing_else(tmp_path: Path) -> None:
    """A stream that a plan forwards in a lower epoch than before is left out, and the trouble says so."""
    scene = Scene(tmp_path)
    scene.plan(forwarded=True, epoch=3)
    follower = scene.follower()
    scene.batch(1)
    scene.plan(forwarded=True, delivered=True, epoch=2)
    scene.batch(2)
    follower.follow()
    assert "higher epoch" in follower.forwarder.trouble
    assert 1 == follower.so_far.batch
    assert [1] == [each.payload["first"] for each in scene.sender.plain]


def test_positions_are_needed_while_a_batch_may_read_them_again(tmp_path: Path) -> None:
    """Events are needed from the start of the oldest batch that may run again, or from an older cut."""
    scene = Scene(tmp_path)
    follower = scene.follower()
    scene.batch(10)
    follower.follow()
    assert {} == follower.needed_from()
    for _ in range(REWIND):
        scene.batch(1)
    follower.follow()
    assert {"s": 10} == follower.needed_from()
    scene.batch(1, cut="c")
    for _ in range(10):
        scene.batch(1)
    follower.follow()
    assert {"s": 14} == follower.needed_from()
    scene.folder.cuts.release("c")
    assert {"s": 24 - REWIND} == follower.needed_from()


def test_a_cut_keeps_its_records_until_it_is_released(tmp_path: Path) -> None:
    """The state at a cut can be read however far the job has gone, even after restarts."""
    scene = Scene(tmp_path)
    follower = scene.follower()
    for n in range(20):
        scene.batch(1, keys=[b"%d" % n])
    at = scene.batch(1, cut="c", keys=[b"cut"])
    for n in range(40):
        scene.batch(1, keys=[b"later %d" % n])
        follower.follow()
        follower.tidy()
        if n % 10 == 5:
            follower = scene.follower()
    expected = {b"%d" % n for n in range(20)} | {b"cut"}
    assert expected == set(scene.store.state_at(at, (7,))[7][0])
    before = scene.store.batches().start
    assert before <= at
    scene.folder.cuts.release("c")
    for _ in range(40):
        scene.batch(1, keys=[b"x"])
    follower.follow()
    follower.tidy()
    assert at < scene.store.batches().start


class Following(RuleBasedStateMachine):
    """A job that runs, publishes, is confirmed, tidied and restarted in any order; restarts are crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.scene = Scene(self.folder)
        self.follower = self.scene.follower()
        self.change(forwarded=False)
        self.delivered, self.taken = set[int](), list[int]()
        self.to_deliver, self.to_take = set[int](), list[int]()
        self.cut = -1

    def teardown(self) -> None:
        """Check that every event has left, once and in order."""
        try:
            self.follower = self.scene.follower()
            self.follower.follow()
            self.answer(1_000)
            while self.confirmed(1_000):
                pass
        finally:
            rmtree(self.folder)
        assert self.to_deliver == self.delivered
        assert self.to_take == self.taken

    @rule(many=st.integers(0, 3), keys=st.sets(st.sampled_from([b"a", b"b"])))
    def run(self, many: int, keys: set[bytes]) -> None:
        numbers = range(self.scene.number, self.scene.number + many)
        self.to_deliver |= set(numbers)
        self.to_take += list(numbers) if self.forwarded else []
        self.scene.batch(many, keys=sorted(keys))

    @rule(forwarded=st.booleans())
    def change(self, forwarded: bool) -> None:  # noqa: FBT001 - drawn
        # A plan takes effect in a batch of its own.
        self.forwarded = forwarded
        self.scene.plan(forwarded=forwarded, delivered=True)
        self.scene.batch()

    @precondition(lambda self: not self.scene.folder.cuts.all())
    @rule()
    def take_cut(self) -> None:
        self.cut = self.scene.batch(cut="c", keys=[b"cut"])
        self.follower.follow()

    @rule()
    def release(self) -> None:
        self.scene.folder.cuts.release("c")

    @rule()
    def follow(self) -> None:
        self.follower.follow()

    @rule(most=st.integers(1, 5))
    def answer(self, most: int) -> None:
        for each in self.scene.sender.plain[:most]:
            first = each.payload["first"]
            self.delivered |= set(range(first, first + len(each.payload["events"])))
            each.done()
        del self.scene.sender.plain[:most]

    @rule(most=st.integers(1, 4))
    def confirm(self, most: int) -> None:
        self.confirmed(most)

    def confirmed(self, most: int) -> bool:
        """Have the consumer take some events that the records hold for it, stream by stream; whether any were left."""
        number = self.taken[-1] + 1 if self.taken else 0
        for at, opened in enumerate(self.scene.sender.opened):
            # Frames are read whole, and may begin with events that were taken before.
            first = max(number, opened.first)
            if left := [each for each in opened.numbers(first) if each >= first][:most]:
                self.taken += left
                self.scene.sender.confirmed[STREAM] = left[-1] + 1
                return True
            if opened.closed and at + 1 == len(self.scene.sender.opened):
                self.scene.sender.confirmed[STREAM] = NO_RECORD_NEEDED
        return False

    @rule()
    def tidy(self) -> None:
        self.follower.tidy()

    @rule()
    def restart(self) -> None:
        self.follower = self.scene.follower()
        self.follower.follow()

    @invariant()
    def states_can_be_made(self) -> None:
        if batches := self.scene.store.batches():
            self.scene.store.state(batches.stop)
        for _ in self.scene.folder.cuts.all():
            assert b"cut" in self.scene.store.state_at(self.cut, (7,))[7][0]


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
