"""Crashes at any step of writing or pruning records."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.files import clear_unfinished
from engine.offset import Offset
from engine.records.record import Record
from engine.records.store import RecordStore

STEPS = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
AFTER_LINK = {"unlink", "sync folder", "done"}
WORKER = """
import os, signal, sys
from pathlib import Path
from engine.offset import Offset
from engine.records.record import Record
from engine.records.store import RecordStore

name, nth = sys.argv[2], int(sys.argv[3])

def step(done):
    global nth
    if done == name:
        nth -= 1
        if nth == 0:
            os.kill(os.getpid(), signal.SIGKILL)

store = RecordStore(Path(sys.argv[1]), step=step)
if name == "remove":
    store.prune(int(sys.argv[4]))
else:
    batch = int(sys.argv[4])
    state = store.state(batch)
    state.of(1).put(("a",), batch)
    store.write(state.settle(Record(batch=batch, start=Offset(), end=Offset(), changes=state.changes())))
"""


def die(folder: Path, step: str, nth: int, batch: int) -> None:
    command = [sys.executable, "-c", WORKER, str(folder), step, str(nth), str(batch)]
    worker = subprocess.run(command, check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == worker.returncode


def work_off(store: RecordStore, value: int) -> bool:
    batch = store.batches().stop
    state = store.state(batch)
    state.of(1).put(("a",), value)
    return store.write(state.settle(Record(batch=batch, start=Offset(), end=Offset(), changes=state.changes())))


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_worker_leaves_a_whole_record_or_none(tmp_path: Path, step: str) -> None:
    """And the next worker continues from there."""
    store = RecordStore(tmp_path)
    assert work_off(store, 0)
    die(tmp_path, step, 1, 1)
    found = store.find(1)
    assert (step in AFTER_LINK) == (found is not None)
    if found is None:
        state = store.state(1)
        state.of(1).put(("a",), 1)
        assert store.write(state.settle(Record(batch=1, start=Offset(), end=Offset(), changes=state.changes())))
    clear_unfinished(tmp_path)
    assert [] == list((tmp_path / "tmp").iterdir())
    assert 1 == store.state(2).of(1).get(("a",))
    assert work_off(store, 2)
    assert 2 == store.state(3).of(1).get(("a",))


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_killed_prune_leaves_no_gap(tmp_path: Path, nth: int) -> None:
    """The newest records stay complete, and the next prune removes the rest."""
    store = RecordStore(tmp_path)
    for value in range(6):
        assert work_off(store, value)
    die(tmp_path, "remove", nth, 5)
    assert list(range(nth - 1, 6)) == sorted(int(path.name) for path in tmp_path.iterdir() if path.name.isdigit())
    assert 5 == store.state(6).of(1).get(("a",))
    store.prune(5)
    assert range(5, 6) == store.batches()
    assert 5 == store.state(6).of(1).get(("a",))


def test_a_worker_whose_disk_is_full_leaves_no_record(tmp_path: Path) -> None:
    """The error is reported, nothing of the record stays, and the batch can be repeated."""
    full = True

    def step(name: str) -> None:
        if name == "sync" and full:
            raise OSError(28, "No space left on device")

    store = RecordStore(tmp_path, step=step)
    with pytest.raises(OSError, match="No space left on device"):
        work_off(store, 0)
    assert (None, []) == (store.find(0), list((tmp_path / "tmp").iterdir()))
    full = False
    assert work_off(store, 0)


def test_an_orphaned_worker_changes_nothing(tmp_path: Path) -> None:
    """A worker that was thought dead finds the existing record, which counts."""
    store = RecordStore(tmp_path)
    assert work_off(store, 0)
    orphan = store.state(1)
    orphan.of(1).put(("a",), "orphan")
    late = orphan.settle(Record(batch=1, start=Offset(), end=Offset(), changes=orphan.changes()))
    assert work_off(store, 1)
    assert not store.write(late)
    assert 1 == store.state(2).of(1).get(("a",))
