"""The pace keeper: when answers come, and which."""

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from bridge.spools.log import Item, ItemKind
from engine.job import pace_keeper
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import JobSpools, LongBatch, PaceKeeper, PlannedBatch, ReaderOrder
from engine.job.plan_log import PlanLog
from engine.offset import EarlyEnd, Offset, Span
from engine.plan import Bridged, Edge, Entry, Ingress, Plan, Rated, Slot
from tests.engine.job.memory_records import MemoryRecords
from tests.twins.memory_spool import MemorySpool

BOUND = 20.0
LONG = 3_600.0
"""A pace that no test waits for."""


class Scene:
    """A job of one or two streams in memory, and its keeper."""

    def __init__(self, *streams: str, pace: float = LONG, notified: bool = True, **known: Offset) -> None:
        self.spools = {name: MemorySpool() for name in streams or ("a",)}
        self.pace = pace
        self.entries: list[Entry] = []
        self.looks = 0
        self.notified = notified
        self.records = MemoryRecords(**known)
        self.ended = 0
        """How many batches were recorded."""
        self.log()
        self.keeper = PaceKeeper(
            run=1,
            plans=cast("PlanLog", self),
            store=self.records.store,
            spools=cast("JobSpools", self),
            gone={},
            is_read=lambda stream: stream in self.spools,
            on_end=self.note_end,
        )

    def note_end(self) -> None:
        self.ended += 1

    def since(self, number: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.number >= number]

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        self.looks += 1
        return {stream: self.spools[stream] for stream in streams}

    def all_notify(self, streams: Sequence[str]) -> bool:
        assert streams
        return self.notified

    def log(self, **more: Any) -> None:
        """Log another plan, whose one task takes all streams."""
        ingress = tuple(
            Ingress(stream=name, instance=i, supply=Rated(per_second=1.0) if name == "raw" else Bridged())
            for i, name in enumerate(self.spools, 1)
        )
        task = Slot(instance=9, type="count", inputs=tuple(Edge(parent=each.instance) for each in ingress))
        number = len(self.entries) + 1
        plan = Plan(job="j", host="h", version=number, ingress=ingress, slots=(task,), pace=self.pace, **more)
        self.entries.append(Entry(number=number, plan=plan, starts=dict.fromkeys(self.spools, 0)))

    def put(self, stream: str, *, marker: str = "", wake: bool = True) -> None:
        kind = ItemKind.MARKER if marker else ItemKind.DATA
        self.spools[stream].append([Item(kind=kind, count=1, stamp=0, payload=marker.encode() or b"event")])
        if wake:
            self.keeper.wake()

    def next(self) -> Offset | None:
        """The end of the next batch, which is recorded at once; None if there is none for a while."""
        return self.records.run(self.keeper)

    def record(self, batch: PlannedBatch) -> None:
        """Make the record of a batch, and report it."""
        self.records.recorded[batch.number] = batch.span.end
        assert self.keeper.note_record(batch.number)

    def warmed(self) -> Offset:
        """The offset after the batch that begins the plan and one with events, so that the next has to wait."""
        assert self.next() is not None
        for stream in self.spools:
            self.put(stream)
        end = self.next()
        assert end is not None
        return end


def at_of(end: Offset | None) -> Mapping[str, int]:
    """The positions of an end that is there."""
    assert end is not None
    return end.at


@contextmanager
def asking(scene: Scene) -> Iterator["Future[Offset | None]"]:
    """A question in its own thread, after the keeper has looked once and found nothing to do."""
    with ThreadPoolExecutor(1) as pool:
        looks = scene.looks
        answer = pool.submit(scene.next)
        for _ in range(2_000):
            if scene.looks > looks:
                break
            threading.Event().wait(0.01)
        try:
            yield answer
        finally:
            scene.keeper.stop()


def test_a_new_plan_is_answered_at_once() -> None:
    """The batch that begins it does not wait for the pace, and neither do the first events after it."""
    scene = Scene()
    begun = scene.next()
    assert Offset(run=1, entry=1, at={"a": 0}) == begun
    scene.put("a")
    assert {"a": 1} == at_of(scene.next())


def test_the_first_raw_events_wait_for_no_pace() -> None:
    """Before the first batch there is none to count a pace from."""
    scene = Scene("raw")
    assert {"raw": 1} == scene.warmed().at


def test_a_stream_knows_when_it_is_read_next() -> None:
    """At once before the first events, a pace after a batch that had some, and never if the job does not read it.

    Who comes too late for a batch asks for the one after it.
    """
    scene = Scene("raw", pace=60.0)
    assert (0.0, math.inf) == (scene.keeper.due("raw", 0.0), scene.keeper.due("other", 0.0))
    begun = time.monotonic()
    scene.warmed()
    due = scene.keeper.due("raw", 0.0)
    assert begun + 60.0 <= due <= time.monotonic() + 60.0
    assert [due, due + 60.0] == [scene.keeper.due("raw", due + later) for later in (-0.1, 0.0)]


