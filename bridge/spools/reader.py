"""What lies in a spool, from a position on or between two. Anybody may read; nothing is locked."""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bridge.consumers import commit, consumers, leave
from bridge.spools.index import SpoolIndex, SpoolReach
from bridge.spools.log import LOG, Placed, PositionsGone, SpoolDamaged, log_files, read_mark
from bridge.spools.log_file import items_in


class SpoolReader(Protocol):
    """What a job needs of a spool that it reads; `FolderReader` has it, and `MemorySpool`."""

    @property
    def first(self) -> int:
        """The earliest position that can still be read, as of the last refresh."""

    @property
    def end(self) -> int:
        """The position after the last one, as of the last refresh."""

    def refresh(self) -> None:
        """See what was appended and removed meanwhile."""

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """How far a batch from a position on should go, as of the last refresh."""

    def marker_position(self, name: str) -> int | None:
        """The position after a marker, as of the last refresh; None where the log does not hold it."""

    def read(self, start: int, most_bytes: int) -> Iterator[Placed]:
        """What lies there from a position on: up to so many bytes, but one item at least where there is one."""

    def between(self, start: int, end: int) -> Iterator[Placed]:
        """Exactly what lies between two positions."""

    def commit(self, consumer: str, position: int) -> None:
        """Say that a consumer needs nothing before a position any more; the first time, it joins by that."""

    def leave(self, consumer: str) -> None:
        """Say that a consumer needs nothing any more."""

    def consumers(self) -> dict[str, int]:
        """Every consumer with how far it is."""


class FolderReader(SpoolIndex):
    """A spool's folder as its readers have it: its index, and the functions of this package on it."""

    def read(self, start: int, most_bytes: int) -> Iterator[Placed]:
        """As `read` does."""
        return read(self.folder, start, most_bytes)

    def between(self, start: int, end: int) -> Iterator[Placed]:
        """As `between` does."""
        return between(self.folder, start, end)

    def commit(self, consumer: str, position: int) -> None:
        """As `commit` does."""
        commit(self.folder, consumer, position)

    def leave(self, consumer: str) -> None:
        """As `leave` does."""
        leave(self.folder, consumer)

    def consumers(self) -> dict[str, int]:
        """As `consumers` does."""
        return consumers(self.folder)


def read(folder: Path, start: int, most_bytes: int) -> Iterator[Placed]:
    """What lies in a spool from a position on: up to so many bytes, but one item at least where there is one."""
    return within(_placed(folder, start), most_bytes)


def between(folder: Path, start: int, end: int) -> Iterator[Placed]:
    """Exactly what lies between two positions of a spool, for a batch that was planned and perhaps run before."""
    return up_to(_placed(folder, start), folder, start, end)


def position_since(folder: Path, first: int, stamp: int) -> int:
    """Where what was spooled from a moment on begins, in milliseconds, not before a position that is there."""
    files = log_files(folder / LOG, first)
    # The last item of a file is the youngest, so that few files are read of however many.
    at = bisect_left(files, stamp, key=lambda file: max(placed.item.stamp for placed in items_in(file)))
    if at == len(files):
        return files[-1].end if files else max(first, read_mark(folder).end)
    return max(first, next(placed.first for placed in items_in(files[at]) if placed.item.stamp >= stamp))


def within(placed: Iterator[Placed], most_bytes: int) -> Iterator[Placed]:
    """As much as fits into so many bytes, but one item at least where there is one."""
    left = most_bytes
    for each in placed:
        size = len(each.item.payload)
        if size > left and left < most_bytes:
            return
        left -= size
        yield each


def up_to(placed: Iterator[Placed], name: Path | str, start: int, end: int) -> Iterator[Placed]:
    """What lies before an end, which has to be there; `name` is the spool's, for the error."""
    if start >= end:
        return
    reached = start
    for each in placed:
        yield (found := each.until(end))
        reached = found.end
        if reached == end:
            return
    raise SpoolDamaged(
        f"the spool {name} ends at {reached}, but there was something up to {end}; restore what was lost"
    )


def _placed(folder: Path, start: int) -> Iterator[Placed]:
    """Every item from a position on, the first one without what lies before it."""
    position = start
    while True:
        files = log_files(folder / LOG, position)
        first = files[0].first if files else read_mark(folder).end
        if position < first:
            raise PositionsGone(folder, position, first)
        for file in files:
            try:
                items = list(items_in(file))
            except SpoolDamaged:
                if file.path.exists():
                    raise
                # Removed since it was listed: the next listing tells what can still be read.
                break
            for placed in items:
                if placed.end > position:
                    yield placed.since(position)
                    position = placed.end
        else:
            return
