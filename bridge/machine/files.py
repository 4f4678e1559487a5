"""Files that are there whole or not at all, also after the power went."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

Steps = Callable[[str], None]
"""Told the name of each step before it is done; tests use it to die there."""


def no_steps(_name: str) -> None:
    """Nobody is told."""


def write_whole(path: Path, content: bytes, step: Steps = no_steps, *, mode: int | None = None) -> None:
    """Write a file so that readers see all of it or none, and so that it stays.

    The temporary file lies in a folder of its own, so that whoever watches the file's folder sees finished files only.
    Given a mode, neither of the two is ever open to more than that; else it is as usual for the process.
    """
    # Texts rather than paths: to make and to take apart a path for each call is a tenth of all that a write takes.
    folder = str(path.parent)
    temporary = _unfinished(folder, path.name)
    try:
        _write(temporary, content, step, mode)
        step("rename")
        os.replace(temporary, path)  # noqa: PTH105 - as above
    except OSError:
        # Half a file would keep a full disk full.
        Path(temporary).unlink(missing_ok=True)
        raise
    step("sync folder")
    sync_folder(folder)
    step("done")


def link_whole(path: Path, content: bytes, step: Steps = no_steps) -> bool:
    """Write a file so that the first writer wins; False where the file was there.

    Either way the file stays once this returns. Several may try at once, so each has a temporary file of its own.
    """
    folder = str(path.parent)
    temporary = _unfinished(folder, f"{path.name}.{uuid4().hex}")
    try:
        _write(temporary, content, step)
        step("link")
        try:
            path.hardlink_to(temporary)
            first = True
        except FileExistsError:
            first = False
        step("unlink")
    finally:
        Path(temporary).unlink(missing_ok=True)
    step("sync folder")
    sync_folder(folder)
    step("done")
    return first


def _unfinished(folder: str, name: str) -> str:
    """Where a file lies until it is whole."""
    return f"{folder}/tmp/{name}"  # noqa: S108 - not the folder of that name that is everybody's


def _write(temporary: str, content: bytes, step: Steps, mode: int | None = None) -> None:
    step("open")
    try:
        handle = _opened(temporary, mode)
    except FileNotFoundError:
        # The first one in its folder. To look each time costs more.
        Path(temporary).parent.mkdir(exist_ok=True)
        handle = _opened(temporary, mode)
    # By the system's own calls: the layers above them ask it much about a file before they write.
    try:
        step("write")
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        step("sync")
        os.fsync(handle)
    finally:
        os.close(handle)


def _opened(temporary: str, mode: int | None) -> int:
    """A file to write from its beginning, by its handle."""
    fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    if mode is None:
        return os.open(temporary, fresh, 0o666)
    # One that a crash left may be open to others.
    Path(temporary).unlink(missing_ok=True)
    handle = os.open(temporary, fresh | os.O_EXCL, mode)
    # Whatever the process takes away from the files that it makes.
    os.fchmod(handle, mode)
    return handle


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that it stays."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def clear_unfinished(folder: Path) -> None:
    """Remove what a crash left half written."""
    for temporary in (folder / "tmp").glob("*"):
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path | str) -> None:
    """Make what was created, renamed or removed in a folder stay."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
