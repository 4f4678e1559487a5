"""The spools that a host fills: they notify a listener when they have grown, and keep an index that all jobs share.

The spool of a shared feed has one more rule: it takes messages from the broker for several sources, so one of them that
reads nothing must not keep all others waiting.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bridge import Item, ItemKind, Spool, SpoolClosed, SpoolIndex, SpoolReach
from bridge.intake import Expected
from bridge.spools.deliveries import InDoubt
from bridge.spools.log import LogFile
from engine.replicas.copies import NO_COPIES, Copies, CopiesEnded


class NotifyingSpool(Spool):
    """A spool with an index that all jobs of the host share."""

    def __init__(
        self, folder: Path, *, most_bytes: int, on_growth: Callable[[bool], None], copies: Copies = NO_COPIES
    ) -> None:
        """`on_growth` is called after each append; its argument says whether a marker came."""
        super().__init__(folder, most_bytes=most_bytes)
        self.accepted = 0
        """The events that were appended since it was opened."""
        self._on_growth = on_growth
        self._copies = copies
        self._index: SpoolIndex | None = None
        self._indexing = threading.Lock()
        """Held while the index is read or fed, and never while anything is written to disk."""

    def append(
        self,
        items: Sequence[Item],
        producers: Mapping[str, Expected | None] | None = None,
        in_doubt: InDoubt | None = None,
    ) -> int:
        """Append items as any spool does, wait until they are at all peers, and notify the listener."""
        first = super().append(items, producers, in_doubt)
        self._settle()
        if items:
            self.accepted += sum(item.count for item in items if item.kind is not ItemKind.MARKER)
            with self._indexing:
                if self._index is not None:
                    self._index.feed(first, items)
            self._on_growth(any(item.kind is ItemKind.MARKER for item in items))
        return first

    def prune(self) -> None:
        """Remove events as any spool does, and forget them in the index."""
        super().prune()
        first = self.first
        with self._indexing:
            if self._index is not None:
                self._index.forget(first)

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """The reach of a batch from a position on; from any thread."""
        with self._fresh_index() as index:
            return index.reach(start, most_bytes)

    def marker_position(self, name: str) -> int | None:
        """The position after a marker; None if the log does not hold it. From any thread."""
        with self._fresh_index() as index:
            return index.marker_position(name)

    @contextmanager
    def _fresh_index(self) -> Iterator[SpoolIndex]:
        if self._index is None:
            # With many events this takes a while, and appends must not wait for it.
            index = SpoolIndex(self.folder)
            with self._indexing:
                index.refresh()
                # No batch may read what another machine could not read again.
                self._settle()
                self._index = index
        with self._indexing:
            yield self._index

    def _settle(self) -> None:
        try:
            self._copies.settle(self.folder)
        except CopiesEnded as error:
            raise SpoolClosed(f"{self.folder} takes nothing any more: {error}") from error


class FeedSpool(NotifyingSpool):
    """The spool of a shared feed. While it is full, it keeps nothing that any of its consumers has passed.

    So a source loses messages only once it is a whole spool behind another one. One without others loses none: the
    spool stays full, and the broker keeps what comes.
    """

    def _unneeded(self, positions: Collection[int]) -> list[LogFile]:
        gone = super()._unneeded(positions)
        size = self.size - sum(self._sizes[file] for file in gone)
        farthest = max(positions, default=self.end)
        for file in self._files[len(gone) :]:
            if size < self._most_bytes or file.end > farthest:
                break
            gone.append(file)
            size -= self._sizes[file]
        return gone
