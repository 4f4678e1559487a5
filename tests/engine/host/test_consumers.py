"""Consumers: the cleanup after stopped jobs, and slow readers that hold up others."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Item, Lease, Spool, SpoolIndex, commit, leave
from engine.host import consumers
from engine.host.consumers import HELD_UP, KEEPING, SlowReaders, holding_up, sweep
from engine.job.health import JobHealth
from engine.records.job_folder import JobFolder, KeptCut, job_folder, spool_folder
from tests.engine.host.test_spools import filled

NOW = 2_000_000_000.0
LONG, SHORT = KEEPING + 1, KEEPING - 1


def back(path: Path, ago: float) -> None:
    os.utime(path, (NOW - ago, NOW - ago))


def stopped(root: Path, name: str, ago: float) -> JobFolder:
    """The folder of a job that was stopped the given time ago."""
    folder = job_folder(root, name)
    folder.make()
    folder.mark_stopped()
    back(folder.path / "stopped", ago)
    return folder


def unread(root: Path, stream: str, ago: float) -> Path:
    """A spool with events whose last reader left it the given time ago."""
    filled(root, stream, 3)
    folder = spool_folder(root, stream)
    commit(folder, "a", 1)
    leave(folder, "a")
    back(folder / "consumers", ago)
    return folder


def jobs(root: Path) -> set[str]:
    return {path.name for path in (root / "jobs").iterdir()}


def left_over(root: Path) -> list[Path]:
    return list((root / "hosts").rglob("*"))


def test_a_job_that_was_stopped_long_ago_leaves_no_folder(tmp_path: Path) -> None:
    """Nothing is left of it elsewhere either; a job that was stopped recently stays."""
    stopped(tmp_path, "old/one", LONG)
    stopped(tmp_path, "new", SHORT)
    sweep(tmp_path, "h", stay=(), now=NOW)
    assert {"new"} == jobs(tmp_path)
    assert [tmp_path / "hosts" / "h"] == left_over(tmp_path)


def runs(folder: JobFolder) -> None:
    folder.mark_running()


def keeps_a_cut(folder: JobFolder) -> None:
    folder.cuts.keep(KeptCut("c", 3, (1,), {"raw": 5}))


@pytest.mark.parametrize("tell", [runs, keeps_a_cut])
def test_a_job_that_is_still_needed_stays(tmp_path: Path, tell: Callable[[JobFolder], None]) -> None:
    """A job stays if it was started again, or if another job is to take over its states."""
    tell(stopped(tmp_path, "a", LONG))
    sweep(tmp_path, "h", stay=(), now=NOW)
    assert {"a"} == jobs(tmp_path)


def test_a_job_that_is_leased_or_named_stays(tmp_path: Path) -> None:
    """Another host may be about to start it; otherwise it goes."""
    folder = stopped(tmp_path, "held", LONG)
    stopped(tmp_path, "named", LONG)
    with Lease(folder.path):
        sweep(tmp_path, "h", stay={"named"}, now=NOW)
        assert {"held", "named"} == jobs(tmp_path)
    sweep(tmp_path, "h", stay=(), now=NOW)
    assert set() == jobs(tmp_path)


def test_an_unread_spool_loses_its_events_and_keeps_its_positions(tmp_path: Path) -> None:
    """No position ever names two events; a spool that was left recently keeps its events."""
    folder = unread(tmp_path, "raw", SHORT)
    for ago, first in ((SHORT, 0), (LONG, 3)):
        back(folder / "consumers", ago)
        sweep(tmp_path, "h", stay=(), now=NOW)
        reader = SpoolIndex(folder)
        assert (first, 3) == (reader.first, reader.end)
    spool = Spool(folder, most_bytes=1_000)
    assert 3 == spool.append([Item(count=1, stamp=0, payload=b"x")])
    spool.close()


def test_a_spool_that_is_filled_or_read_or_was_never_read_is_left_alone(tmp_path: Path) -> None:
    """Its owner may know of a reader to come."""
    held, never = unread(tmp_path, "held", LONG), spool_folder(tmp_path, "never")
    filled(tmp_path, "never", 2)
    read = unread(tmp_path, "read", LONG)
    commit(read, "b", 2)
    back(read / "consumers", LONG)
    with closing(Spool(held, most_bytes=1)):
        sweep(tmp_path, "h", stay=(), now=NOW)
    assert [0, 0, 0] == [SpoolIndex(each).first for each in (held, never, read)]


def test_an_interrupted_sweep_is_completed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ever finds half of a job, even if a job of that name was started again meanwhile."""

    def dies(path: Path) -> None:
        if path.exists():
            raise KeyboardInterrupt

    stopped(tmp_path, "a", LONG)
    with monkeypatch.context() as patched:
        patched.setattr(consumers, "_remove", dies)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path, "h", stay=(), now=NOW)
    assert set() == jobs(tmp_path)
    stopped(tmp_path, "a", LONG)
    sweep(tmp_path, "h", stay=(), now=NOW)
    assert set() == jobs(tmp_path)
    assert [tmp_path / "hosts" / "h"] == left_over(tmp_path)


