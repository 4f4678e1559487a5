"""Leases: only the holder of a folder's lease writes in the folder."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.machine.files import make_folder


class LeaseTaken(RuntimeError):
    """A lease that another living process holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} belongs to a process that still runs; stop it first, or use another folder")
        self.folder = folder


class Lease:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.release()
