"""The state of a job in a worker: bytes by instance, key group and key, versioned by batch.

A batch stages its changes per instance and puts them into its record; `InstanceStates.settle` applies them. `Staged` is
the state of one instance as one batch sees and changes it, and what behaviours keep their memory in. Its size with the
staged changes is known without a look at each of them.

Each record also contains images, which are the whole content of some key groups, so that the state can be rebuilt from
records of a bounded age. The groups with the oldest images come first. About as many bytes are imaged as were changed,
so the cost depends on the changes and not on the size of the state. In addition, one group is imaged every few batches,
so that old records are not needed for ever if little changes.

`ShardStates` are the part of one shard: its key groups, and the numbers and notes of all instances.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, repeat
from typing import Any, Final, TypeAlias, cast
from zlib import crc32

import msgspec

from dags.dataflow import GROUPS
from engine.records.record import Image, Record, Table

KEY_BYTES: Final = 16
"""The assumed overhead of a key, in bytes."""
ABSENT: Final = bytes(bytearray(b"absent"))
"""Marks a key that is not staged; None marks a deleted key. Compared by identity, never by content."""
NOT_KEPT: Final[Mapping[bytes, bytes]] = {}
Kept: TypeAlias = Mapping[int, Mapping[bytes, bytes]]
"""What is kept of an instance, by key group and key."""

Overlay: TypeAlias = dict[bytes, bytes | None]
Change: TypeAlias = tuple[Overlay, bytes, bytes | None]
"""What was staged for a key before, in which overlay."""


class StateGrowth:
    """The size of a state as its changes are staged and undone; made with the staged state, and part of it."""

    def __init__(self, kept: Kept, keys: Overlay, journal: Sequence[Change], size: int) -> None:
        """`size` is that of what is kept, in bytes."""
        self._kept = kept
        self._keys = keys
        self._journal = journal
        self.most = size
        """A bound of the size, which costs nothing to ask for: all that was staged."""
        self._size = size
        """The size up to a place of the journal."""
        self._counted = 0

    def size(self) -> int:
        """The size with what is staged."""
        self._size += self._since(self._counted)
        self._counted = len(self._journal)
        return self._size

    def key_count(self) -> int:
        """The number of keys with what is staged."""
        kept = sum(len(items) for group, items in self._kept.items() if group != NUMBERS)
        return kept + sum(
            (value is not None) - (key in self._kept.get(crc32(key) % GROUPS, NOT_KEPT))
            for key, value in self._keys.items()
        )

    def note(self, size: int, keys: int = 1) -> None:
        """Note that so many bytes are staged for some keys."""
        self.most += size + KEY_BYTES * keys

    def undo(self, token: int) -> None:
        """Note that the changes since a mark are about to be undone."""
        if token < self._counted:
            self._size = self.size() - self._since(token)
            self._counted = token

    def exceeds(self, most: int, token: int) -> bool:
        """True if the state has more than so many bytes, and has grown since a mark."""
        # Nearly always known from the bound.
        return self.most > most and self.size() > most and self._since(token) > 0

    def _since(self, token: int) -> int:
        """The bytes by which the state of keys has grown since a mark."""
        changed: Overlay = {}
        for overlay, key, before in islice(self._journal, token, None):
            if overlay is self._keys:
                changed.setdefault(key, before)
        return sum(
            _weight(key, self._keys[key])
            - _weight(key, self._kept.get(crc32(key) % GROUPS, NOT_KEPT).get(key) if before is ABSENT else before)
            for key, before in changed.items()
        )


def _weight(key: bytes, value: bytes | None) -> int:
    return 0 if value is None else KEY_BYTES + len(key) + len(value)


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
        key = tuple(_NAN if value != value else value + 0.0 if type(value) is float else value for value in key)  # noqa: PLR0124 - only NaN differs from itself
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

    Changes lie over the kept state until `InstanceStates.settle`, and a journal can undo them before.
    """

    def __init__(self, kept: Kept, size: int = 0) -> None:
        """`size` is that of what is kept, in bytes."""
        self._kept = kept
        self._keys: Overlay = {}
        self._numbers: Overlay = {}
        self._journal: list[Change] = []
        self.growth = StateGrowth(kept, self._keys, self._journal, size)
        """How large the state has become."""

    def get(self, key: tuple[Any, ...]) -> Any:
        """The value of a key; None if there is none."""
        value = self.packed(packed_key(key))
        return None if value is None else _unpack(value)

    def packed(self, key: bytes) -> bytes | None:
        """The packed value of a packed key."""
        value = self._keys.get(key, ABSENT)
        return self._kept.get(crc32(key) % GROUPS, NOT_KEPT).get(key) if value is ABSENT else value

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        """Set the value of a key."""
        self._put(self._keys, packed_key(key), _pack(value))

    def delete(self, key: tuple[Any, ...]) -> None:
        """Delete a key."""
        self._put(self._keys, packed_key(key), None)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set the packed value of each packed key, or delete it if that is None. Of a repeated key, the last counts."""
        self.growth.note(sum(map(len, keys)) + sum([len(value) for value in values if value]), len(keys))
        before = map(self._keys.get, keys, repeat(ABSENT))
        self._journal.extend(zip(repeat(self._keys), keys, before))
        self._keys.update(zip(keys, values, strict=True))

    def number(self, port: str) -> int:
        """The number of the next event of a port."""
        value = self._noted(port.encode())
        return 0 if value is None else int(_unpack(value))

    def advance(self, port: str, count: int) -> int:
        """Assign numbers to `count` events of a port; returns the first."""
        first = self.number(port)
        if count:
            self._put(self._numbers, port.encode(), _pack(first + count))
        return first

    def note(self, name: str) -> bytes:
        """What is noted of the instance as a whole; empty if nothing is."""
        return self._noted(_NOTE + name.encode()) or b""

    def put_note(self, name: str, value: bytes) -> None:
        """Note something of the instance as a whole; no bytes remove a note."""
        self._put(self._numbers, _NOTE + name.encode(), value)

    def notes(self, prefix: str) -> dict[str, bytes]:
        """The notes whose names begin with a prefix."""
        begin = _NOTE + prefix.encode()
        noted = {**self._kept.get(NUMBERS, NOT_KEPT), **self._numbers}
        return {key[len(_NOTE) :].decode(): value for key, value in noted.items() if value and key.startswith(begin)}

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

    def _noted(self, key: bytes) -> bytes | None:
        value = self._numbers.get(key, ABSENT)
        return self._kept.get(NUMBERS, NOT_KEPT).get(key) if value is ABSENT else value

    def _put(self, overlay: Overlay, key: bytes, value: bytes | None) -> None:
        self.growth.note(len(key) + len(value or b""))
        self._journal.append((overlay, key, overlay.get(key, ABSENT)))
        overlay[key] = value


AT_LEAST_EVERY: Final = 8
"""A group is imaged at least once in this many batches, even without changes."""
_SMALL: Final = 10_000
"""The bytes of a state up to which records do not have its size: most tasks keep little or nothing."""


class InstanceStates:
    """The states of a job's instances after a batch; made by `RecordStore.state`."""

    def __init__(self) -> None:
        self.clear(-1)

    def clear(self, version: int) -> None:
        """Become the empty state after a batch; -1 is before the first."""
        self.version = version
        """The batch after which this is the state."""
        self._kept: dict[int, dict[int, dict[bytes, bytes]]] = {}
        self._since: dict[int, int] = {}
        """The oldest record needed to rebuild each non-empty group."""
        self._bytes: dict[int, int] = {}
        """The size of each non-empty group."""
        self._sizes = Counter[int]()
        """The size of each instance's keys."""
        self._credit = 0
        """The bytes changed and not yet covered by images."""
        self._staged: dict[int, Staged] = {}

    @property
    def kept(self) -> Mapping[int, Kept]:
        """The whole state, without staged changes."""
        return self._kept

    def restore(self, version: int, kept: dict[int, dict[int, dict[bytes, bytes]]], base: int) -> None:
        """Become the state after a batch that was read from the records since a base.

        How old the image of each group is is not known, so all of them need the base.
        """
        self.clear(version)
        self._kept = kept
        for instance, groups in kept.items():
            for group, items in groups.items():
                self._grow(instance, group, _size_of(items))
        self._since = dict.fromkeys(self._bytes, base)

    def of(self, instance: int) -> Staged:
        """The state of an instance in this batch; the same object until the batch is settled or discarded."""
        if instance not in self._staged:
            self._staged[instance] = Staged(self._kept.get(instance, {}), self._sizes[instance])
        return self._staged[instance]

    @property
    def sizes(self) -> Mapping[int, int]:
        """The size of the state of each instance that has one, without staged changes."""
        return self._sizes

    def bring(self, imports: Table) -> None:
        """Stage the states of instances from elsewhere."""
        for instance, groups in imports.items():
            self.of(instance).bring(groups)

    def changes(self) -> Table:
        """The staged changes of this batch, for its record."""
        changes = {instance: staged.changes() for instance, staged in self._staged.items()}
        return {instance: groups for instance, groups in changes.items() if groups}

    def discard(self) -> None:
        """Discard the staged changes."""
        self._staged.clear()

    def settle(self, record: Record) -> Record:
        """Apply a record's changes; returns the record with the images that it must contain."""
        self._credit += self._apply(record.batch, record.dropped, record.changes)
        imaged = {group: self._image(group) for group in self._due()}
        self._since.update(dict.fromkeys(imaged, record.batch))
        base = min(self._since.values(), default=record.batch)
        sizes = {instance: size for instance, size in self._sizes.items() if size > _SMALL}
        return replace(record, imaged=imaged, base=base, credit=self._credit, sizes=sizes)

    def follow(self, batch: int, *, dropped: Iterable[int], changes: Table, imaged: Iterable[int], credit: int) -> None:
        """Become the state after a recorded batch."""
        self._apply(batch, dropped, changes)
        self._since.update({group: batch for group in imaged if group in self._since})
        self._credit = credit

    def _apply(self, batch: int, dropped: Iterable[int], changes: Table) -> int:
        """Become the state after a batch; returns the bytes changed in groups that also need other records."""
        if batch != self.version + 1:
            raise ValueError(f"batch {batch} does not follow batch {self.version}; catch up first")
        self.discard()
        for instance in dropped:
            for group, items in self._kept.pop(instance, {}).items():
                self._weigh(group, -_size_of(items))
            del self._sizes[instance]
        changed = 0
        for instance, groups in changes.items():
            kept = self._kept.setdefault(instance, {})
            for group, overlay in groups.items():
                items = kept.setdefault(group, {})
                size = self._change(instance, group, items, overlay)
                if group in self._bytes and self._since.setdefault(group, batch) < batch:
                    changed += size
                if not items:
                    del kept[group]
            if not kept:
                del self._kept[instance]
        self.version = batch
        return changed

    def _change(
        self, instance: int, group: int, items: dict[bytes, bytes], overlay: Mapping[bytes, bytes | None]
    ) -> int:
        if items.keys().isdisjoint(overlay) and None not in overlay.values():
            # While a state is read most keys are new; key by key that takes several times as long.
            added = cast("Mapping[bytes, bytes]", overlay)
            items.update(added)
            size = _size_of(added)
            self._grow(instance, group, size)
            return size
        changed = more = 0
        for key, value in overlay.items():
            before = items.get(key)
            if value is None:
                changed += KEY_BYTES + len(key)
                if before is not None:
                    more -= KEY_BYTES + len(key) + len(before)
                    del items[key]
                continue
            changed += KEY_BYTES + len(key) + len(value)
            more += len(value) - len(before) if before is not None else KEY_BYTES + len(key) + len(value)
            items[key] = value
        self._grow(instance, group, more)
        return changed

    def _grow(self, instance: int, group: int, more: int) -> None:
        self._weigh(group, more)
        if group != NUMBERS:
            self._sizes[instance] += more

    def _weigh(self, group: int, more: int) -> None:
        total = self._bytes.get(group, 0) + more
        if total:
            self._bytes[group] = total
        else:
            self._bytes.pop(group, None)
            self._since.pop(group, None)

    def _due(self) -> list[int]:
        """Choose the groups to image now, and reduce the credit by their sizes."""
        due = list[int]()
        # The credit is never more than the whole state.
        self._credit = min(self._credit, sum(self._bytes.values()))
        older = (group for group, since in self._since.items() if since < self.version)
        for group in sorted(older, key=lambda group: (self._since[group], group)):
            if self._bytes[group] > self._credit and (due or self.version % AT_LEAST_EVERY):
                break
            self._credit = max(0, self._credit - self._bytes[group])
            due.append(group)
        return due

    def _image(self, group: int) -> Image:
        return {instance: dict(groups[group]) for instance, groups in self._kept.items() if group in groups}


