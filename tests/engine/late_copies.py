"""Copies that are made only when a test lets them be."""

from pathlib import Path

from engine.replicas.copies import CopiesEnded


class LateCopies:
    """The copies of a host's files; notes what was waited for."""

    def __init__(self) -> None:
        self.there = set[Path]()
        self.waited: list[tuple[Path, ...]] = []
        self.ended = False

    def settle(self, *folders: Path) -> None:
        """Note it."""
        if self.ended:
            raise CopiesEnded("another machine carries this host")
        self.waited.append(folders)

    def ship(self, folder: Path) -> None:
        """Nobody asks in these tests."""
        raise NotImplementedError

    def has(self, path: Path) -> bool:
        """Whether it was let be there."""
        return path in self.there
