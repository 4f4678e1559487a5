"""Readers of a spool, from a position on or between two, and the index of what lies where. Nothing is locked.

The index knows where items end, how large they are, and where markers lie. A job needs no more to decide how far its
next batch goes, so payloads are not read for it. Refreshing the index costs one listing of the log, and reading the
first line of each new file.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.spools.log import (
    LOG,
    LOG_FILE_NAME,
    Extent,
    Item,
    LogFile,
    Placed,
    PositionsGone,
    SpoolDamaged,
    extents_in,
    extents_of,
    items_in,
    log_files,
    read_mark,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolReach:
    """The end of a job's next batch in one spool; made by an index."""

    end: int
    """The position after its last item."""
    size: int
    """Bytes of payload in its items; of an item that is read from its middle on, its part of them."""
    marker: str | None = None
    """The name of the marker that it ends with, if it ends with one."""


class SpoolIndex:
    """The places of a spool's items and markers, as of the last refresh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / LOG
        self._listing: list[str] | None = None
        self.first = self.end = 0
        self._before = 0
        """Bytes before the first item."""
        self._ends: list[int] = []
        self._sizes: list[int] = []
        """Bytes from the beginning to the end of each item."""
        self._marked: list[int] = []
        """The position after each marker."""
        self._names: list[str] = []
        self.refresh()

    def refresh(self) -> None:
        """Take note of what was appended and removed meanwhile."""
        # The folder's modification time would cost less, but clocks are coarse: two changes may have the same time.
        listing = os.listdir(self._log)  # noqa: PTH208 - a path for each name would cost the most
        if listing == self._listing:
            return
        # A file that was seen before and still exists is listed for sure, so those that are not listed are gone.
        oldest = min(filter(LOG_FILE_NAME.fullmatch, listing), default=None)
        self.forget(self.end if oldest is None else min(self.end, int(oldest[:20])))
        files = log_files(self._log, self.end)
        for file in files:
            self._take(file)
        if oldest is None and not files:
            self.forget(read_mark(self.folder).end)
        # Files that came after the listing are found the next time. An empty listing is not kept: files may have been
        # appended and removed in between.
        self._listing = None if oldest is None else listing

    def feed(self, first: int, items: Sequence[Item]) -> None:
        """Add items that the owner has just appended, without looking for them."""
        if first > self.end:
            # When two threads append one after the other, the second may get here first.
            self.refresh()
        elif first == self.end:
            self._extend(extents_of(first, items))

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """The last end of an item within so many bytes from a position on, but not beyond the first marker.

        It covers at least one item, if there is one.
        """
        if start < self.first:
            raise PositionsGone(self.folder, start, self.first)
        begin = bisect_right(self._ends, start)
        if begin == len(self._ends):
            return SpoolReach(end=start, size=0)
        before = self._before if begin == 0 else self._sizes[begin - 1]
        first = self.first if begin == 0 else self._ends[begin - 1]
        # Of an item that is read from its middle on, only that part counts.
        before += (self._sizes[begin] - before) * (start - first) // (self._ends[begin] - first)
        last = max(begin, bisect_right(self._sizes, before + most_bytes) - 1)
        following = bisect_right(self._marked, start)
        marker = None
        if following < len(self._marked) and self._marked[following] <= self._ends[last]:
            last, marker = bisect_left(self._ends, self._marked[following]), self._names[following]
        return SpoolReach(end=self._ends[last], size=self._sizes[last] - before, marker=marker)

    def marker_position(self, name: str) -> int | None:
        """The position after the first marker with a name; None if the log has no such marker."""
        return next((end for end, marker in zip(self._marked, self._names, strict=True) if marker == name), None)

    def _take(self, file: LogFile) -> None:
        if file.first < self.end:
            raise SpoolDamaged(
                f"{file.path} holds positions before {self.end}, which the log had passed; restore what was there, "
                "or reset the jobs that have read it"
            )
        if file.first > self.end:
            # The files in between were removed before they were seen.
            self.forget(file.first)
        try:
            extents = extents_in(file)
        except SpoolDamaged:
            if file.path.exists():
                raise
            self.forget(file.end)
            return
        self._extend(extents)

    def _extend(self, extents: Sequence[Extent]) -> None:
        size = self._sizes[-1] if self._sizes else self._before
        for extent in extents:
            size += extent.size
            self._ends.append(extent.end)
            self._sizes.append(size)
            if extent.marker is not None:
                self._marked.append(extent.end)
                self._names.append(extent.marker)
            self.end = extent.end

    def forget(self, first: int) -> None:
        """Forget everything before a position, which is the end of an item."""
        if first <= self.first:
            return
        gone, marked = bisect_right(self._ends, first), bisect_right(self._marked, first)
        if gone:
            self._before = self._sizes[gone - 1]
        del self._ends[:gone], self._sizes[:gone], self._marked[:marked], self._names[:marked]
        self.first, self.end = first, max(self.end, first)


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
    for item in placed:
        size = len(item.item.payload)
        if size > left and left < most_bytes:
            return
        left -= size
        yield item


def up_to(placed: Iterator[Placed], name: Path | str, start: int, end: int) -> Iterator[Placed]:
    """The items before an end, which must exist; `name` is the spool's, for the error."""
    if start >= end:
        return
    reached = start
    for item in placed:
        yield (part := item.until(end))
        reached = part.end
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