def _size_of(items: Mapping[bytes, bytes]) -> int:
    return KEY_BYTES * len(items) + sum(map(len, items)) + sum(map(len, items.values()))


class ShardStates(InstanceStates):
    """The states that one shard has after a batch; made by `RecordStore.shard_state`.

    What every shard knows, the group `NUMBERS`, is not among the changes of a shard. Each shard stages it as if it were
    alone, and the whole record says how the numbers of all go together; see `engine.records.files`.
    """

    def __init__(self, shard: int) -> None:
        self.shard = shard
        super().__init__()

    def set_common(self, common: Image) -> None:
        """Take over the numbers and notes of all instances after the batch of this version."""
        for instance, groups in list(self._kept.items()):
            groups.pop(NUMBERS, None)
            if not groups:
                del self._kept[instance]
        for instance, items in common.items():
            self._kept.setdefault(instance, {})[NUMBERS] = dict(items)

    def settle(self, record: Record) -> Record:
        """Apply a shard's record; returns it with its images, and with the numbers and notes as it leaves them."""
        noted = {instance: groups[NUMBERS] for instance, groups in record.changes.items() if NUMBERS in groups}
        common = self._common(record, noted)
        own = (
            (instance, {group: items for group, items in groups.items() if group != NUMBERS})
            for instance, groups in record.changes.items()
        )
        settled = super().settle(replace(record, changes={instance: groups for instance, groups in own if groups}))
        return replace(settled, imaged={**settled.imaged, NUMBERS: common})

    def _common(self, record: Record, noted: Mapping[int, Mapping[bytes, bytes | None]]) -> Image:
        """All numbers and notes from the first shard, and only new notes from the others."""
        if self.shard:
            notes = {
                instance: {k: v or b"" for k, v in items.items() if is_note(k)} for instance, items in noted.items()
            }
            return {instance: items for instance, items in notes.items() if items}
        before = {instance: groups[NUMBERS] for instance, groups in self._kept.items() if NUMBERS in groups}
        after: dict[int, dict[bytes, bytes]] = {
            instance: dict(items) for instance, items in before.items() if instance not in record.dropped
        }
        for instance, items in noted.items():
            after.setdefault(instance, {}).update({key: value or b"" for key, value in items.items()})
        return {instance: {key: value for key, value in items.items() if value} for instance, items in after.items()}

    def _weigh(self, group: int, more: int) -> None:
        if group != NUMBERS:
            super()._weigh(group, more)
