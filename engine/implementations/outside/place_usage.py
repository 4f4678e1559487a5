"""The usage of places: how much a tenant's files take on this machine, and when that is enough."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dags import Place
from engine.side_effect import OutsideUnreachable

MOST_PLACE_BYTES = 10 * 1024**3
MOST_PLACE_FILES = 1_000_000
_COUNTED_EVERY = 30.0
_PART_OF_TIME = 0.02
"""With very many files, so much of the time goes into counting them."""


class PlaceUsage:
    """What the places of one tenant take. Counted anew now and then, since others write too, and operators remove."""

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = MOST_PLACE_BYTES,
        most_files: int = MOST_PLACE_FILES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._clock = clock
        self._bytes = self._files = 0
        self._again_at = float("-inf")

    def take(self, more: int, *, files: int = 1) -> None:
        """Count so many more bytes, of a new file. Raises `OutsideUnreachable` if there is no room for them."""
        if self._clock() >= self._again_at:
            self._count()
        if self._bytes + more > self._most_bytes or self._files + files > self._most_files:
            raise OutsideUnreachable(
                f"the places of this tenant hold {self._files:,} files with {self._bytes:,} bytes, and may hold "
                f"{self._most_files:,} with {self._most_bytes:,}; have an operator remove some"
            )
        self._bytes += more
        self._files += files

    def _count(self) -> None:
        begun = self._clock()
        sizes = list(_sizes(self._folder))
        self._bytes, self._files = sum(sizes), len(sizes)
        took = self._clock() - begun
        self._again_at = begun + max(_COUNTED_EVERY, took / _PART_OF_TIME)


_KNOWN: dict[Path, PlaceUsage] = {}


def usage_of(where: Place) -> PlaceUsage:
    """The usage of the tenant that a place belongs to, as this process knows it."""
    folder = Path(where.path).parents[where.place.count("/")]
    return _KNOWN.setdefault(folder, PlaceUsage(folder))


def _sizes(folder: Path) -> Iterator[int]:
    """The bytes of each file. What vanishes meanwhile does not count."""
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(path) / name).lstat().st_size
            except FileNotFoundError:
                continue