def test_nobody_knows_what_follows_a_batch_that_takes_longer_than_its_pace() -> None:
    """Until it is recorded: the next may begin at once then."""
    scene = Scene("raw", pace=1e-9)
    scene.warmed()
    scene.put("raw")
    batch = scene.records.begin(scene.keeper)
    assert batch is not None
    during = scene.keeper.due("raw", 0.0)
    scene.record(batch)
    assert (math.inf, True) == (during, scene.keeper.due("raw", 0.0) <= time.monotonic())


def test_events_wait_for_the_pace_and_a_plan_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come within a pace wait; a plan that is logged meanwhile does not."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene()
    scene.warmed()
    with asking(scene) as answer:
        scene.put("a")
        scene.log()
        scene.keeper.wake()
        assert Offset(run=1, entry=2, at={"a": 1}) == answer.result(BOUND)


def test_a_marker_that_comes_over_a_bridge_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its first job a cut does not wait for the pace, nor do the events before it."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene()
    scene.warmed()
    with asking(scene) as answer:
        scene.put("a", wake=False)
        scene.put("a", marker="m")
        assert Offset(run=1, entry=1, at={"a": 3}, cuts={"m": ("a",)}) == answer.result(BOUND)


def test_events_are_answered_when_their_time_has_come() -> None:
    """With a short pace the answer comes by itself, and covers all events until then."""
    scene = Scene(pace=0.05)
    scene.warmed()
    with asking(scene) as answer:
        scene.put("a")
        assert 2 <= at_of(answer.result(BOUND))["a"]


def test_a_clock_that_is_set_back_holds_up_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the next batch, nor the answer if there is nothing to do."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 2.0)
    scene = Scene(pace=0.02)
    _start, now = scene.warmed(), time.time()
    with asking(scene) as answer:
        monkeypatch.setattr(time, "time", lambda: now - LONG)
        assert answer.result(BOUND) is None
    again = Scene(pace=0.02)
    monkeypatch.undo()
    again.warmed()
    monkeypatch.setattr(time, "time", lambda: now - LONG)
    again.put("a")
    following = again.next()
    assert following is not None
    assert 2 <= following.at["a"]


def test_with_nothing_to_do_the_offset_itself_comes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no query waits for a host that died."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 0.05)
    scene = Scene()
    scene.warmed()
    scene.put("a")
    assert scene.next() is None


def test_events_without_a_notification_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host may fill a spool, so the keeper looks again and again."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene(pace=0.01, notified=False)
    scene.warmed()
    with asking(scene) as answer:
        scene.put("a", wake=False)
        assert {"a": 2} == at_of(answer.result(BOUND))


