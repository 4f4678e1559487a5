"""The pace keeper: when its answers come, and what is known to have been decided when a plan is logged."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from bridge.spools.log import Item, ItemKind
from bridge.spools.memory_spool import MemorySpool
from engine.job import pace, pace_keeper
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import PaceKeeper
from engine.job.pace_server import PaceServer
from engine.offset import Offset
from engine.plan import Edge, Entry, Ingress, Plan, Slot
from engine.spark.batch_task import report_recorded
from engine.supply import Bridged, Rated

BOUND = 20.0
LONG = 3_600.0
"""A pace that no test waits for."""


class Scene:
    """A job of one or two streams in memory, and its keeper."""

    def __init__(self, *streams: str, pace: float = LONG, known: Offset | None = None, notified: bool = True) -> None:
        self.spools = {name: MemorySpool() for name in streams or ("a",)}
        self.pace = pace
        self.entries: list[Entry] = []
        self.asked: list[Offset] = []
        self.looks = 0
        self.notified = notified
        self.known = known
        self.log()
        self.keeper = PaceKeeper(
            run=1,
            entries=lambda first: [each for each in self.entries if each.number >= first],
            is_bridged=lambda stream: stream != "raw",
            spools=self,
            recorded=lambda _start: self.known,
            on_ask=self.asked.append,
        )

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

    def warmed(self) -> Offset:
        """The offset after the batch that begins the plan and one with events, so that the next has to wait."""
        first = self.keeper.end_after(Offset())
        for stream in self.spools:
            self.put(stream)
        return self.keeper.end_after(first)


@contextmanager
def asking(scene: Scene, start: Offset) -> Iterator["Future[Offset]"]:
    """A question in its own thread, after the keeper has looked once and found nothing to do."""
    with ThreadPoolExecutor(1) as pool:
        looks = scene.looks
        answer = pool.submit(scene.keeper.end_after, start)
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
    begun = scene.keeper.end_after(Offset())
    assert Offset(run=1, entry=1, at={"a": 0}) == begun
    scene.put("a")
    assert {"a": 1} == scene.keeper.end_after(begun).at


def test_the_first_raw_events_wait_for_no_pace() -> None:
    """Before the first batch there is none to count a pace from."""
    scene = Scene("raw")
    assert {"raw": 1} == scene.warmed().at


def test_events_wait_for_the_pace_and_a_plan_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come within a pace wait; a plan that is logged meanwhile does not."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene()
    start = scene.warmed()
    with asking(scene, start) as answer:
        scene.put("a")
        scene.log()
        scene.keeper.wake()
        assert Offset(run=1, entry=2, at={"a": 1}) == answer.result(BOUND)


def test_a_marker_that_comes_over_a_bridge_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its first job a cut does not wait for the pace, nor do the events before it."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene()
    start = scene.warmed()
    with asking(scene, start) as answer:
        scene.put("a", wake=False)
        scene.put("a", marker="m")
        assert Offset(run=1, entry=1, at={"a": 3}, cuts={"m": ("a",)}) == answer.result(BOUND)


def test_events_over_a_bridge_wake_a_keeper_that_waits_for_raw_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may begin a batch before raw events would; more raw events change nothing."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    monkeypatch.setattr(pace, "COMPANY", LONG)
    scene = Scene("raw", "bridge", pace=0.1)
    start = scene.warmed()
    scene.put("raw", wake=False)
    with asking(scene, start) as answer:
        scene.put("bridge", wake=False)
        scene.keeper.note_growth("raw", marked=False)
        scene.keeper.note_growth("bridge", marked=False)
        assert {"raw": 2, "bridge": 2} == answer.result(BOUND).at


def test_events_are_answered_when_their_time_has_come() -> None:
    """With a short pace the answer comes by itself, and covers all events until then."""
    scene = Scene(pace=0.05)
    start = scene.warmed()
    with asking(scene, start) as answer:
        scene.put("a")
        assert 2 <= answer.result(BOUND).at["a"]


def test_a_clock_that_is_set_back_holds_up_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the next batch, nor the answer if there is nothing to do."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 2.0)
    scene = Scene(pace=0.02)
    start, now = scene.warmed(), time.time()
    with asking(scene, start) as answer:
        monkeypatch.setattr(time, "time", lambda: now - LONG)
        assert start == answer.result(BOUND)
    again = Scene(pace=0.02)
    monkeypatch.undo()
    start = again.warmed()
    monkeypatch.setattr(time, "time", lambda: now - LONG)
    again.put("a")
    assert start != again.keeper.end_after(start)


def test_with_nothing_to_do_the_offset_itself_comes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no query waits for a host that died."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 0.05)
    scene = Scene()
    start = scene.warmed()
    scene.put("a")
    assert start == scene.keeper.end_after(start)


def test_events_without_a_notification_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host may fill a spool, so the keeper looks again and again."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene(pace=0.01, notified=False)
    start = scene.warmed()
    with asking(scene, start) as answer:
        scene.put("a", wake=False)
        assert {"a": 2} == answer.result(BOUND).at


@pytest.mark.parametrize("waits", [True, False])
def test_with_notifications_it_looks_no_more_often_than_it_must(
    monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    """Neither while there is nothing to do, nor while events wait for their time."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", 0.0001)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 0.5)
    scene = Scene()
    start = scene.warmed()
    if waits:
        scene.put("a")
    looks = scene.looks
    assert start == scene.keeper.end_after(start)
    # One at the beginning, one at the end, and one more if a clock is not exact.
    assert scene.looks - looks <= 3


