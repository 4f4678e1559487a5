"""The room for copies of other machines' hosts on a disk.

A machine whose disk fills up first says so, and the leading manager has its copies kept elsewhere. Meanwhile it still
takes what changes, until only what its own hosts need is left.
"""

import errno
from pathlib import Path

from bridge.files import DiskSpace

_LEAVING = 2
"""How many times the spared bytes have to be free for a machine to be a good place for copies."""


class CopyRoom:
    """The room on the disk of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shortage(self) -> str:
        """Why copies should rather be kept elsewhere; empty if there is room."""
        space = DiskSpace.of(self._folder)
        return _words(space, space.spare * _LEAVING) if space.free < space.spare * _LEAVING else ""

    def check(self) -> None:
        """Raise OSError if nothing more may be taken."""
        space = DiskSpace.of(self._folder)
        if space.free < space.spare:
            raise OSError(errno.ENOSPC, _words(space, space.spare))


def _words(space: DiskSpace, wanted: int) -> str:
    return f"{space.free / 1e9:.1f} GB of its disk are free, and copies leave {wanted / 1e9:.1f}; make room there"
