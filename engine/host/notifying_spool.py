"""The spool of a stream that a host fills: it tells when it has grown, and knows what pacing asks without looking."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bridge import Item, ItemKind, Spool, SpoolIndex, SpoolReach
from bridge.intake import Expected


class NotifyingSpool(Spool):
    """A spool with its index, which all jobs of the host share; made and closed as any spool."""

    def __init__(self, folder: Path, *, most_bytes: int, grown: Callable[[bool], None]) -> None:
        """`grown` is told whether a marker came."""
        super().__init__(folder, most_bytes=most_bytes)
        self._grown = grown
        self._index: SpoolIndex | None = None
        self._indexing = threading.Lock()
        """Held while the index is asked or fed, and never while anything is written."""

    def append(self, items: Sequence[Item], producers: Mapping[str, Expected] | None = None) -> int:
        """As a spool does."""
        first = super().append(items, producers)
        if items:
            with self._indexing:
                if self._index is not None:
                    self._index.feed(first, items)
            self._grown(any(item.kind is ItemKind.MARKER for item in items))
        return first

    def prune(self) -> None:
        """As a spool does."""
        super().prune()
        first = self.first
        with self._indexing:
            if self._index is not None:
                self._index.forget(first)

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """How far a batch from a position on should go; from any thread."""
        with self._known() as index:
            return index.reach(start, most_bytes)

    def marker_position(self, name: str) -> int | None:
        """The position after a marker; None where the log does not hold it. From any thread."""
        with self._known() as index:
            return index.marker_position(name)

    @contextmanager
    def _known(self) -> Iterator[SpoolIndex]:
        if self._index is None:
            # Where much waits that takes a while, and what comes meanwhile is not to wait for it.
            index = SpoolIndex(self.folder)
            with self._indexing:
                index.refresh()
                self._index = index
        with self._indexing:
            yield self._index
