"""The spool's twin in memory: the same positions, limits and consumers, without files.

It is owner and reader in one, and makes tests fast. It keeps nothing when its process ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bridge.intake import Expected, remembered
from bridge.spools.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.spools.log import Item, ItemKind, Placed, PositionsGone, written
from bridge.spools.reader import SpoolReach, up_to, within
from bridge.spools.spool import Spool, SpoolClosed, SpoolState, end_after, full

_NAME = "in memory"


class _Group(NamedTuple):
    """Items that were appended together, and so are removed together."""

    end: int
    size: int
    placed: tuple[Placed, ...]


class MemorySpool(Spool):
    """A spool in memory, for its owner and its readers."""

    def __init__(self, *, most_bytes: int = 1 << 30) -> None:
        self.end = 0
        self.producers: dict[str, Expected] = {}
        self.in_doubt = NOTHING_IN_DOUBT
        self.size = 0
        self._most_bytes = most_bytes
        self._groups: list[_Group] = []
        self._consumers: dict[str, int] = {}
        self._is_closed = False

    @property
    def first(self) -> int:
        """The earliest position that can still be read."""
        return self._groups[0].placed[0].first if self._groups else self.end

    def append(
        self,
        items: Sequence[Item],
        producers: Mapping[str, Expected | None] | None = None,
        in_doubt: InDoubt | None = None,
    ) -> int:
        """Keep items, with the expectations of their producers after them; returns their first position."""
        self._check_open()
        if items and self.state is SpoolState.FULL:
            raise full(_NAME, self.size)
        first, end = self.end, end_after(self.end, items)
        after = {**self.producers, **(producers or {})}
        expected = remembered({name: known for name, known in after.items() if known is not None})
        self.in_doubt = self.in_doubt if in_doubt is None else in_doubt
        if items:
            firsts = [end_after(first, items[:row]) for row in range(len(items))]
            placed = tuple(map(Placed, firsts, items))
            self._groups.append(_Group(end, len(written(items, expected, self.in_doubt)), placed))
            self.size += self._groups[-1].size
        self.end, self.producers = end, expected
        return first

    def prune(self) -> None:
        """Forget everything that all consumers have passed."""
        self._check_open()
        passed = min(self._consumers.values(), default=self.end)
        self._groups = [group for group in self._groups if group.end > passed]
        self.size = sum(group.size for group in self._groups)

    def close(self) -> None:
        """Take nothing more. Readers are not disturbed."""
        self._is_closed = True

    def refresh(self) -> None:
        """Do nothing: it is always up to date."""

    def reach(self, start: int, most_bytes: int) -> SpoolReach:
        """The last end of an item within so many bytes from a position on, but not beyond the first marker."""
        reached = SpoolReach(end=start, size=0)
        for placed in self._from(start):
            whole, read = len(placed.item.payload), max(0, start - placed.first)
            size = reached.size + whole - whole * read // placed.item.count
            if size > most_bytes and reached.end > start:
                break
            marker = _marker(placed.item)
            reached = SpoolReach(end=placed.end, size=size, marker=marker)
            if marker is not None:
                break
        return reached

    def marker_position(self, name: str) -> int | None:
        """The position after the first marker with a name; None if there is no such marker."""
        return next((placed.end for placed in self._from(self.first) if _marker(placed.item) == name), None)

    def read(self, start: int, most_bytes: int) -> Iterator[Placed]:
        """The items from a position on: up to so many bytes, but at least one item if there is one."""
        return within((placed.since(start) for placed in self._from(start)), most_bytes)

    def between(self, start: int, end: int) -> Iterator[Placed]:
        """Exactly the items between two positions."""
        return up_to((placed.since(start) for placed in self._from(start)), _NAME, start, end)

    def commit(self, consumer: str, position: int) -> None:
        """Note that a consumer needs nothing before a position; its first commit lets it join."""
        self._consumers[consumer] = position

    def leave(self, consumer: str) -> None:
        """Remove a consumer."""
        self._consumers.pop(consumer, None)

    def consumers(self) -> dict[str, int]:
        """The position of each consumer."""
        return dict(self._consumers)

    def _from(self, start: int) -> Iterator[Placed]:
        """Every item that ends after a position, uncut."""
        if start < self.first:
            raise PositionsGone(_NAME, start, self.first)
        for group in tuple(self._groups):
            yield from (placed for placed in group.placed if placed.end > start)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SpoolClosed(f"the spool {_NAME} is closed; make another")


def _marker(item: Item) -> str | None:
    return item.payload.decode() if item.kind is ItemKind.MARKER else None
