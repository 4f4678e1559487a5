"""The folder of a job: its lease, log of plans, records, cuts, ends, attempts, and notes of Spark's own.

**Kept cuts**: the states of a cut are not pruned until it is released. There is a file for each connected part of the
plan.

**Planned ends**: where a batch ends is durable before it begins, so that a batch that is run again is the same. What
tasks write outside is named by its batch, and the records of its shards have to be of one batch.
"""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from bridge.files import Steps, make_folder, no_steps, sync_folder, write_whole
from engine.offset import Offset
from engine.plan import Entry
from engine.plan_messages import read_entry, written_entry
from engine.records.files import damage_named


class KeptCut(NamedTuple):
    """A cut of one connected part of a job's plan."""

    name: str
    batch: int
    """Its states are those after this batch."""
    instances: tuple[int, ...]
    positions: Mapping[str, int]


class KeptCuts:
    """The folder of a job's kept cuts, with a file for each connected part of the plan."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, cut: KeptCut) -> None:
        """Keep the states of a cut until it is released."""
        content = {"instances": list(cut.instances), "positions": dict(cut.positions)}
        write_whole(self.path / f"{quote(cut.name, safe='')}.{cut.batch:020d}", json.dumps(content).encode())

    def all(self) -> list[KeptCut]:
        """The kept cuts, one for each part of the plan."""
        return [_read(path) for path in self._files()]

    def is_empty(self) -> bool:
        """True if no cut is kept."""
        return not self._files()

    def release(self, name: str) -> bool:
        """Keep a cut no longer; False if it was not kept."""
        # Not by a pattern, since a name may contain dots.
        kept = [path for path in self._files() if path.name.rpartition(".")[0] == quote(name, safe="")]
        for path in kept:
            path.unlink(missing_ok=True)
        if kept:
            sync_folder(self.path)
        return bool(kept)

    def _files(self) -> list[Path]:
        try:
            # Called several times at every beat, usually for an empty folder; a glob costs more.
            names = os.listdir(self.path)  # noqa: PTH208 - see above
        except FileNotFoundError:
            # A crash interrupted the making of the job.
            return []
        return [self.path / name for name in sorted(names) if "." in name]


def _read(path: Path) -> KeptCut:
    name, _, batch = path.name.rpartition(".")
    with damage_named(path):
        content = json.loads(path.read_bytes())
        return KeptCut(unquote(name), int(batch), tuple(content["instances"]), content["positions"])


class PlannedEnds:
    """The folder of the ends, named by their batches; the job's host writes it."""

    def __init__(self, folder: Path, *, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step

    def keep(self, batch: int, end: Offset) -> None:
        """Make durable where a batch ends; only then may it begin."""
        make_folder(self._folder)
        write_whole(self._path(batch), json.dumps(end.as_json()).encode(), self._step)

    def find(self, batch: int) -> Offset | None:
        """Where a batch ends that may have been begun; None if there is none."""
        path = self._path(batch)
        if not path.exists():
            return None
        with damage_named(path):
            return Offset.of_json(json.loads(path.read_bytes()))

    def forget(self, batch: int) -> None:
        """Remove the end of a batch whose records are removed."""
        self._path(batch).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:020d}"


def numbered(folder: Path) -> list[int]:
    """The numbers that name files of a folder, in order."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


_LONGEST_NAME = 200


class JobFolder:
    """The files of one job, and where they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plans = path / "plans"
        self.runs = path / "runs"
        self.records = path / "records"
        self.attempts = path / "attempts"
        self.spark = path / "spark"
        """What Spark notes of its long batches; emptied at each start, since records alone say what has happened."""
        self.cuts = KeptCuts(path / "cuts")

    def made_at(self) -> int | None:
        """The time when the job was made, which differs from an earlier job of that name; None if there is no job."""
        try:
            # The only file that is made once and never written again.
            return (self.path / "lease").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def make(self) -> None:
        """Make the missing folders."""
        for folder in (self.plans, self.runs, self.records, self.attempts, self.cuts.path):
            make_folder(folder)

    def attempts_of(self, shard: int) -> Path:
        """The folder of the attempts at the batches of one shard."""
        return self.attempts / str(shard) if shard else self.attempts

    def log(self, entry: Entry) -> None:
        """Make an entry durable. Only then may an offset name it."""
        write_whole(self.plans / f"{entry.number:08d}", written_entry(entry))

    def entry(self, number: int) -> Entry:
        """An entry of the log. It never changes, unless another job gets this name."""
        path = self.plans / f"{number:08d}"
        with damage_named(path):
            written = path.stat().st_mtime_ns
        return _entry(path, written)

    def entries(self, first: int) -> list[Entry]:
        """The entries of the log from a number on."""
        # If a crash interrupted the making of the job, there is no folder.
        numbers = numbered(self.plans) if self.plans.is_dir() else ()
        return [self.entry(number) for number in numbers if number >= first]

    def forget_entries(self, before: int) -> None:
        """Remove the entries before a number."""
        # The oldest first, so that a crash leaves no gap.
        for number in numbered(self.plans):
            if number < before:
                (self.plans / f"{number:08d}").unlink()

    def begin_run(self) -> int:
        """Begin a run of the job, and return its number, which is unique."""
        before = numbered(self.runs)
        run = max(before, default=0) + 1
        write_whole(self.runs / f"{run:08d}", b"")
        for number in before:
            (self.runs / f"{number:08d}").unlink()
        return run

    def is_stopped(self) -> bool:
        """True if the job was stopped, so that a restarted host does not run it."""
        return self.stopped_at() is not None

    def stopped_at(self) -> float | None:
        """The time when the job was stopped; None if it is not stopped."""
        try:
            return (self.path / "stopped").stat().st_mtime
        except FileNotFoundError:
            return None

    def mark_stopped(self) -> None:
        """Note that the job was stopped."""
        write_whole(self.path / "stopped", b"")

    def mark_running(self) -> None:
        """Note that the job runs."""
        (self.path / "stopped").unlink(missing_ok=True)
        sync_folder(self.path)

    def gone(self) -> dict[str, int]:
        """The position in each stream before which events were lost while the job was stopped; empty if none were."""
        path = self.path / "gone"
        if not path.exists():
            return {}
        with damage_named(path):
            return msgspec.json.decode(path.read_bytes(), type=dict[str, int])

    def save_gone(self, gone: Mapping[str, int]) -> None:
        """Skip the events before some positions, even in a batch that is already planned."""
        write_whole(self.path / "gone", json.dumps(dict(gone)).encode())


def job_folder(root: Path, job: str) -> JobFolder:
    """The folder of the job of that name."""
    return JobFolder(root / "jobs" / quote(job, safe=""))


def spool_folder(root: Path, stream: str) -> Path:
    """The folder of the spool of a stream."""
    name = quote(stream, safe="")
    if len(name) > _LONGEST_NAME:
        # With a long port name, it may be longer than a file system allows.
        name = f"{name[:100]}={sha256(stream.encode()).hexdigest()}"
    return root / "spools" / name


@lru_cache(maxsize=256)
def _entry(path: Path, _written: int) -> Entry:
    with damage_named(path):
        return read_entry(path.read_bytes())
