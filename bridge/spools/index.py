"""What pacing asks of a spool, answered without reading a payload.

A job that decides how far its next batch goes needs to know where items end, how large they are, and where markers lie.
The index keeps that of every file it has seen; to refresh it costs one listing of the log, and a look into each file
that is new.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.spools.log import (
    LOG,
    LOG_FILE_NAME,
    Item,
    LogFile,
    PositionsGone,
    SpoolDamaged,
    log_files,
    read_mark,
)
from bridge.spools.log_file import Extent, extents_in, extents_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolReach:
    """How far a batch should go; made by an index for a job's source."""

    end: int
    """The position after its last item."""
    size: int
    """How many bytes of payload lie in its items, the first one counted whole."""
    marker: str | None = None
    """The name of the marker that it ends with, if it ends with one."""


class SpoolIndex:
    """Where the items and markers of a spool lie, as of the last refresh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / LOG
        self._listing: list[str] | None = None
        self.first = self.end = 0
        self._before = 0
        """How many bytes lay before the first item."""
        self._ends: list[int] = []
        self._sizes: list[int] = []
        """Up to and with each item, all bytes from the beginning."""
        self._marked: list[int] = []
        """The position after each marker."""
        self._names: list[str] = []
        self.refresh()

    def refresh(self) -> None:
        """See what was appended and removed meanwhile."""
        # The folder's time of change would cost less, but clocks are coarse: two changes may bear the same time.
        listing = os.listdir(self._log)  # noqa: PTH208 - nothing here costs more than a path for each name
        if listing == self._listing:
            return
        # Whatever was seen before and is still there is listed for sure, so what is not is gone.
        oldest = min(filter(LOG_FILE_NAME.fullmatch, listing), default=None)
        self.forget(self.end if oldest is None else min(self.end, int(oldest[:20])))
        files = log_files(self._log, self.end)
        for file in files:
            self._take(file)
        if oldest is None and not files:
            self.forget(read_mark(self.folder).end)
        # What came since it was listed is found the next time. A log without files looks the same once some were
        # appended and removed again.
        self._listing = None if oldest is None else listing

    def feed(self, first: int, items: Sequence[Item]) -> None:
        """Take what its owner has just appended, so that it need not be looked for."""
        if first > self.end:
            # Of two threads that append one after the other, the second may be the first to tell.
            self.refresh()
        elif first == self.end:
            self._extend(extents_of(first, items))

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """The last end of an item within so many bytes from a position on, not beyond the first marker.

        It goes one item far at least where there is one.
        """
        if start < self.first:
            raise PositionsGone(self.folder, start, self.first)
        begin = bisect_right(self._ends, start)
        if begin == len(self._ends):
            return SpoolReach(end=start, size=0)
        before = self._before if begin == 0 else self._sizes[begin - 1]
        last = max(begin, bisect_right(self._sizes, before + most_bytes) - 1)
        following = bisect_right(self._marked, start)
        marker = None
        if following < len(self._marked) and self._marked[following] <= self._ends[last]:
            last, marker = bisect_left(self._ends, self._marked[following]), self._names[following]
        return SpoolReach(end=self._ends[last], size=self._sizes[last] - before, marker=marker)

    def marker_position(self, name: str) -> int | None:
        """The position after the first marker of a name; None where the log does not hold it."""
        return next((end for end, told in zip(self._marked, self._names, strict=True) if told == name), None)

    def _take(self, file: LogFile) -> None:
        if file.first < self.end:
            raise SpoolDamaged(
                f"{file.path} holds positions before {self.end}, which the log had passed; restore what lay there, "
                "or begin anew whoever has read it"
            )
        if file.first > self.end:
            # What lay between was removed before it was ever seen.
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
        """Forget what lies before a position, which is the end of an item."""
        if first <= self.first:
            return
        gone, marked = bisect_right(self._ends, first), bisect_right(self._marked, first)
        if gone:
            self._before = self._sizes[gone - 1]
        del self._ends[:gone], self._sizes[:gone], self._marked[:marked], self._names[:marked]
        self.first, self.end = first, max(self.end, first)
