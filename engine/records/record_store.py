"""The records of a job, and the states made from them."""

from collections.abc import Collection
from pathlib import Path

from bridge.machine.files import Steps, link_whole, no_steps, sync_folder
from engine.records.record import Record, Table
from engine.records.record_file import Header, RecordDamaged, RecordFile, written_record
from engine.records.state import InstanceStates


class RecordStore:
    """The folder of a job's records, named by their batches, without gaps.

    Workers write, the job's host prunes, and any process may read.
    """

    def __init__(self, folder: Path, *, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step

    def write(self, record: Record) -> bool:
        """Make a record durable; False if its batch already has one, which counts."""
        return link_whole(self._path(record.batch), written_record(record), self._step)

    def find(self, batch: int) -> RecordFile | None:
        """The record of a batch, to be read in parts; None if there is none."""
        path = self._path(batch)
        # Usually it is not there yet, and a check costs less than a failed open.
        if not path.exists():
            return None
        found = RecordFile(path)
        # Its writer may have died before the name was durable, and the batch is about to be committed because of it.
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
        """The state at the beginning of a batch."""
        state = InstanceStates()
        self.catch_up(state, before)
        return state

    def catch_up(self, state: InstanceStates, before: int) -> None:
        """Bring a state of any version to the beginning of a batch. Staged changes are discarded."""
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
            # A partly applied state is not a valid version.
            state.clear(-1)
            raise

    def state_at(self, version: int, instances: Collection[int]) -> Table:
        """The state of some instances after a batch, to be imported by another job."""
        state = InstanceStates()
        self._load(state, self.base(version), version + 1, instances)
        return state.kept

    def base(self, version: int) -> int:
        """The oldest record that the state after a batch is made from. It does not need older ones."""
        return self.file(version).header.base if version >= 0 else 0

    def prune(self, before: int) -> None:
        """Remove the records of the batches before one."""
        batches = self.batches()
        if before <= batches.start:
            return
        if batches and before > (needed := self.base(batches[-1])):
            raise ValueError(f"{self._folder} cannot be pruned before batch {before}: {needed} and later are needed")
        for batch in batches[: before - batches.start]:
            # The oldest first, so that a crash leaves no gap.
            self._step("remove")
            self._path(batch).unlink(missing_ok=True)

    def _load(self, state: InstanceStates, base: int, before: int, only: Collection[int] | None = None) -> None:
        """Build a state from its base, of all instances or only some."""
        files = [self.file(batch) for batch in range(base, before)]
        newest = {group: file.header.batch for file in files for group in file.header.imaged}
        state.clear(base - 1)
        for file in files:
            batch = file.header.batch
            # Changes that an image replaces are skipped.
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


def _follow(state: InstanceStates, header: Header, changes: Table) -> None:
    state.follow(header.batch, dropped=header.dropped, changes=changes, imaged=header.imaged, credit=header.credit)
