"""The run of a connector, over a client in memory: deaths at any moment, full spools, trouble, and beginning anew."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors import connector_run
from bridge.connectors.connector_run import ConnectorRun, ConnectorTrouble, LinkState, TakenEvents
from bridge.files import Steps, no_steps
from bridge.machine import BackOff
from bridge.raw_events import Unfit
from bridge.spools.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.spools.log import unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool, commit
from tests.engine.replicas.scene import until
from tests.twins.memory_clock import MemoryClock

PARTS = ("a", "b")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_run, "_GROUPING", 0.0)
    monkeypatch.setattr(connector_run, "_WAITING", 0.01)
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff((0.0,)))


class Killed(BaseException):
    """The end of a process."""


class Outside:
    """Two numbered streams outside, of which each client takes some events at once, from its positions on."""

    def __init__(self, lengths: Sequence[int] = (0, 0)) -> None:
        self.lengths = list(lengths)
        self.step: Steps = no_steps
        self.made = 0
        self.let_go: list[dict[str, int]] = []
        self.closed: list[bool] = []
        self.trouble: Exception | None = None
        """Raised by whatever a client does next."""
        self.unfit: tuple[Unfit, ...] = ()

    def connect(self, positions: Mapping[str, int], in_doubt: InDoubt) -> "OutsideClient":
        self.act("connect")
        self.made += 1
        return OutsideClient(self, positions, in_doubt)

    def act(self, name: str) -> None:
        self.step(name)
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble


class OutsideClient:
    def __init__(self, outside: Outside, positions: Mapping[str, int], in_doubt: InDoubt) -> None:
        self._outside = outside
        self._at = {part: positions.get(part, 0) for part in PARTS}
        # What it keeps there names the number of events, so that it can be compared.
        assert in_doubt == self._kept() or not positions

    def take(self, _seconds: float) -> TakenEvents | None:
        self._outside.act("take")
        for part, length in zip(PARTS, self._outside.lengths, strict=True):
            if (at := self._at[part]) < length:
                end = min(length, at + 3)
                self._at[part] = end
                events = pa.record_batch({"part": [part] * (end - at), "n": pa.array(range(at, end), pa.int64())})
                return TakenEvents(
                    events=events, unfit=self._outside.unfit, positions={part: end}, in_doubt=self._kept(), is_full=True
                )
        return None

    def spooled(self) -> None:
        self._outside.act("spooled")
        self._outside.let_go.append(dict(self._at))

    def close(self, *, for_good: bool) -> None:
        self._outside.act("close")
        self._outside.closed.append(for_good)

    def _kept(self) -> InDoubt:
        taken = sum(self._at.values())
        return InDoubt(session=str(taken)) if taken else NOTHING_IN_DOUBT


def spooled(folder: Path) -> dict[str, list[int]]:
    """The events of each part that are in the spool, in their order."""
    events: dict[str, list[int]] = {part: [] for part in PARTS}
    for _, item in read(folder, 0, 10**9):
        for event in unpacked(item.payload).to_pylist():
            events[event["part"]].append(event["n"])
    return events


@contextmanager
def running(run: ConnectorRun) -> Iterator[Callable[..., None]]:
    """A run in a thread; calling what it gives stops it."""
    thread = threading.Thread(target=run.run)
    thread.start()

    def stop(*, for_good: bool = False) -> None:
        run.stop(for_good=for_good)
        thread.join()

    try:
        yield stop
    finally:
        stop()


def nobody(_unfit: Unfit) -> None: ...


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_events_and_positions_agree_whenever_it_dies(
    tmp_path_factory: pytest.TempPathFactory, deaths: Sequence[int], lengths: tuple[int, int]
) -> None:
    """No event is in the spool twice or missing, and nothing was let go of that is not there."""
    folder = tmp_path_factory.mktemp("spool")
    outside = Outside(lengths)
    there: dict[str, list[int]] = {}
    for after in [*deaths, None]:
        left = iter(range(after)) if after is not None else None

        def step(_name: str, left: Iterator[int] | None = left) -> None:
            if left is not None and next(left, None) is None:
                raise Killed

        outside.step = step
        run = None
        try:
            spool = Spool(folder, most_bytes=10**6, step=step)
            try:
                run = ConnectorRun(outside.connect, spool, on_unfit=nobody, clock=MemoryClock())
                outside.step = _stopping_at_end(outside, run, step)
                run.run()
            finally:
                spool.close()
        except Killed:
            pass
        there = spooled(folder)
        for at in outside.let_go:
            assert all(at[part] <= len(there[part]) for part in PARTS)
        for part in PARTS:
            assert list(range(len(there[part]))) == there[part]
    assert dict(zip(PARTS, lengths, strict=True)) == {part: len(events) for part, events in there.items()}


def _stopping_at_end(outside: Outside, run: ConnectorRun, step: Steps) -> Steps:
    """Steps that stop a run once it finds that nothing more comes."""
    takes = iter(range(sum(outside.lengths) + 1))

    def counted(name: str) -> None:
        step(name)
        if name == "take" and next(takes, None) is None:
            run.stop()

    return counted


def test_what_does_not_fit_is_reported(tmp_path: Path) -> None:
    """Each time with the events beside it."""
    outside, reported = Outside((2, 0)), list[Unfit]()
    outside.unfit = (Unfit(event="x", reason="no number"),)
    spool = Spool(tmp_path, most_bytes=10**6)
    with running(ConnectorRun(outside.connect, spool, on_unfit=reported.append)):
        until(lambda: spool.end == 2)
    assert [*outside.unfit] == reported
    spool.close()


def test_nothing_is_taken_while_the_spool_is_full(tmp_path: Path) -> None:
    """Not even an event more; it goes on once a consumer has read."""
    outside = Outside((300, 0))
    spool = Spool(tmp_path, most_bytes=5_000)
    commit(tmp_path, "reader", 0)
    with running(ConnectorRun(outside.connect, spool, on_unfit=nobody)):
        until(lambda: spool.state == "full")
        there = spool.end
        taken = len(outside.let_go)
        threading.Event().wait(0.1)
        assert (there, taken) == (spool.end, len(outside.let_go))
        assert 0 < there < 300
        while spool.end < 300:
            commit(tmp_path, "reader", spool.end)
            threading.Event().wait(0.01)
    spool.close()


def test_after_trouble_it_connects_anew_from_the_positions_in_the_spool(tmp_path: Path) -> None:
    """The link says since when it is connected, and the last reason why it was not; no other error ends the run."""
    outside, clock = Outside((3, 0)), MemoryClock(100.0)
    spool = Spool(tmp_path, most_bytes=10**6)
    outside.trouble = ConnectorTrouble("the password is wrong")
    run = ConnectorRun(outside.connect, spool, on_unfit=nobody, clock=clock)
    assert (LinkState(since=100.0), False) == (run.link, run.has_begun)
    with running(run):
        until(lambda: spool.end == 3)
        assert LinkState(connected=True, since=100.0, error="the password is wrong", error_at=100.0) == run.link
        clock.advance(5.0)
        outside.trouble = ZeroDivisionError("a bug")
        until(lambda: outside.made == 2)
        until(lambda: run.link.connected)
        assert LinkState(connected=True, since=105.0, error="ZeroDivisionError: a bug", error_at=105.0) == run.link
        outside.lengths = [5, 1]
        until(lambda: spool.end == 6)
    assert {"a": [0, 1, 2, 3, 4], "b": [0]} == spooled(tmp_path)
    assert run.has_begun
    spool.close()


def test_waits_between_attempts_grow_until_something_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection alone does not count: what is taken may be what fails."""
    waits: list[int] = []

    class Noted(BackOff):
        def after(self, failures: int) -> float:
            waits.append(failures)
            return 0.0

    monkeypatch.setattr(connector_run, "_BACK_OFF", Noted((0.0,)))
    outside = Outside()
    spool = Spool(tmp_path, most_bytes=10**6)
    with running(ConnectorRun(outside.connect, spool, on_unfit=nobody)):
        for number in range(1, 4):
            outside.trouble = ConnectorTrouble("not now")
            until(lambda: len(waits) == number)  # noqa: B023 - it is called at once
        outside.lengths = [1, 0]
        until(lambda: spool.end == 1)
        until(lambda: bool(outside.let_go))
        outside.trouble = ConnectorTrouble("not now")
        until(lambda: len(waits) == 4)
    assert [1, 2, 3, 1] == waits
    spool.close()