def test_the_events_that_a_plan_waits_for_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come before the plan do not wait for their time."""
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene("raw")
    start = scene.warmed()
    scene.put("raw")
    scene.log(at={"raw": 3})
    with asking(scene, start) as answer:
        scene.put("raw", wake=False)
        scene.keeper.note_growth("raw", marked=False)
        assert Offset(run=1, entry=1, at={"raw": 3}) == answer.result(BOUND)


def test_a_stopped_keeper_answers_at_once() -> None:
    """A question that waits gets its own offset back."""
    scene = Scene()
    start = scene.warmed()
    with asking(scene, start) as answer:
        scene.keeper.stop()
        assert start == answer.result(BOUND)


def test_a_marker_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that waits for it in its other stream goes on without a cut."""
    monkeypatch.setattr(pace_keeper, "ALIGNING", 0.2)
    scene = Scene("a", "b", pace=0.01)
    start = scene.warmed()
    scene.put("a", marker="m")
    scene.put("a")
    held = scene.keeper.end_after(start)
    assert {"a": "m"} == held.held
    onward = scene.keeper.end_after(held)
    assert Offset(run=1, entry=1, at={"a": 3, "b": 1}) == onward
    assert {"m"} == scene.keeper.given_up
    # Its other half comes late, and holds up nothing.
    scene.put("b", marker="m")
    scene.put("b")
    late = scene.keeper.end_after(onward)
    assert Offset(run=1, entry=1, at={"a": 3, "b": 2}) == late
    assert Offset(run=1, entry=1, at={"a": 3, "b": 3}) == scene.keeper.end_after(late)


def test_a_released_cut_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that waits for it goes on at once, and the cut is not reported as given up."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    scene = Scene("a", "b", pace=0.01)
    start = scene.warmed()
    scene.put("a", marker="m")
    scene.put("a")
    held = scene.keeper.end_after(start)
    with asking(scene, held) as answer:
        scene.keeper.pass_over("m")
        assert Offset(run=1, entry=1, at={"a": 3, "b": 1}) == answer.result(BOUND)
    assert frozenset() == scene.keeper.given_up


def test_a_batch_that_is_recorded_ends_where_it_ended() -> None:
    """Even if more has come since: a checkpoint that lost the plan of a batch gets the same plan again."""
    known = Offset(run=1, entry=1, at={"a": 5})
    scene = Scene(known=known)
    assert known == scene.keeper.end_after(Offset())
    assert known == scene.keeper.decided


def test_a_plan_is_logged_with_all_decisions_known() -> None:
    """The last end and every cut so far are known; and while the lock is held nothing is decided."""
    scene = Scene()
    start = scene.warmed()
    assert start == scene.keeper.decided
    with asking(scene, start) as answer:
        with scene.keeper.deciding:
            scene.put("a", marker="m")
            scene.log(at_cut="m")
            assert start == scene.keeper.decided
        cut = answer.result(BOUND)
    assert {"m": ("a",)} == cut.cuts
    assert {"m"} == scene.keeper.cuts


@pytest.fixture
def recorded() -> "SimpleQueue[str]":
    """The jobs that were reported to a server to have recorded a batch."""
    return SimpleQueue()


@pytest.fixture
def server(tmp_path: Path, recorded: "SimpleQueue[str]") -> Iterator[PaceServer]:
    made = PaceServer(tmp_path / "pace", on_record=recorded.put)
    yield made
    made.close()


def ask(server: PaceServer, job: str, start: Offset) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asking_:
        asking_.settimeout(BOUND)
        asking_.connect(str(server.address))
        asking_.sendall(json.dumps({"job": job, "start": start.as_json()}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(asking_.makefile().readline())
        return answer


def test_questions_are_answered_over_the_socket(server: PaceServer) -> None:
    """Each is answered by the keeper of its job; a job without one gets its own offset back."""
    scene = Scene()
    server.add("j", scene.keeper)
    assert {"end": Offset(run=1, entry=1, at={"a": 0}).as_json()} == ask(server, "j", Offset())
    assert {"end": Offset(run=7).as_json()} == ask(server, "another", Offset(run=7))
    server.remove("j")
    assert {"end": Offset().as_json()} == ask(server, "j", Offset())


def test_a_worker_reports_its_record_and_waits_for_nothing(server: PaceServer, recorded: "SimpleQueue[str]") -> None:
    """The batch goes on, even if the host is gone."""
    report_recorded(str(server.address), "j")
    assert "j" == recorded.get(timeout=BOUND)
    server.close()
    report_recorded(str(server.address), "j")
    assert recorded.empty()


def test_an_error_is_reported_to_the_query(server: PaceServer) -> None:
    """An index that cannot be read fails the query that needs it, with the reason."""
    scene = Scene()
    server.add("j", scene.keeper)
    scene.spools.clear()
    assert "KeyError: 'a'" in ask(server, "j", Offset())["trouble"]
