"""Scratch: a folder to try things in, in the root or as near to it as there is a folder; it is gone afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there: the doctor makes nothing that stays."""
    folder = folder.absolute()
    return next(each for each in (folder, *folder.parents) if each.exists())


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder on the disk of this one."""
    with tempfile.TemporaryDirectory(prefix=".braid-doctor-", dir=existing(folder)) as made:
        yield Path(made)
