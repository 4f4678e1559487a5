"""What one batch does to one instance's state, before it counts."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

GROUPS: Final = 128
"""Keys fall into so many groups, by which a job's state is imaged, and can be split."""
NUMBERS: Final = GROUPS
"""One more group, for the numbers of an instance's ports, so that they are kept, moved and dropped with its state."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_ABSENT: Final = bytes(bytearray(b"absent"))
"""Stands for what was not staged, where None stands for what was deleted; known by identity, never by its content."""

_NOTHING: Final[Mapping[bytes, bytes]] = {}

Overlay: TypeAlias = dict[bytes, bytes | None]


def group_of(key: bytes) -> int:
    """The group that a packed key falls into."""
    return crc32(key) % GROUPS


def packed_key(key: tuple[Any, ...]) -> bytes:
    """A key as state keeps it; those that compare as equal floats are one, and so are all that are no number.

    >>> packed_key((-0.0, "a")) == packed_key((0.0, "a"))
    True
    """
    if float in map(type, key):
        key = tuple(_NAN if each != each else each + 0.0 if type(each) is float else each for each in key)  # noqa: PLR0124 - only what is no number differs from itself
    return _pack(key)


_NAN = float("nan")


def packed_value(value: Any) -> bytes:
    """A value as state keeps it; a tuple comes back as a list."""
    return _pack(value)


def unpacked_value(value: bytes) -> Any:
    """A kept value."""
    return _unpack(value)


class Staged:
    """The state of one instance as a batch sees it; made by `InstanceStates.of`, used by behaviours and the kernel.

    What is put is laid over what is kept until `InstanceStates.settle`, and a journal can undo it before. Methods whose names
    end in `many` take and give packed keys and values.
    """

    def __init__(self, kept: Mapping[int, Mapping[bytes, bytes]]) -> None:
        self._kept = kept
        self._keys: Overlay = {}
        self._numbers: Overlay = {}
        self._journal: list[tuple[Overlay, bytes, bytes | None]] = []

    def get(self, key: tuple[Any, ...]) -> Any:
        """The value of a key; None where there is none."""
        value = self._got(packed_key(key))
        return None if value is None else _unpack(value)

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        """Give a key a value."""
        self._put(self._keys, packed_key(key), _pack(value))

    def delete(self, key: tuple[Any, ...]) -> None:
        """Forget a key."""
        self._put(self._keys, packed_key(key), None)

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The values of keys, one for each."""
        got = self._got
        return [got(key) for key in keys]

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Give each key its value, or forget it where that is None; of a key that comes twice the last one counts."""
        before = map(self._keys.get, keys, repeat(_ABSENT))
        self._journal.extend(zip(repeat(self._keys), keys, before))
        self._keys.update(zip(keys, values, strict=True))

    def number(self, port: str) -> int:
        """The number that the next event of a port gets."""
        key = port.encode()
        value = self._numbers.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._kept.get(NUMBERS, _NOTHING).get(key)
        return 0 if value is None else int(_unpack(value))

    def advance(self, port: str, count: int) -> int:
        """Give numbers to so many events of a port; the first of them."""
        first = self.number(port)
        if count:
            self._put(self._numbers, port.encode(), _pack(first + count))
        return first

    def mark(self) -> int:
        """A token of this moment, for `rollback`."""
        return len(self._journal)

    def rollback(self, token: int) -> None:
        """Undo all that was done since a moment."""
        while len(self._journal) > token:
            overlay, key, before = self._journal.pop()
            if before is _ABSENT:
                # A key that was put twice at once has two such entries.
                overlay.pop(key, None)
            else:
                overlay[key] = before

    def bring(self, groups: Mapping[int, Mapping[bytes, bytes | None]]) -> None:
        """Put what an instance held elsewhere, its numbers included."""
        for group, items in groups.items():
            overlay = self._numbers if group == NUMBERS else self._keys
            for key, value in items.items():
                self._put(overlay, key, value)

    def changes(self) -> dict[int, Overlay]:
        """What is staged, by key group."""
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

    def _got(self, key: bytes) -> bytes | None:
        value = self._keys.get(key, _ABSENT)
        if value is _ABSENT:
            return self._kept.get(crc32(key) % GROUPS, _NOTHING).get(key)
        return value

    def _put(self, overlay: Overlay, key: bytes, value: bytes | None) -> None:
        self._journal.append((overlay, key, overlay.get(key, _ABSENT)))
        overlay[key] = value
