"""The state of a job in a worker: bytes by instance, key group and key, versioned by batch.

A batch stages its changes per instance and puts them into its record; `settle` applies them. Each record also contains
images, which are the whole content of some key groups, so that the state can be rebuilt from records of a bounded age.
The groups with the oldest images come first. About as many bytes are imaged as were changed, so the cost depends on the
changes and not on the size of the state. In addition, one group is imaged every few batches, so that old records are
not needed for ever if little changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, cast

from engine.records.record import Image, Record, Table
from engine.records.staged_state import NUMBERS, Staged
from engine.records.state_growth import KEY_BYTES

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
    def kept(self) -> Mapping[int, Mapping[int, Mapping[bytes, bytes]]]:
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
                size = _size_of(items)
                self._weigh(group, size)
                self._count(instance, group, size)
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
        found = {instance: staged.changes() for instance, staged in self._staged.items()}
        return {instance: groups for instance, groups in found.items() if groups}

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
            self._weigh(group, size)
            self._count(instance, group, size)
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
        self._weigh(group, more)
        self._count(instance, group, more)
        return changed

    def _count(self, instance: int, group: int, more: int) -> None:
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
