"""The store of a job's records, and of the states that are made from them.

The records are in a folder, named by their batches, without gaps. Workers write, the job's host prunes, and any process
may read.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, takewhile
from pathlib import Path
from typing import TypeAlias, cast

from bridge.files import Steps, link_whole, no_steps, sync_folder
from engine.offset import EarlyEnd
from engine.records.files import (
    Header,
    RecordDamaged,
    RecordFile,
    early_ends,
    has_read_beyond,
    shard_path,
    whole_record,
    written_record,
)
from engine.records.job_folder import PlannedEnds, numbered
from engine.records.record import Record, Table
from engine.records.state import NUMBERS, InstanceStates, ShardStates

Owns: TypeAlias = Callable[[int, int], bool]
"""Whether a key group of an instance is wanted."""


class RecordStore:
    """The folder of a job's records."""

    def __init__(self, folder: Path, *, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step
        self.ends = PlannedEnds(folder / "ends", step=step)
        self._latest: RecordFile | None = None
        """The record that was found last: a host needs each twice, to go on and to publish."""

    def write(self, record: Record) -> bool:
        """Make a record durable; False if its batch already has one, which counts."""
        return link_whole(self._path(record.batch), written_record(record), self._step)

    def write_shard(self, record: Record, shard: int) -> bool:
        """Make the record of one shard of a batch durable; False if it has one, which counts."""
        path = shard_path(self._path(record.batch), shard, record.repeats)
        path.parent.mkdir(exist_ok=True)
        return link_whole(path, written_record(record), self._step)

    def find_shard(self, batch: int, shard: int) -> RecordFile | None:
        """The latest record of one shard of a batch; None if there is none."""
        paths = list(self._shard_paths(batch, shard))
        return RecordFile(paths[-1]) if paths else None

    def complete(self, batch: int, shards: int) -> bool:
        """Make the record of a batch whole if its shards have ended at the same places; False if one has no record."""
        files = self._shard_files(batch, shards)
        if files and not _disagree(files):
            # Their writers may have died before the names were durable.
            sync_folder(files[0].path.parent)
            link_whole(self._path(batch), whole_record(files), self._step)
        return bool(files)

    def disputed_ends(self, batch: int, shards: int) -> dict[str, EarlyEnd]:
        """Where shards of a batch have ended early if others have read on; empty if none has, or not all are done."""
        files = self._shard_files(batch, shards)
        return _disagree(files) if files else {}

    def _shard_files(self, batch: int, shards: int) -> list[RecordFile]:
        """The latest record of each shard; empty if one has none."""
        # Each shard that is done looks, and the last ones are mostly done last. So most looks end at the first file.
        if not all(shard_path(self._path(batch), shard).exists() for shard in reversed(range(shards))):
            return []
        return [RecordFile(list(self._shard_paths(batch, shard))[-1]) for shard in range(shards)]

    def _shard_paths(self, batch: int, shard: int) -> Iterator[Path]:
        """The files of one shard of a batch, each of another run."""
        return takewhile(Path.exists, (shard_path(self._path(batch), shard, repeats) for repeats in count()))

    def find(self, batch: int) -> RecordFile | None:
        """The record of a batch, to be read in parts; None if there is none."""
        path, latest = self._path(batch), self._latest
        if latest is not None and latest.path == path:
            return latest
        # Usually it is not there yet, and a check costs less than a failed open.
        if not path.exists():
            return None
        file = RecordFile(path)
        # Its writer may have died before the name was durable, and the batch is about to be committed because of it.
        sync_folder(self._folder)
        self._latest = file
        return file

    def file(self, batch: int) -> RecordFile:
        """A record to be read in parts."""
        try:
            return RecordFile(self._path(batch))
        except FileNotFoundError as error:
            raise RecordDamaged(f"{self._path(batch)} is missing; restore it") from error

    def batches(self) -> range:
        """The batches that have a record."""
        batches = numbered(self._folder)
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
                if file.header.shards:
                    self._load(state, base, before)
                    return
                _follow(state, file.header, file.changes())
        except BaseException:
            # A partly applied state is not a valid version.
            state.clear(-1)
            raise

    def shard_state(self, before: int, shard: int, owns: Owns) -> ShardStates:
        """The part of a shard in the state at the beginning of a batch."""
        state, base = ShardStates(shard), self.base(before - 1)
        state.restore(before - 1, _read_states(map(self.file, range(base, before)), owns), base)
        return state

    def catch_up_shard(self, state: ShardStates, before: int, stays: Callable[[Header], bool], repeats: int) -> bool:
        """Bring the state of a shard to the beginning of a batch; False if a batch since may have changed its part.

        `stays` says of each batch since whether its shard had the same part. It is also false if the records since may
        be gone, or if the state is not that of the run that counts: `repeats` says which one it is of.
        """
        state.discard()
        if state.version < self.base(before - 1):
            return False
        if self.file(state.version).header.shards[state.shard].changes.repeats != repeats:
            return False
        try:
            for batch in range(state.version + 1, before):
                file = self.file(batch)
                header = file.header
                if not header.shards or not stays(header):
                    return False
                part = header.shards[state.shard]
                changes = file.changes(part.changes)
                state.follow(batch, dropped=header.dropped, changes=changes, imaged=part.imaged, credit=part.credit)
            last = self.file(before - 1)
            state.set_common(last.image(last.header.imaged[NUMBERS]))
        except BaseException:
            # A partly applied state is not a valid version.
            state.clear(-1)
            raise
        return True

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
            path = self._path(batch)
            # The last first, so that a crash leaves no gap here either.
            every = (list(self._shard_paths(batch, shard)) for shard in count())
            for part in reversed(list(chain.from_iterable(takewhile(bool, every)))):
                part.unlink()
            self.ends.forget(batch)
            path.unlink(missing_ok=True)

    def _load(self, state: InstanceStates, base: int, before: int, only: Collection[int] | None = None) -> None:
        """Build a state from its base, of all instances or only some."""
        files = [self.file(batch) for batch in range(base, before)]
        if any(file.header.shards for file in files):
            kept = _read_states(files, lambda instance, _group: only is None or instance in only)
            state.restore(before - 1, kept, base)
            return
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
            for group in (group for group in file.header.imaged if newest[group] == batch):
                for instance, items in file.image(file.header.imaged[group]).items():
                    if only is None or instance in only:
                        changes.setdefault(instance, {})[group] = items
            _follow(state, file.header, changes)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:020d}"


