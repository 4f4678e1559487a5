"""The growth of one instance's state in a batch: its size with the staged changes, without a look at each of them."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias
from zlib import crc32

from dags.divisibility import GROUPS

KEY_BYTES: Final = 16
"""The assumed overhead of a key, in bytes."""
ABSENT: Final = bytes(bytearray(b"absent"))
"""Marks a key that is not staged; None marks a deleted key. Compared by identity, never by content."""
NOT_KEPT: Final[Mapping[bytes, bytes]] = {}

Overlay: TypeAlias = dict[bytes, bytes | None]
Change: TypeAlias = tuple[Overlay, bytes, bytes | None]
"""What was staged for a key before, in which overlay."""


class StateGrowth:
    """The size of a state as its changes are staged and undone; made with the staged state, and part of it."""

    def __init__(
        self, kept: Mapping[int, Mapping[bytes, bytes]], keys: Overlay, journal: Sequence[Change], size: int
    ) -> None:
        """`size` is that of what is kept, in bytes."""
        self._kept = kept
        self._keys = keys
        self._journal = journal
        self._most = size
        """A bound of the size: all that was staged."""
        self._size = size
        """The size up to a place of the journal."""
        self._counted = 0

    @property
    def most(self) -> int:
        """A bound of the size with what is staged, which costs nothing to ask for."""
        return self._most

    @property
    def size(self) -> int:
        """The size with what is staged."""
        return self._counted_size()

    def note(self, size: int, keys: int = 1) -> None:
        """Note that so many bytes are staged for some keys."""
        self._most += size + KEY_BYTES * keys

    def undo(self, token: int) -> None:
        """Note that the changes since a mark are about to be undone."""
        if token < self._counted:
            self._size = self._counted_size() - self._since(token)
            self._counted = token

    def exceeds(self, most: int, token: int) -> bool:
        """True if the state has more than so many bytes, and has grown since a mark."""
        # Nearly always known from the bound.
        return self._most > most and self._counted_size() > most and self._since(token) > 0

    def _counted_size(self) -> int:
        self._size += self._since(self._counted)
        self._counted = len(self._journal)
        return self._size

    def _since(self, token: int) -> int:
        """The bytes by which the state of keys has grown since a mark."""
        changed: Overlay = {}
        for overlay, key, before in islice(self._journal, token, None):
            if overlay is self._keys and key not in changed:
                changed[key] = before
        return sum(
            _weight(key, self._keys[key])
            - _weight(key, self._kept.get(crc32(key) % GROUPS, NOT_KEPT).get(key) if before is ABSENT else before)
            for key, before in changed.items()
        )


def _weight(key: bytes, value: bytes | None) -> int:
    return 0 if value is None else KEY_BYTES + len(key) + len(value)
