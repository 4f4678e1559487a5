"""The folder of a job: its lease, its log of plans, its records, its cuts, its attempts, and Spark's checkpoint."""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from bridge.machine.files import make_folder, sync_folder, write_whole
from engine.plan import Entry, read_entry, written_entry
from engine.records.damage import damage_named

_LONGEST_NAME = 200


class KeptCut(NamedTuple):
    """A cut of one connected part of a job's plan."""

    name: str
    batch: int
    """Its states are those after this batch."""
    instances: tuple[int, ...]
    positions: Mapping[str, int]


class JobFolder:
    """Where things lie in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plans = path / "plans"
        self.runs = path / "runs"
        self.records = path / "records"
        self.attempts = path / "attempts"
        self.checkpoint = path / "checkpoint"
        self.cuts = path / "cuts"

    def made_at(self) -> int | None:
        """Tells a job from another one that had its name before; None where there is none."""
        try:
            # The one file that is made once, and never written to.
            return (self.path / "lease").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def make(self) -> None:
        """Make the folders that are not there yet."""
        for folder in (self.plans, self.runs, self.records, self.attempts, self.cuts):
            make_folder(folder)

    def log(self, entry: Entry) -> None:
        """Make an entry durable; only then may an offset name it."""
        write_whole(self.plans / f"{entry.number:08d}", written_entry(entry))

    def entry(self, number: int) -> Entry:
        """An entry of the log; it never changes, but for one of another job that had this name."""
        path = self.plans / f"{number:08d}"
        with damage_named(path):
            written = path.stat().st_mtime_ns
        return _entry(path, written)

    def entries(self, first: int) -> list[Entry]:
        """The entries of the log from a number on; all of them from the first that is there."""
        # The folder of a job that was cut off while it was made has nothing in it.
        paths = self.plans.iterdir() if self.plans.is_dir() else ()
        numbers = sorted(int(path.name) for path in paths if path.name.isdigit())
        return [self.entry(number) for number in numbers if number >= first]

    def forget_entries(self, before: int) -> None:
        """Remove the entries before a number."""
        # The oldest first: whatever is left after a crash has no hole.
        for path in sorted(path for path in self.plans.iterdir() if path.name.isdigit() and int(path.name) < before):
            path.unlink()

    def begin_run(self) -> int:
        """The number of this start of the job; each is given once."""
        last = max((int(path.name) for path in self.runs.iterdir() if path.name.isdigit()), default=0)
        write_whole(self.runs / f"{last + 1:08d}", b"")
        for path in self.runs.iterdir():
            if path.name.isdigit() and int(path.name) <= last:
                path.unlink()
        return last + 1

    def is_stopped(self) -> bool:
        """Whether it was told to stop, so that a host that comes back does not run it."""
        return self.stopped_at() is not None

    def stopped_at(self) -> float | None:
        """When it was told to stop; None where it was not, or told to run since."""
        try:
            return (self.path / "stopped").stat().st_mtime
        except FileNotFoundError:
            return None

    def say_stopped(self) -> None:
        """It was told to stop."""
        write_whole(self.path / "stopped", b"")

    def say_running(self) -> None:
        """It was told to run."""
        (self.path / "stopped").unlink(missing_ok=True)
        sync_folder(self.path)

    def gone(self) -> dict[str, int]:
        """For each stream the position before which events went while the job was stopped; none where all was there."""
        path = self.path / "gone"
        if not path.exists():
            return {}
        with damage_named(path):
            return {stream: int(position) for stream, position in json.loads(path.read_bytes()).items()}

    def say_gone(self, gone: Mapping[str, int]) -> None:
        """What lay before some positions is passed over, also by a batch that is planned already."""
        write_whole(self.path / "gone", json.dumps(dict(gone)).encode())

    def keep_cut(self, cut: KeptCut) -> None:
        """Keep the states of a cut until it is released."""
        told = {"instances": list(cut.instances), "positions": dict(cut.positions)}
        write_whole(self.cuts / f"{quote(cut.name, safe='')}.{cut.batch:020d}", json.dumps(told).encode())

    def kept_cuts(self) -> list[KeptCut]:
        """The cuts whose states are kept; a part of the plan each."""
        return [self._kept_cut(path) for path in self._cut_paths()]

    def keeps_cuts(self) -> bool:
        """Whether states of any cut are kept."""
        return bool(self._cut_paths())

    def release_cut(self, name: str) -> bool:
        """Keep the states of a cut no longer; whether they were kept."""
        # Of a name with a dot in it, another may be the beginning.
        kept = [path for path in self._cut_paths() if path.name.rpartition(".")[0] == quote(name, safe="")]
        for path in kept:
            path.unlink(missing_ok=True)
        if kept:
            sync_folder(self.cuts)
        return bool(kept)

    def _cut_paths(self) -> list[Path]:
        try:
            # Looked at several times at every beat, and mostly there is none; a glob would do more.
            names = os.listdir(self.cuts)  # noqa: PTH208 - see above
        except FileNotFoundError:
            # Of a job that was cut off while it was made.
            return []
        return [self.cuts / name for name in sorted(names) if "." in name]

    @staticmethod
    def _kept_cut(path: Path) -> KeptCut:
        name, _, batch = path.name.rpartition(".")
        with damage_named(path):
            told = json.loads(path.read_bytes())
            return KeptCut(unquote(name), int(batch), tuple(told["instances"]), told["positions"])


def job_folder(root: Path, job: str) -> JobFolder:
    """The folder of a job of this name."""
    return JobFolder(root / "jobs" / quote(job, safe=""))


def spool_folder(root: Path, stream: str) -> Path:
    """The folder of the spool of a stream."""
    name = quote(stream, safe="")
    if len(name) > _LONGEST_NAME:
        # The name of a port may take more than a file system allows.
        name = f"{name[:100]}={sha256(stream.encode()).hexdigest()}"
    return root / "spools" / name


@lru_cache(maxsize=256)
def _entry(path: Path, _written: int) -> Entry:
    with damage_named(path):
        return read_entry(path.read_bytes())