def _disagree(files: Sequence[RecordFile]) -> dict[str, EarlyEnd]:
    """Where some shards of a batch ended early, if others have read on; empty if none has."""
    early = early_ends(file.header for file in files)
    return early if any(has_read_beyond(file.header, early) for file in files) else {}


def _follow(state: InstanceStates, header: Header, changes: Table) -> None:
    state.follow(header.batch, dropped=header.dropped, changes=changes, imaged=header.imaged, credit=header.credit)


_States: TypeAlias = dict[int, dict[int, dict[bytes, bytes]]]


def _read_states(files: Iterable[RecordFile], owns: Owns) -> _States:
    """The states after the last of some records, of which the first is their base: only what is wanted of them.

    What was changed since the base and is imaged later is in the image too, so images are added to the rest.
    """
    kept: _States = {}
    for file in files:
        header = file.header
        for instance in header.dropped:
            kept.pop(instance, None)
        for changes in (header.changes, *(shard.changes for shard in header.shards)):
            _add(kept, file.changes(changes), owns)
        if header.shards:
            for groups in kept.values():
                groups.pop(NUMBERS, None)
        for imaged in (header.imaged, *(shard.imaged for shard in header.shards)):
            for group, part in imaged.items():
                _add(kept, {instance: {group: items} for instance, items in file.image(part).items()}, owns)
    filled = {instance: {group: items for group, items in groups.items() if items} for instance, groups in kept.items()}
    return {instance: groups for instance, groups in filled.items() if groups}


def _add(kept: _States, table: Table, owns: Owns) -> None:
    for instance, groups in table.items():
        for group, overlay in groups.items():
            if owns(instance, group):
                items = kept.setdefault(instance, {}).setdefault(group, {})
                removed = [key for key, value in overlay.items() if value is None] if None in overlay.values() else []
                items.update(cast("Mapping[bytes, bytes]", overlay))
                for key in removed:
                    del items[key]
