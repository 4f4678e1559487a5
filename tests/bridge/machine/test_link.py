"""Files that the first writer wins."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest

from bridge.files import clear_unfinished, link_whole

STEPS = ["open", "write", "sync", "link", "unlink", "sync folder", "done"]
AFTER_LINK = {"unlink", "sync folder", "done"}
OLD, NEW = b"old " * 5_000, b"newer " * 5_000
WRITER = """
import os, signal, sys
from pathlib import Path
from bridge.files import link_whole

def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

link_whole(Path(sys.argv[1]), b"newer " * 5_000, step)
"""


def _meet(barrier: Barrier) -> None:
    barrier.wait(timeout=30)


def test_every_step_is_announced_in_order(tmp_path: Path) -> None:
    """A write announces each step once, before it is done."""
    announced: list[tuple[str, bool]] = []
    path = tmp_path / "file"
    assert link_whole(path, NEW, lambda name: announced.append((name, path.exists())))
    assert [(name, name in AFTER_LINK) for name in STEPS] == announced
    assert NEW == path.read_bytes()


def test_the_first_writer_wins(tmp_path: Path) -> None:
    """An existing file stays as it is; the second writer gets False, and leaves nothing behind."""
    path = tmp_path / "file"
    assert [True, False] == [link_whole(path, OLD), link_whole(path, NEW)]
    assert (OLD, []) == (path.read_bytes(), list(tmp_path.glob("tmp/*")))


def test_one_of_many_writers_wins(tmp_path: Path) -> None:
    """However many write at the same moment, one gets True, and its content is there."""
    for attempt in range(20):
        path = tmp_path / str(attempt)
        barrier, won = Barrier(4), list[bytes]()

        def write(content: bytes, path: Path = path, barrier: Barrier = barrier, won: list[bytes] = won) -> None:
            if link_whole(path, content, lambda name: _meet(barrier) if name == "link" else None):
                won.append(content)

        writers = [Thread(target=write, args=(bytes([number]) * 10_000,)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [path.read_bytes()] == won


@pytest.mark.parametrize("before", [None, OLD], ids=["first", "second"])
@pytest.mark.parametrize("name", STEPS)
def test_a_killed_write_leaves_all_or_nothing(tmp_path: Path, name: str, before: bytes | None) -> None:
    """A process that dies at any step leaves the existing file, or else nothing or all of its own."""
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    writer = subprocess.run([sys.executable, "-c", WRITER, str(path), name], check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == writer.returncode
    expected = before or (NEW if name in AFTER_LINK else None)
    assert expected == (path.read_bytes() if path.exists() else None)
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.glob("tmp/*"))
    assert expected == (path.read_bytes() if path.exists() else None)


@pytest.mark.parametrize("failing", ["write", "sync", "link"])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, failing: str) -> None:
    """An error of a full disk is raised, and no incomplete file keeps the disk full."""

    def full(name: str) -> None:
        if name == failing:
            raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left on device"):
        link_whole(tmp_path / "file", NEW, full)
    assert ["tmp"] == [path.name for path in tmp_path.iterdir()]
    assert [] == list(tmp_path.glob("tmp/*"))
