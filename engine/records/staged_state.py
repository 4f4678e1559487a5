"""Staged changes: the state of one instance as one batch sees and changes it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final
from zlib import crc32

import msgspec

from dags.divisibility import GROUPS
from engine.records.state_growth import ABSENT, NOT_KEPT, Change, Overlay, StateGrowth

NUMBERS: Final = GROUPS
"""An extra group for an instance's notes and the numbers of its ports. They are kept, moved and dropped with its state,
and every shard knows them."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_NOTE: Final = b"\0"
"""The beginning of the keys of notes. No port has such a name."""


def packed_key(key: tuple[Any, ...]) -> bytes:
    """The bytes of a key in the state. Equal floats give the same bytes, and so do all NaNs.

    >>> packed_key((-0.0, "a")) == packed_key((0.0, "a"))
    True
    """
    if float in map(type, key):
        key = tuple(_NAN if each != each else each + 0.0 if type(each) is float else each for each in key)  # noqa: PLR0124 - only NaN differs from itself
    return _pack(key)


_NAN = float("nan")


def is_note(key: bytes) -> bool:
    """Whether a key of the group `NUMBERS` is that of a note."""
    return key.startswith(_NOTE)


def packed_number(number: int) -> bytes:
    """A number as the group `NUMBERS` has it."""
    return _pack(number)


def unpacked_number(kept: bytes) -> int:
    """A number of the group `NUMBERS`."""
    return int(_unpack(kept))


def packed_value(value: Any) -> bytes:
    """The bytes of a value in the state. A tuple comes back as a list."""
    return _pack(value)


class Staged:
    """The state of one instance as a batch sees it; made by `InstanceStates.of`, used by behaviours and the kernel.

    Changes lie over the kept state until `InstanceStates.settle`, and a journal can undo them before. Methods whose
    names end in `many` take and return packed keys and values.
    """

    def __init__(self, kept: Mapping[int, Mapping[bytes, bytes]], size: int = 0) -> None:
        """`size` is that of what is kept, in bytes."""
        self._kept = kept
        self._keys: Overlay = {}
        self._numbers: Overlay = {}
        self._journal: list[Change] = []
        self.growth = StateGrowth(kept, self._keys, self._journal, size)
        """How large the state has become."""

    def get(self, key: tuple[Any, ...]) -> Any:
        """The value of a key; None if there is none."""
        value = self._got(packed_key(key))
        return None if value is None else _unpack(value)

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        """Set the value of a key."""
        self._put(self._keys, packed_key(key), _pack(value))

    def delete(self, key: tuple[Any, ...]) -> None:
        """Delete a key."""
        self._put(self._keys, packed_key(key), None)

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The value of each key."""
        got = self._got
        return [got(key) for key in keys]

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set the value of each key, or delete the key if it is None. For a repeated key, the last value counts."""
        self.growth.note(sum(map(len, keys)) + sum([len(each) for each in values if each]), len(keys))
        before = map(self._keys.get, keys, repeat(ABSENT))
        self._journal.extend(zip(repeat(self._keys), keys, before))
        self._keys.update(zip(keys, values, strict=True))

    def number(self, port: str) -> int:
        """The number of the next event of a port."""
        key = port.encode()
        value = self._numbers.get(key, ABSENT)
        if value is ABSENT:
            value = self._kept.get(NUMBERS, NOT_KEPT).get(key)
        return 0 if value is None else int(_unpack(value))

    def advance(self, port: str, count: int) -> int:
        """Assign numbers to `count` events of a port; returns the first."""
        first = self.number(port)
        if count:
            self._put(self._numbers, port.encode(), _pack(first + count))
        return first

    def note(self, name: str) -> bytes:
        """What is noted of the instance as a whole; empty if nothing is."""
        key = _NOTE + name.encode()
        value = self._numbers.get(key, ABSENT)
        if value is ABSENT:
            value = self._kept.get(NUMBERS, NOT_KEPT).get(key)
        return value or b""

    def put_note(self, name: str, value: bytes) -> None:
        """Note something of the instance as a whole; no bytes remove a note."""
        self._put(self._numbers, _NOTE + name.encode(), value)

    def notes(self, prefix: str) -> dict[str, bytes]:
        """The notes whose names begin with a prefix."""
        begin = _NOTE + prefix.encode()
        found = {**self._kept.get(NUMBERS, NOT_KEPT), **self._numbers}
        return {key[len(_NOTE) :].decode(): value for key, value in found.items() if value and key.startswith(begin)}

    def mark(self) -> int:
        """A token of the current state, for `rollback`."""
        return len(self._journal)

    def rollback(self, token: int) -> None:
        """Undo all changes since a mark."""
        self.growth.undo(token)
        while len(self._journal) > token:
            overlay, key, before = self._journal.pop()
            if before is ABSENT:
                # A key that one call put twice has two such entries.
                overlay.pop(key, None)
            else:
                overlay[key] = before

    def bring(self, groups: Mapping[int, Mapping[bytes, bytes | None]]) -> None:
        """Put the state of an instance from elsewhere, including its numbers."""
        for group, items in groups.items():
            overlay = self._numbers if group == NUMBERS else self._keys
            for key, value in items.items():
                self._put(overlay, key, value)

    def changes(self) -> dict[int, Overlay]:
        """The staged changes, by key group."""
        grouped: dict[int, Overlay] = {}
        for key, value in self._keys.items():
            group = crc32(key) % GROUPS
            if group in grouped:
                grouped[group][key] = value
            else:
                grouped[group] = {key: value}
        if self._numbers:
            grouped[NUMBERS] = dict(self._numbers)
        return grouped

    def changed_groups(self) -> set[int]:
        """The key groups with staged changes."""
        return {crc32(key) % GROUPS for key in self._keys}

    def _got(self, key: bytes) -> bytes | None:
        value = self._keys.get(key, ABSENT)
        if value is ABSENT:
            return self._kept.get(crc32(key) % GROUPS, NOT_KEPT).get(key)
        return value

    def _put(self, overlay: Overlay, key: bytes, value: bytes | None) -> None:
        self.growth.note(len(key) + len(value or b""))
        self._journal.append((overlay, key, overlay.get(key, ABSENT)))
        overlay[key] = value
