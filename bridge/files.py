"""Files and folders that last: written whole, private to their owner, on a disk with room, and leased.

A file that is written here is complete or absent, even after a power failure. A private file or folder can be read by
its owner only, whatever the mask of the process is. Some disk space is spared for the records and other files of a
machine's own hosts. And only the holder of a folder's lease writes in that folder.
"""

import fcntl
import os
import shutil
import stat
import struct
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self
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


_FOR_OTHERS = 0o077


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner only, and its parents as usual. An existing folder stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Make an empty file for its owner only. An existing file is closed to all others."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        # Without opening it: closing it again would drop this process's SQLite locks.
        if is_open_to_others(path):
            path.chmod(0o600)
        return
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def is_open_to_others(path: Path) -> bool:
    """True if anyone but the owner may read or enter."""
    return bool(stat.S_IMODE(path.stat().st_mode) & _FOR_OTHERS)


_SPARE = 2**30
"""The bytes that stay free."""
_PART = 20
"""On a small disk, one part in this many stays free."""


class DiskSpace(NamedTuple):
    """The bytes that are free on a disk, and those that are to stay so."""

    free: int
    spare: int

    @classmethod
    def of(cls, folder: Path) -> "DiskSpace":
        """That of the disk of an existing folder."""
        usage = shutil.disk_usage(folder)
        return cls(free=usage.free, spare=min(_SPARE, usage.total // _PART))


_BYTE_DIGEST = 7
"""Bytes of a digest that are a position in a file."""
_LOCK = "hhqqi0q"
"""The kernel's record of a lock: its kind, from where it counts, its first byte, its length, and an unused number."""


class LeaseTaken(RuntimeError):
    """A lease that another living process holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} belongs to a process that still runs; stop it first, or use another folder")
        self.folder = folder


class _Held:
    """A right that is held until it is released."""

    def release(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


class Lease(_Held):
    """The exclusive right to a folder. The kernel releases it when its holder dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        # Not inherited, so that a child that outlives its parent does not keep it.
        self._file: int | None = os.open(folder / "lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise LeaseTaken(folder) from None

    def release(self) -> None:
        """Release the lease; idempotent."""
        if self._file is not None:
            # Closing alone would leave the lease with a child that is just being started.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None


class RowLease(_Held):
    """The exclusive right to one of many folders in a row, such as spools: they share a file, and so a descriptor.

    Each folder has a byte of the file, by a digest of its name, which the kernel locks and releases as above.
    """

    _files: dict[Path, tuple[int, set[int]]] = {}  # noqa: RUF012 - all leases of the process share them
    """For each file that is open its descriptor and the bytes that are held."""
    _guard = threading.Lock()

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._path = folder.resolve().parent / ".leases"
        self._byte = int.from_bytes(sha256(folder.name.encode()).digest()[:_BYTE_DIGEST])
        self._is_held = True
        with self._guard:
            if self._path not in self._files:
                self._files[self._path] = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), set()
            file, held = self._files[self._path]
            # For the kernel the process holds what any of its leases holds.
            if self._byte in held or not _lock(file, self._byte, fcntl.F_WRLCK):
                self._close_unused()
                raise LeaseTaken(folder)
            held.add(self._byte)

    def release(self) -> None:
        """Release the lease; idempotent."""
        with self._guard:
            if self._is_held:
                self._is_held = False
                file, held = self._files[self._path]
                held.discard(self._byte)
                _lock(file, self._byte, fcntl.F_UNLCK)
                self._close_unused()

    def _close_unused(self) -> None:
        file, held = self._files[self._path]
        if not held:
            os.close(file)
            del self._files[self._path]


def _lock(file: int, byte: int, kind: int) -> bool:
    """Lock or unlock a byte, for all who share this descriptor; returns whether it could be."""
    try:
        # Not POSIX's own locks: those would be gone once any part of the process had closed the same file.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_LOCK, kind, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True