@pytest.mark.parametrize("waits", [True, False])
def test_with_notifications_it_looks_no_more_often_than_it_must(
    monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    """Neither while there is nothing to do, nor while events wait for their time."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", 0.0001)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 0.5)
    scene = Scene()
    scene.warmed()
    if waits:
        scene.put("a")
    looks = scene.looks
    assert scene.next() is None
    # One at the beginning, one at the end, and one more if a clock is not exact.
    assert scene.looks - looks <= 3


def test_the_events_that_a_plan_waits_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come before the plan do not wait for their time."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene("raw")
    scene.warmed()
    scene.put("raw")
    scene.log(at={"raw": 3})
    with asking(scene) as answer:
        scene.put("raw", wake=False)
        scene.keeper.note_growth("raw", marked=False)
        assert Offset(run=1, entry=1, at={"raw": 3}) == answer.result(BOUND)


def test_a_stopped_keeper_answers_at_once() -> None:
    """A question that waits gets its own offset back."""
    scene = Scene()
    scene.warmed()
    with asking(scene) as answer:
        scene.keeper.stop()
        assert answer.result(BOUND) is None


def test_a_marker_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that waits for it in its other stream goes on without a cut."""
    monkeypatch.setattr(pace_keeper, "ALIGNING", 0.2)
    scene = Scene("a", "b", pace=0.01)
    scene.warmed()
    scene.put("a", marker="m")
    scene.put("a")
    held = scene.next()
    assert held is not None
    assert {"a": "m"} == held.held
    onward = scene.next()
    assert Offset(run=1, entry=1, at={"a": 3, "b": 1}) == onward
    assert {"m"} == scene.keeper.given_up
    # Its other half comes late, and holds up nothing.
    scene.put("b", marker="m")
    scene.put("b")
    late = scene.next()
    assert Offset(run=1, entry=1, at={"a": 3, "b": 2}) == late
    assert Offset(run=1, entry=1, at={"a": 3, "b": 3}) == scene.next()


def test_a_released_cut_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that waits for it goes on at once, and the cut is not reported as given up."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene("a", "b", pace=0.01)
    scene.warmed()
    scene.put("a", marker="m")
    scene.put("a")
    scene.next()
    with asking(scene) as answer:
        scene.keeper.pass_over("m")
        assert Offset(run=1, entry=1, at={"a": 3, "b": 1}) == answer.result(BOUND)
    assert frozenset() == scene.keeper.given_up


def test_a_batch_that_may_have_been_begun_ends_where_it_was_to_end() -> None:
    """Even if more has come since, and its host died: its shards record one batch, and its tasks write it once."""
    begun = Offset(run=1, entry=1, at={"a": 5}, shards=2)
    scene = Scene(begun=begun)
    long_batch = scene.keeper.long_batch_after(0)
    assert LongBatch(1, 2) == long_batch
    assert [PlannedBatch(0, Span(Offset(), begun))] * 2 == [batch_of(scene, long_batch, shard) for shard in range(2)]
    assert begun == scene.keeper.decided


def test_the_end_of_a_batch_is_durable_before_it_is_given() -> None:
    """So whatever dies, it is run again with the same end."""
    scene = Scene()
    long_batch = scene.keeper.long_batch_after(0)
    assert long_batch is not None
    batch = batch_of(scene, long_batch, 0)
    assert {batch.number: batch.span.end} == scene.records.ends.kept


def test_readers_get_a_batch_until_it_is_recorded() -> None:
    """Whatever died meanwhile: one that begins anew gets what the others got, and none gets two at once."""
    scene = Scene()
    scene.warmed()
    scene.log(shards=2)
    scene.keeper.wake()
    long_batch = scene.keeper.long_batch_after(1)
    assert long_batch is not None
    first = batch_of(scene, long_batch, 0)
    assert [first] * 3 == [batch_of(scene, long_batch, shard) for shard in (1, 0, 1)]
    scene.put("a")
    with ThreadPoolExecutor(2) as pool:
        waiting = [
            pool.submit(scene.keeper.batch_after, long_batch, at, f"reader {at}", (first.number, 0)) for at in (0, 1)
        ]
        scene.record(first)
        following = [each.result(BOUND) for each in waiting]
    assert [PlannedBatch(first.number + 1, Span(first.span.end, replace(first.span.end, at={"a": 2})))] * 2 == following


def test_the_record_says_where_a_batch_ended() -> None:
    """A worker that was taken for dead may have recorded another end than the one that was decided since."""
    scene = Scene()
    start = scene.warmed()
    scene.log()
    scene.keeper.wake()
    long_batch = scene.keeper.long_batch_after(1)
    assert long_batch is not None
    batch = batch_of(scene, long_batch, 0)
    earlier = replace(start, at={"a": 1})
    scene.records.recorded[batch.number] = earlier
    scene.keeper.wake()
    assert earlier == batch_of(scene, long_batch, 0).span.start


def begun(scene: Scene) -> tuple[LongBatch, PlannedBatch]:
    """A long batch, and the first batch in it, which its reader has passed on."""
    long_batch = scene.keeper.long_batch_after(0)
    assert long_batch is not None
    return long_batch, batch_of(scene, long_batch, 0)


def test_a_reader_whose_shard_another_one_reads_leaves() -> None:
    """Spark does not end the reader of a task that it has given up."""
    scene = Scene()
    long_batch, batch = begun(scene)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(scene.keeper.batch_after, long_batch, 0, "reader 0", (batch.number, 0))
        assert batch == scene.keeper.batch_after(long_batch, 0, "another", None)
        assert ReaderOrder.LEAVE is waits.result(BOUND) or ReaderOrder.LEAVE is scene.keeper.batch_after(
            long_batch, 0, "reader 0", (batch.number, 0)
        )


def test_spark_is_made_to_notice_a_lost_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader that waits for the record passes something on, and asks again."""
    monkeypatch.setattr(pace_keeper, "_RECORD_SECONDS", LONG)
    scene = Scene()
    long_batch, batch = begun(scene)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(scene.keeper.batch_after, long_batch, 0, "reader 0", (batch.number, 0))
        for _ in range(2_000):
            scene.keeper.note_lost_worker()
            if waits.done():
                break
            threading.Event().wait(0.01)
        assert ReaderOrder.NUDGE is waits.result(BOUND)


def test_a_reader_ends_whose_worker_raised_and_the_next_one_gets_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes up what the worker said only at the end of its input; then it tries the task once more."""
    monkeypatch.setattr(pace_keeper, "_RECORD_SECONDS", LONG)
    scene = Scene()
    long_batch, batch = begun(scene)
    assert batch == scene.keeper.batch_after(long_batch, 0, "reader 0", None)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(scene.keeper.batch_after, long_batch, 0, "reader 0", (batch.number, 0))
        scene.keeper.note_raised(0)
        # It may have looked before or after.
        assert waits.result(BOUND) in {ReaderOrder.NUDGE, ReaderOrder.END}
    assert ReaderOrder.END is scene.keeper.batch_after(long_batch, 0, "reader 0", (batch.number, 0))
    assert batch == scene.keeper.batch_after(long_batch, 0, "another", None)


def test_a_long_batch_without_batches_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slots and processes are free for others until something comes."""
    monkeypatch.setattr(pace_keeper, "IDLE_SECONDS", 0.05)
    scene = Scene()
    long_batch = scene.keeper.long_batch_after(0)
    assert long_batch is not None
    batch = batch_of(scene, long_batch, 0)
    scene.record(batch)
    assert ReaderOrder.END is scene.keeper.batch_after(long_batch, 0, "reader 0", (batch.number, 0))
    scene.put("a")
    assert LongBatch(2, 1) == scene.keeper.long_batch_after(1)


def test_a_long_batch_ends_where_the_number_of_shards_changes() -> None:
    """The next one has as many readers as its first batch has shards."""
    scene = Scene()
    long_batch = scene.keeper.long_batch_after(0)
    assert long_batch is not None
    batch = batch_of(scene, long_batch, 0)
    scene.record(batch)
    scene.log(shards=3)
    scene.keeper.wake()
    assert ReaderOrder.END is scene.keeper.batch_after(long_batch, 0, "reader 0", (batch.number, 0))
    assert LongBatch(2, 3) == scene.keeper.long_batch_after(1)


def test_readers_get_a_batch_anew_once_some_shards_have_ended_early() -> None:
    """Each gets it once for each earlier end, with the end that was decided."""
    scene = Scene()
    scene.warmed()
    scene.log(shards=2)
    scene.keeper.wake()
    scene.put("a")
    long_batch = scene.keeper.long_batch_after(1)
    assert long_batch is not None
    first = batch_of(scene, long_batch, 0)
    assert first == batch_of(scene, long_batch, 1)
    given, last = [first], (first.number, 0)
    for position in (6, 4):
        scene.records.disputed = {"a": EarlyEnd(position, stamp=7)}
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(scene.keeper.batch_after, long_batch, at, f"reader {at}", last) for at in (0, 1)]
            # Twice, as each worker says so.
            assert not any(scene.keeper.note_record(first.number) for _ in range(2))
            anew = [each.result(BOUND) for each in waiting]
        assert anew[0] == anew[1]
        assert isinstance(anew[0], PlannedBatch)
        given.append(anew[0])
        last = (first.number, anew[0].repeats)
    assert [{}, {"a": EarlyEnd(6, 7)}, {"a": EarlyEnd(4, 7)}] == [batch.span.early for batch in given]
    assert [0, 1, 2] == [batch.repeats for batch in given]
    assert all(first.span.end == batch.span.end for batch in given)


def test_shards_without_a_slot_are_counted() -> None:
    """Those whose readers have not begun, after a while; none once the long batch is over."""
    scene = Scene()
    scene.log(shards=3)
    long_batch = scene.keeper.long_batch_after(0)
    assert long_batch is not None
    assert (3, 0) == (scene.keeper.shards_waiting(0.0), scene.keeper.shards_waiting(LONG))
    batch_of(scene, long_batch, 1)
    assert 2 == scene.keeper.shards_waiting(0.0)


def batch_of(scene: Scene, long_batch: LongBatch, shard: int) -> PlannedBatch:
    """The batch that a reader gets that begins to read a shard."""
    batch = scene.keeper.batch_after(long_batch, shard, f"reader {shard}", None)
    assert isinstance(batch, PlannedBatch)
    return batch


def test_a_plan_is_logged_with_all_decisions_known() -> None:
    """The last end and every cut so far are known; and while the lock is held nothing is decided."""
    scene = Scene()
    start = scene.warmed()
    assert start == scene.keeper.decided
    with asking(scene) as answer:
        with scene.keeper.deciding:
            scene.put("a", marker="m")
            scene.log(at_cut="m")
            assert start == scene.keeper.decided
        cut = answer.result(BOUND)
    assert cut is not None
    assert {"m": ("a",)} == cut.cuts
    assert {"m"} == scene.keeper.cuts
