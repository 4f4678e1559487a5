"""Files and folders that only their owner may read, whatever the process's mask would leave them."""

import os
import stat
from pathlib import Path

_FOR_OTHERS = 0o077


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner only, and those above it as usual; one that is there stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Make an empty file for its owner only; one that is there is closed to all others."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        # Not by opening it: to close it again would take SQLite's locks from this process.
        if is_open_to_others(path):
            path.chmod(0o600)
        return
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def is_open_to_others(path: Path) -> bool:
    """Whether somebody besides its owner may read or enter."""
    return bool(stat.S_IMODE(path.stat().st_mode) & _FOR_OTHERS)
