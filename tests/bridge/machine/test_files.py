"""Files that are complete or absent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.files import clear_unfinished, make_folder, write_whole

STEPS = ["open", "write", "sync", "rename", "sync folder", "done"]
OLD, NEW = b"old " * 5_000, b"newer " * 5_000
WRITER = """
import os, signal, sys
from pathlib import Path
from bridge.files import write_whole

def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

write_whole(Path(sys.argv[1]), b"newer " * 5_000, step)
"""


def test_every_step_is_announced_in_order(tmp_path: Path) -> None:
    """A write announces each step once, before it is done."""
    announced: list[tuple[str, bool]] = []
    path = tmp_path / "file"
    write_whole(path, NEW, lambda name: announced.append((name, path.exists())))
    assert [(name, name in {"sync folder", "done"}) for name in STEPS] == announced
    assert NEW == path.read_bytes()


@pytest.mark.parametrize("before", [None, OLD], ids=["new", "replaced"])
@pytest.mark.parametrize("name", STEPS)
def test_a_killed_write_leaves_old_or_new(tmp_path: Path, name: str, before: bytes | None) -> None:
    """A process that dies at any step leaves the old content or all of the new, and clearing leaves nothing else."""
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    writer = subprocess.run([sys.executable, "-c", WRITER, str(path), name], check=False)  # noqa: S603 - our own script
    assert -signal.SIGKILL == writer.returncode
    finished = name in {"sync folder", "done"}
    assert (NEW if finished else before) == (path.read_bytes() if path.exists() else None)
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.glob("tmp/*"))
    assert (NEW if finished else before) == (path.read_bytes() if path.exists() else None)


def test_incomplete_files_are_never_among_complete_ones(tmp_path: Path) -> None:
    """Until its last byte is durable, a file is in a folder of its own."""
    seen: list[list[str]] = []
    write_whole(tmp_path / "file", NEW, lambda _: seen.append(sorted(path.name for path in tmp_path.iterdir())))
    assert [[], *[["tmp"]] * 3, *[["file", "tmp"]] * 2] == seen


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """An error of a full disk is raised, the old content stays, and no incomplete file keeps the disk full."""
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def full(name: str) -> None:
        if name == "sync":
            raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left on device"):
        write_whole(path, NEW, full)
    assert ([], OLD) == (list(tmp_path.glob("tmp/*")), path.read_bytes())


def test_a_file_is_complete_even_after_partial_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a partial write is written after it."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7_000]))
    write_whole(tmp_path / "file", NEW)
    assert NEW == (tmp_path / "file").read_bytes()


def test_clearing_a_folder_without_writes_does_nothing(tmp_path: Path) -> None:
    """A folder in which nothing was written has no incomplete files."""
    clear_unfinished(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    """A folder is made with its parents, and an existing one stays as it is."""
    folder = tmp_path / "a" / "b"
    make_folder(folder)
    (folder / "file").write_bytes(OLD)
    make_folder(folder)
    assert OLD == (folder / "file").read_bytes()
