"""Readers of a spool: from a position on, or between two positions. Nothing is locked."""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from bridge.spools.consumers import commit, consumers, leave
from bridge.spools.index import SpoolIndex
from bridge.spools.log import LOG, Placed, PositionsGone, SpoolDamaged, log_files, read_mark
from bridge.spools.log_file import items_in


class FolderReader(SpoolIndex):
    """A reader of a spool's folder, with its index."""

    def read(self, start: int, most_bytes: int) -> Iterator[Placed]:
        """The items from a position on: up to so many bytes, but at least one item if there is one."""
        return read(self.folder, start, most_bytes)

    def between(self, start: int, end: int) -> Iterator[Placed]:
        """Exactly the items between two positions."""
        return between(self.folder, start, end)

    def commit(self, consumer: str, position: int) -> None:
        """Note that a consumer needs nothing before a position; its first commit lets it join."""
        commit(self.folder, consumer, position)

    def leave(self, consumer: str) -> None:
        """Remove a consumer."""
        leave(self.folder, consumer)

    def consumers(self) -> dict[str, int]:
        """The position of each consumer."""
        return consumers(self.folder)


def read(folder: Path, start: int, most_bytes: int) -> Iterator[Placed]:
    """The items of a spool from a position on: up to so many bytes, but at least one item if there is one."""
    return within(_placed(folder, start), most_bytes)


def between(folder: Path, start: int, end: int) -> Iterator[Placed]:
    """Exactly the items between two positions, for a batch that was planned, and perhaps run, before."""
    return up_to(_placed(folder, start), folder, start, end)


def position_since(folder: Path, first: int, stamp: int) -> int:
    """The position where items spooled at or after a time in milliseconds begin; `first` or later."""
    files = log_files(folder / LOG, first)
    # The last item of a file is its newest, so a binary search reads few files.
    at = bisect_left(files, stamp, key=lambda file: max(placed.item.stamp for placed in items_in(file)))
    if at == len(files):
        return files[-1].end if files else max(first, read_mark(folder).end)
    return max(first, next(placed.first for placed in items_in(files[at]) if placed.item.stamp >= stamp))


def within(placed: Iterator[Placed], most_bytes: int) -> Iterator[Placed]:
    """The items that fit into so many bytes, but at least one if there is one."""
    left = most_bytes
    for each in placed:
        size = len(each.item.payload)
        if size > left and left < most_bytes:
            return
        left -= size
        yield each


def up_to(placed: Iterator[Placed], name: Path | str, start: int, end: int) -> Iterator[Placed]:
    """The items before an end, which must exist; `name` is the spool's, for the error."""
    if start >= end:
        return
    reached = start
    for each in placed:
        yield (found := each.until(end))
        reached = found.end
        if reached == end:
            return
    raise SpoolDamaged(f"the spool {name} ends at {reached}, but it went up to {end} before; restore what was lost")


def _placed(folder: Path, start: int) -> Iterator[Placed]:
    """Every item from a position on; the first one begins exactly there."""
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
                # Removed since it was listed: the next listing shows what can still be read.
                break
            for placed in items:
                if placed.end > position:
                    yield placed.since(position)
                    position = placed.end
        else:
            return
