"""Leases: only the holder of a folder's lease writes in the folder."""

import fcntl
import os
import struct
import threading
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.machine.files import make_folder

_BYTE_DIGEST = 7
"""Bytes of a digest that are a position in a file."""
_LOCK = "hhqqi0q"
"""The kernel's record of a lock: its kind, from where it counts, its first byte, its length, and an unused number."""


class LeaseTaken(RuntimeError):
    """A lease that another living process holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} belongs to a process that still runs; stop it first, or use another folder")
        self.folder = folder


class _Held(ABC):
    """A right that is held until it is released."""

    @abstractmethod
    def release(self) -> None:
        """Release it; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
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
