"""Every record of a job, and the states that are made from them."""

from collections.abc import Collection
from pathlib import Path

from bridge.machine.files import Steps, link_whole, no_steps, sync_folder
from engine.records.record import Record, Table
from engine.records.record_file import Header, RecordDamaged, RecordFile, written_record
from engine.records.state import InstanceStates


class RecordStore:
    """The folder with a job's records, each named by its batch; they follow each other without a hole.

    Workers write, whoever likes reads, and the job's host prunes.
    """

    def __init__(self, folder: Path, *, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step

    def write(self, record: Record) -> bool:
        """Make a record durable; False where its batch has one already, which then counts."""
        return link_whole(self._path(record.batch), written_record(record), self._step)

    def find(self, batch: int) -> RecordFile | None:
        """The record of a batch, to be read in parts; None if it has none."""
        path = self._path(batch)
        # Mostly it is not there yet, and to ask costs less than to fail to open it.
        if not path.exists():
            return None
        found = RecordFile(path)
        # Whoever wrote it may have died before its name was durable, and now the batch is committed because of it.
        sync_folder(self._folder)
        return found

    def file(self, batch: int) -> RecordFile:
        """A record to be read in parts."""
        try:
            return RecordFile(self._path(batch))
        except FileNotFoundError as error:
            raise RecordDamaged(f"{self._path(batch)} is missing; restore it") from error

    def read(self, batch: int) -> Record:
        """A whole record."""
        return self.file(batch).record()

    def batches(self) -> range:
        """The batches that have a record."""
        batches = sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())
        return range(batches[0], batches[-1] + 1) if batches else range(0)

    def state(self, before: int) -> InstanceStates:
        """The state that a batch begins with."""
        state = InstanceStates()
        self.catch_up(state, before)
        return state

    def catch_up(self, state: InstanceStates, before: int) -> None:
        """Make a state of any version the one that a batch begins with, without what was staged."""
        state.discard()
        base = self.base(before - 1)
        try:
            if state.version >= before or state.version + 1 < base:
                self._load(state, base, before)
                return
            for batch in range(state.version + 1, before):
                file = self.file(batch)
                _follow(state, file.header, file.changes())
        except BaseException:
            # Half of a batch, or a base without all that follows it, is no version at all.
            state.clear(-1)
            raise

    def state_at(self, version: int, instances: Collection[int]) -> Table:
        """All that instances kept after a batch, to be brought into another job."""
        state = InstanceStates()
        self._load(state, self.base(version), version + 1, instances)
        return state.kept

    def base(self, version: int) -> int:
        """The oldest record that the state after a batch is made from; older ones may be pruned for it."""
        return self.file(version).header.base if version >= 0 else 0

    def prune(self, before: int) -> None:
        """Remove the records of the batches before one."""
        batches = self.batches()
        if before <= batches.start:
            return
        if batches and before > (needed := self.base(batches[-1])):
            raise ValueError(f"{self._folder} cannot be pruned before batch {before}: from {needed} on it is needed")
        for batch in batches[: before - batches.start]:
            # The oldest first: whatever is left after a crash has no hole.
            self._step("remove")
            self._path(batch).unlink(missing_ok=True)

    def _load(self, state: InstanceStates, base: int, before: int, only: Collection[int] | None = None) -> None:
        """Make a state from its base on, of all instances or only some."""
        files = [self.file(batch) for batch in range(base, before)]
        newest = {group: file.header.batch for file in files for group in file.header.imaged}
        state.clear(base - 1)
        for file in files:
            batch = file.header.batch
            # What an image replaces need not be looked at.
            changes = {
                instance: {group: items for group, items in groups.items() if newest.get(group, -1) < batch}
                for instance, groups in file.changes().items()
                if only is None or instance in only
            }
            for group in file.header.imaged:
                if newest[group] == batch:
                    for instance, items in file.image(group).items():
                        if only is None or instance in only:
                            changes.setdefault(instance, {})[group] = items
            _follow(state, file.header, changes)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:020d}"


def _follow(state: InstanceStates, told: Header, changes: Table) -> None:
    state.follow(told.batch, dropped=told.dropped, changes=changes, imaged=told.imaged, credit=told.credit)
