"""The part of one shard in the state of a job: its key groups, and the numbers and notes of all instances."""

from collections.abc import Mapping
from dataclasses import replace

from engine.records.record import Image, Record
from engine.records.staged_state import NUMBERS, is_note
from engine.records.state import InstanceStates


class ShardStates(InstanceStates):
    """The states that one shard has after a batch; made by `RecordStore.shard_state`.

    What every shard knows, the group `NUMBERS`, is not among the changes of a shard. Each shard stages it as if it were
    alone, and the whole record says how the numbers of all go together; see `engine.records.whole_record`.
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
        noted = {each: groups[NUMBERS] for each, groups in record.changes.items() if NUMBERS in groups}
        changes = {
            instance: {group: items for group, items in groups.items() if group != NUMBERS}
            for instance, groups in record.changes.items()
        }
        common = self._common(record, noted)
        settled = super().settle(replace(record, changes={each: groups for each, groups in changes.items() if groups}))
        return replace(settled, imaged={**settled.imaged, NUMBERS: common})

    def _common(self, record: Record, noted: Mapping[int, Mapping[bytes, bytes | None]]) -> Image:
        """All numbers and notes from the first shard, and only new notes from the others."""
        if self.shard:
            notes = {each: {k: v or b"" for k, v in items.items() if is_note(k)} for each, items in noted.items()}
            return {each: items for each, items in notes.items() if items}
        before = {each: groups[NUMBERS] for each, groups in self._kept.items() if NUMBERS in groups}
        after: dict[int, dict[bytes, bytes]] = {
            each: dict(items) for each, items in before.items() if each not in record.dropped
        }
        for instance, items in noted.items():
            after.setdefault(instance, {}).update({key: value or b"" for key, value in items.items()})
        return {each: {key: value for key, value in items.items() if value} for each, items in after.items()}

    def _weigh(self, group: int, more: int) -> None:
        if group != NUMBERS:
            super()._weigh(group, more)
