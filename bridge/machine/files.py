"""Files that are complete or absent, even after a power failure."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

Steps = Callable[[str], None]
"""Called with the name of each step before the step; tests crash there."""


def no_steps(_name: str) -> None:
    """Do nothing."""


def write_whole(path: Path, content: bytes, step: Steps = no_steps, *, mode: int | None = None) -> None:
    """Write a file durably, so that readers see all of it or none.

    The temporary file is in a folder of its own, so that listing the file's folder shows complete files only. With a
    mode, neither file ever has more permissions than that; else they are the usual ones of the process.
    """
    # Strings rather than paths: making and splitting a path for each call is a tenth of the time of a write.
    folder = str(path.parent)
    temporary = _unfinished(folder, path.name)
    try:
        _write(temporary, content, step, mode)
        step("rename")
        os.replace(temporary, path)  # noqa: PTH105 - as above
    except OSError:
        # An incomplete file would keep a full disk full.
        Path(temporary).unlink(missing_ok=True)
        raise
    step("sync folder")
    sync_folder(folder)
    step("done")


def link_whole(path: Path, content: bytes, step: Steps = no_steps, *, mode: int | None = None) -> bool:
    """Write a file so that the first writer wins; returns False if the file existed.

    In both cases the file is durable once this returns. Writers may run at once, so each has its own temporary file.
    `mode` is as for `write_whole`.
    """
    folder = str(path.parent)
    temporary = _unfinished(folder, f"{path.name}.{uuid4().hex}")
    try:
        _write(temporary, content, step, mode)
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
    """The path of a file until it is complete."""
    return f"{folder}/tmp/{name}"  # noqa: S108 - not the system's folder of that name


def _write(temporary: str, content: bytes, step: Steps, mode: int | None = None) -> None:
    step("open")
    try:
        handle = _opened(temporary, mode)
    except FileNotFoundError:
        # The first file in its folder. Checking before each write would cost more.
        Path(temporary).parent.mkdir(exist_ok=True)
        handle = _opened(temporary, mode)
    # With system calls, because the layers above them make several more before they write.
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
    """Open an empty file for writing; returns its handle."""
    fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    if mode is None:
        return os.open(temporary, fresh, 0o666)
    # A file left by a crash may have more permissions.
    Path(temporary).unlink(missing_ok=True)
    handle = os.open(temporary, fresh | os.O_EXCL, mode)
    # Regardless of the process's mask.
    os.fchmod(handle, mode)
    return handle


def make_folder(folder: Path) -> None:
    """Make a folder and its parents durably."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def clear_unfinished(folder: Path) -> None:
    """Remove the incomplete files that a crash left."""
    for temporary in (folder / "tmp").glob("*"):
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path | str) -> None:
    """Make the creation, renaming and removal of files in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