def test_a_folder_that_cannot_be_removed_is_logged_and_hurts_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged folder stays until it is mended or removed by hand."""
    for stream in ("a", "b"):
        unread(tmp_path, stream, LONG)
    (tmp_path / "spools" / "a" / "high-water").write_bytes(b"torn")
    sweep(tmp_path, "h", stay=(), now=NOW)
    assert [0, 3] == [SpoolIndex(spool_folder(tmp_path, stream)).first for stream in ("a", "b")]
    assert f"{tmp_path / 'spools' / 'a'} is left over" in caplog.text


def test_beats_do_not_wait_for_a_sweep_of_thousands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sweep removes the rest."""
    monkeypatch.setattr(consumers, "_MOST", 2)
    for name in "abc":
        stopped(tmp_path, name, LONG)
    for left in ({"c"}, set[str]()):
        sweep(tmp_path, "h", stay=(), now=NOW)
        assert left == jobs(tmp_path)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100)))
def test_only_a_reader_far_behind_all_others_holds_a_stream_up(positions: Mapping[str, int]) -> None:
    """At most one is, and all others would lag less than half as far."""
    found = holding_up(100, positions)
    others = [100 - at for name, at in positions.items() if name != found]
    if found is not None:
        assert others
        assert 100 - positions[found] > 2 * max(others)
    elif len(positions) > 1:
        first, second, *_ = sorted((100 - at for at in positions.values()), reverse=True)
        assert first <= 2 * second


class Stopped(JobHealth):
    """A job whose costliest task was failed, or was not."""

    def __init__(self) -> None:
        super().__init__(None)
        self.streams: list[str] = []

    def stop_costliest(self, stream: str, now: float) -> None:  # noqa: ARG002 - the signature of what it stands for
        self.streams.append(stream)


def test_it_is_stopped_once_it_has_held_the_stream_up_for_a_while() -> None:
    """By its name; a full spool that soon has room again stops nobody."""
    positions, full = {"slow": 5, "quick": 99}, {"street": 100}
    readers = SlowReaders(lambda: full, lambda _stream: positions)
    slow, quick = Stopped(), Stopped()

    def beat(at: float) -> None:
        readers.stop({"slow": slow, "quick": quick}, at)

    beat(0.0)
    full.clear()
    beat(1.0)
    full["street"] = 100
    beat(2.0)
    beat(1.0 + HELD_UP)
    assert ([], []) == (slow.streams, quick.streams)
    beat(2.0 + HELD_UP)
    assert (["street"], []) == (slow.streams, quick.streams)
    beat(3.0 + HELD_UP)
    assert 1 == len(slow.streams)
