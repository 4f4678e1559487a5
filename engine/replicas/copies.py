"""Copies: what a host asks of the copies of its files, before anybody outside may notice what is in them.

A message is acknowledged, a record published, a plan or a run acted upon only once the files behind it are at all peers
that count. So a machine that has a copy can go on from it. A host without peers waits for nothing.
"""

from pathlib import Path
from typing import Protocol


class CopiesEnded(RuntimeError):
    """An end to keeping copies: the host is carried by another machine by now, or is being stopped."""


class Copies(Protocol):
    """The copies of one host's files; from any thread."""

    def settle(self, *folders: Path) -> None:
        """Wait until all finished files in these folders, or in all, are at the peers; raises CopiesEnded."""

    def ship(self, folder: Path) -> None:
        """Ask that the files in a folder be sent soon."""

    def has(self, path: Path) -> bool:
        """Whether a file is at the peers."""


class _NoCopies:
    """What there is of copies where a host has no peers."""

    def settle(self, *_folders: Path) -> None:
        """There is nothing to wait for."""

    def ship(self, _folder: Path) -> None:
        """There is nothing to send."""

    def has(self, _path: Path) -> bool:
        """Nobody waits for anything."""
        return True


NO_COPIES: Copies = _NoCopies()
"""The copies of a host without peers."""
