"""A copy of a running job's folder: with the batch that it is about to run, or as of its last finished batch.

First the published position and the cuts are linked, and then the records. If records were removed meanwhile, it shows,
and the job is copied again.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine.records.damage import damage_named
from engine.records.job_folder import JobFolder
from engine.records.kept_cuts import KeptCut
from engine.records.record_file import shard_path
from engine.records.record_store import RecordStore
from manager.backup.linked_files import ChangedMeanwhile, link_files, numbers_in, retried


def copy_job(path: Path, into: Path, *, whole: bool) -> None:
    """Copy a job's folder; `whole` is with the batch that it is about to run."""
    retried(partial(_copy_whole if whole else _copy_finished, path, into), into, f"job {path.name}")


def _copy_whole(path: Path, into: Path) -> None:
    link_files(path, into, ["published", "cuts"])
    # What shards have begun of a batch can be gone on with if that is the next one.
    following = max(numbers_in(path / "records"), default=-1) + 1
    link_files(path, into, ["records"], most=following)
    # A shard's record needs the end of its batch, which was there before it.
    link_files(path, into, ["records/ends"], most=following)
    # Attempts belong to living processes; verdicts are permanent.
    link_files(path, into, ["attempts"], ending=".json")
    link_files(path, into, ["plans", "runs", "stopped", "gone"])
    _check(into)


def _copy_finished(path: Path, into: Path) -> None:
    finished = max(numbers_in(path / "records"), default=-1)
    if finished >= 0:
        link_files(path, into, ["published", "cuts"])
        link_files(path, into, ["records"], most=finished)
    link_files(path, into, ["plans", "runs", "stopped", "gone"])
    for each in JobFolder(into).cuts.all() if (into / "cuts").is_dir() else ():
        if each.batch > finished:
            _cut_path(into, each).unlink()
    if (position := _published(into)) and position["batch"] > finished + 1:
        # The link is the job's own file, so it is replaced instead of written.
        (into / "published").unlink()
        (into / "published").write_text(json.dumps({**position, "batch": finished + 1}))
    _check(into)


def _check(into: Path) -> None:
    """Check that all records are there from which the job continues."""
    folder = JobFolder(into)
    batches = RecordStore(folder.records).batches() if folder.records.is_dir() else range(0)
    position = _published(into)
    if not batches:
        if position and position["batch"] > 0:
            raise ChangedMeanwhile("its records were removed meanwhile")
        return
    needed = [RecordStore(folder.records).base(batches[-1]), *(cut.batch for cut in folder.cuts.all())]
    if position:
        needed.append(min(position["batch"], batches[-1]))
    names = set(numbers_in(folder.records))
    begins = RecordStore(folder.records).file(batches[0]).header.start.entry
    if begins and begins not in numbers_in(folder.plans):
        raise ChangedMeanwhile("its plans were removed meanwhile")
    if batches[0] > min(needed) or names != set(batches):
        raise ChangedMeanwhile("its records were removed meanwhile")
    store = RecordStore(folder.records)
    # A host that died while it pruned may have left a part of an older record.
    if not all(_has_shards(store, folder, batch) for batch in range(min(needed), batches.stop)):
        raise ChangedMeanwhile("records of shards were removed meanwhile")


def _has_shards(store: RecordStore, folder: JobFolder, batch: int) -> bool:
    """Whether the records of all shards that the record of a batch names are there."""
    path = folder.records / f"{batch:020d}"
    return all(shard_path(path, shard).exists() for shard in range(len(store.file(batch).header.shards)))


def _published(folder: Path) -> dict[str, Any]:
    """Read the position up to which the job has published its records; empty if it has none."""
    path = folder / "published"
    if not path.exists():
        return {}
    with damage_named(path):
        position: dict[str, Any] = json.loads(path.read_bytes())
        return {**position, "batch": int(position["batch"])}


def _cut_path(into: Path, cut: KeptCut) -> Path:
    return into / "cuts" / f"{quote(cut.name, safe='')}.{cut.batch:020d}"
