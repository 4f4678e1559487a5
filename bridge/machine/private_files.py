"""Files and folders that only their owner may read, regardless of the process's mask."""

import os
import stat
from pathlib import Path

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
