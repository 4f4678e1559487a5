"""The disk space that is spared for the records and other files of a machine's own hosts."""

import shutil
from pathlib import Path
from typing import NamedTuple

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