def test_full_groups_follow_one_another_sooner_and_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that gets no more before it has let go of a group does not wait for the pace each time."""
    monkeypatch.setattr(connector_run, "_GROUPING", 8.0)
    spool = Spool(tmp_path, most_bytes=10**6)
    run = ConnectorRun(Outside((9, 0)).connect, spool, on_unfit=nobody)
    client = Outside((9, 0)).connect({}, NOTHING_IN_DOUBT)
    assert [4.0, 2.0, 1.0, 0.0] == [run._step(client) for _ in range(4)]
    spool.close()


def test_who_stops_for_good_begins_anew_later(tmp_path: Path) -> None:
    """The client is told, and positions are forgotten; those who only stop go on where they were."""
    outside = Outside((2, 0))
    spool = Spool(tmp_path, most_bytes=10**6)
    run = ConnectorRun(outside.connect, spool, on_unfit=nobody)
    for for_good in (False, True):
        run = ConnectorRun(outside.connect, spool, on_unfit=nobody)
        with running(run) as stop:
            until(lambda: spool.end == 2)
            until(lambda: run.link.connected)  # noqa: B023 - it is called at once
            stop(for_good=for_good)
        assert (for_good, [False, True][: 1 + for_good]) == (run.leaves, outside.closed)
    run.forget()
    assert {} == spool.producers
    assert not run.has_begun
    with running(ConnectorRun(outside.connect, spool, on_unfit=nobody)):
        until(lambda: spool.end == 4)
    assert [0, 1, 0, 1] == spooled(tmp_path)["a"]
    spool.close()


def test_who_is_not_connected_when_it_stops_for_good_connects_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing is kept for it outside; if that fails, or it was never connected, it stops all the same."""
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff((60.0,)))
    outside = Outside((2, 0))
    spool = Spool(tmp_path, most_bytes=10**6)
    run = ConnectorRun(outside.connect, spool, on_unfit=nobody)
    outside.trouble = ConnectorTrouble("it was never there")
    with running(run) as stop:
        until(lambda: bool(run.link.error))
        stop(for_good=True)
    assert [] == outside.closed
    cases: list[tuple[list[str], list[bool]]] = [([], [False, True]), (["still gone"], [False, True, False])]
    for later, closed in cases:
        run = ConnectorRun(outside.connect, spool, on_unfit=nobody)
        with running(run) as stop:
            until(lambda: run.has_begun and run.link.connected)  # noqa: B023 - it is called at once
            outside.trouble = ConnectorTrouble("gone")
            until(lambda: bool(run.link.error))  # noqa: B023 - as above
            for trouble in later:
                outside.trouble = ConnectorTrouble(trouble)
            stop(for_good=True)
        assert closed == outside.closed
    spool.close()
