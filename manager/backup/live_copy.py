"""A live copy of everything that jobs continue from, taken while they run.

It consists of hard links, which take no time, so hardly a batch passes between the first and the last. The order of
linking keeps the parts consistent: the jobs that read a stream come before its spool, and the spool before the job that
forwards it. So no spool is behind the events that a job had read, and no job is behind the events that it had
forwarded. Of a job the published position and the cuts come first, and then the records. If something was removed
meanwhile, it shows, and the job is copied again.

With the events of spools, the positions of their consumers come first, so that no event is missing that a job still
needs, and a job is copied with the batch that it is about to run. Without them, it is copied as of its last finished
batch, because no later one could be run again. Nor does it stay a consumer of its spools then: on its start it notices
that it is none, and skips the removed events. A spool between jobs must then expect the numbers that the job gives
next, so that no event is accepted twice, and none is taken for another.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bridge.files import make_folder, no_steps
from bridge.intake import Expected
from bridge.spools.log import LOG, LogFile, Mark, SpoolDamaged, log_files, mark_in, read_mark, write_mark
from engine.plan import Bridged, Plan, Port
from engine.records.files import DAMAGE, Header, damage_named, shard_path
from engine.records.job_folder import JobFolder, spool_folder
from engine.records.store import RecordStore
from manager.backup.archive import BackupRefused
from manager.planner import bridge_stream

_TRIES = 5
"""Attempts to copy a job or a spool that changes too fast."""


class ChangedMeanwhile(Exception):
    """The linked files do not belong together, because their source changed meanwhile."""


def retried(copy: Callable[[], None], into: Path | None, what: str) -> None:
    """Copy until the linked files belong together; `into` is cleared before each attempt."""
    for _ in range(_TRIES):
        if into is not None:
            clear(into)
        with suppress(ChangedMeanwhile):
            try:
                copy()
            except DAMAGE as error:
                raise BackupRefused(f"{what}: {error}") from error
            return
    raise BackupRefused(f"{what} changes too fast to be copied, or is damaged; try again, or stop the service")


def link_files(source: Path, target: Path, names: Iterable[str], *, most: int | None = None, ending: str = "") -> None:
    """Link files and all files in folders; `most` leaves out files that are named by a later batch."""
    for name in names:
        path = source / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = file.relative_to(source)
            # Without incomplete files, and without those that belong to a living process.
            if not file.is_file() or "tmp" in relative.parts or file.name.startswith(".") or file.name == "lease":
                continue
            # A shard's record is named by its batch and its shard.
            batch = file.name.partition(".")[0]
            if most is not None and batch.isdigit() and int(batch) > most:
                continue
            if not file.name.endswith(ending):
                continue
            linked = target / relative
            make_folder(linked.parent)
            with suppress(FileNotFoundError, FileExistsError):
                linked.hardlink_to(file)


def numbers_in(folder: Path) -> Iterator[int]:
    """Yield the names of the entries of a folder that are numbers, as numbers."""
    return (int(path.name) for path in entries_of(folder) if path.name.isdigit())


def entries_of(folder: Path) -> list[Path]:
    """Return the entries of a folder in order; none if there is no such folder."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def clear(folder: Path) -> None:
    """Remove everything in a folder, if there is one."""
    for path in entries_of(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _copy_with_batch(path: Path, into: Path) -> None:
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
    for cut in JobFolder(into).cuts.all() if (into / "cuts").is_dir() else ():
        if cut.batch > finished:
            (into / "cuts" / f"{quote(cut.name, safe='')}.{cut.batch:020d}").unlink()
    if (position := _published(into)) and position["batch"] > finished + 1:
        # The link is the job's own file, so it is replaced instead of written.
        (into / "published").unlink()
        (into / "published").write_text(json.dumps({**position, "batch": finished + 1}))
    _check(into)


def _check(into: Path) -> None:
    """Check that all records are there from which the job continues."""
    folder = JobFolder(into)
    store = RecordStore(folder.records)
    batches = store.batches() if folder.records.is_dir() else range(0)
    position = _published(into)
    if not batches:
        if position and position["batch"] > 0:
            raise ChangedMeanwhile("its records were removed meanwhile")
        return
    needed = [store.base(batches[-1]), *(cut.batch for cut in folder.cuts.all())]
    if position:
        needed.append(min(position["batch"], batches[-1]))
    names = set(numbers_in(folder.records))
    begins = store.file(batches[0]).header.start.entry
    if begins and begins not in numbers_in(folder.plans):
        raise ChangedMeanwhile("its plans were removed meanwhile")
    if batches[0] > min(needed) or names != set(batches):
        raise ChangedMeanwhile("its records were removed meanwhile")
    # A host that died while it pruned may have left a part of an older record.
    for batch in range(min(needed), batches.stop):
        path, shards = folder.records / f"{batch:020d}", enumerate(store.file(batch).header.shards)
        if not all(shard_path(path, shard, part.changes.repeats).exists() for shard, part in shards):
            raise ChangedMeanwhile("records of shards were removed meanwhile")


def _published(folder: Path) -> dict[str, Any]:
    """Read the position up to which the job has published its records; empty if it has none."""
    path = folder / "published"
    if not path.exists():
        return {}
    with damage_named(path):
        position: dict[str, Any] = json.loads(path.read_bytes())
        return {**position, "batch": int(position["batch"])}


def expect_next(spools: Mapping[Path, Port], job: JobFolder) -> None:
    """Let the copied spools expect the numbers that the copied job will forward next.

    The job may already have sent events of a batch that it had not finished. They get other numbers when the batch is
    run again.
    """
    store = RecordStore(job.records)
    batches = store.batches() if job.records.is_dir() else range(0)
    for spool, origin in spools.items():
        ends = (_end_of(store.file(batch).header, origin) for batch in reversed(batches))
        end = next((end for end in ends if end is not None), None)
        if not batches:
            # The job starts from the beginning, with any numbers.
            _expect(spool, {})
        elif end is not None:
            producers = read_mark(spool).producers.items()
            _expect(
                spool,
                {name: replace(known, next=known.next and min(known.next, end)) for name, known in producers},
            )
        # Records are kept until the spool has their events: without records for the stream, it has all of them.


def _copy_with_events(path: Path, into: Path) -> None:
    # Twice, because a listing may miss a file that is older than one in it, but the next listing does not.
    for _ in range(2):
        link_files(path, into, [LOG])
    mark = _mark(path)
    files = _after_gaps(into / LOG)
    end = files[-1].end if files else mark.end
    if end < mark.end:
        raise ChangedMeanwhile("events were added and removed meanwhile")
    _write(into, mark_in(files[-1]) if end > mark.end else mark)


def _after_gaps(log: Path) -> list[LogFile]:
    """Keep the files after the last gap. The events in a gap were removed meanwhile, because no job needs them."""
    listed = [LogFile(int(path.name[:20]), int(path.name[21:]), path) for path in entries_of(log)]
    begin = max((at for at, (one, next_one) in enumerate(pairwise(listed), 1) if one.end != next_one.first), default=0)
    for file in listed[:begin]:
        file.path.unlink()
    return listed[begin:]


def _copy_mark(path: Path, into: Path) -> None:
    """Copy the end of a spool, so that no position is given twice."""
    mark = _mark(path)
    make_folder(into)
    _write(into, mark)


def _write(spool: Path, mark: Mark) -> None:
    # By the time that a backup is restored, the broker may have given the packet ids in doubt to other messages.
    write_mark(spool, Mark(mark.end, mark.producers), no_steps)


def _end_of(header: Header, origin: Port) -> int | None:
    """Return the number after the last that a batch emitted at a port; None if it emitted nothing there."""
    return max((output.first + output.count for output in header.emitted if output.origin == origin), default=None)


def _expect(spool: Path, producers: Mapping[str, Expected]) -> None:
    _write(spool, Mark(read_mark(spool).end, producers))


def _mark(path: Path) -> Mark:
    """Return the end of a spool, and the numbers that it expects."""
    files = log_files(path / LOG) if (path / LOG).is_dir() else []
    mark = read_mark(path)
    if not files or files[-1].end <= mark.end:
        return mark
    try:
        return mark_in(files[-1])
    except SpoolDamaged as error:
        if files[-1].path.exists():
            raise
        raise ChangedMeanwhile("it was emptied meanwhile") from error


def copy_live(root: Path, into: Path, *, with_spools: bool) -> int:
    """Copy all jobs and spools into a folder on the same file system, and return the number of jobs."""
    make_folder(into)
    retried(partial(_copy, root, into, with_spools=with_spools), into, f"the service in {root}")
    return len(entries_of(into / "jobs"))


def _copy(root: Path, into: Path, *, with_spools: bool) -> None:
    spools = {path.name: path for path in entries_of(root / "spools") if path.is_dir()}
    if with_spools:
        for path in spools.values():
            # The consumers and the events before the jobs, in case the oldest are removed soon.
            link_files(path, into / "spools" / path.name, ["consumers", LOG])
    copy_of_job, copy_of_spool = (_copy_with_batch, _copy_with_events) if with_spools else (_copy_finished, _copy_mark)
    for folder, plan in _downstream_first([JobFolder(path) for path in entries_of(root / "jobs") if path.is_dir()]):
        forwards = plan.forwards if plan is not None else ()
        streams = {bridge_stream(forward.instance, forward.port): forward.origin for forward in forwards}
        between = {
            name: origin for stream, origin in streams.items() if (name := spool_folder(root, stream).name) in spools
        }
        for name in between:
            _copy_spool(copy_of_spool, spools.pop(name), into)
        copied = into / "jobs" / folder.path.name
        retried(partial(copy_of_job, folder.path, copied), copied, f"job {folder.path.name}")
        if not with_spools:
            expect_next({into / "spools" / name: origin for name, origin in between.items()}, JobFolder(copied))
    for path in spools.values():
        _copy_spool(copy_of_spool, path, into)
        if not with_spools and path.name.startswith(quote("bridge/", safe="")):
            # No job forwards this stream now. The next one that does may begin with any number.
            _expect(into / "spools" / path.name, {})
    if with_spools:
        for path in entries_of(into / "jobs"):
            _check_spools(JobFolder(path), into)


def _copy_spool(copy: Callable[[Path, Path], None], path: Path, into: Path) -> None:
    target = into / "spools" / path.name
    retried(partial(copy, path, target), None, f"the spool {path.name}")


def _downstream_first(folders: Iterable[JobFolder]) -> list[tuple[JobFolder, Plan | None]]:
    """Sort jobs so that each follows the jobs that read its streams."""
    plans = {folder.path.name: (folder, _last_plan(folder)) for folder in folders}
    readers: dict[Port, set[str]] = {}
    for name, (_, plan) in plans.items():
        for ingress in plan.ingress if plan is not None else ():
            if isinstance(ingress.supply, Bridged):
                readers.setdefault(ingress.origin, set()).add(name)
    order = TopologicalSorter[str]()
    for name, (_, plan) in plans.items():
        forwards = plan.forwards if plan is not None else ()
        order.add(name, *{reader for forward in forwards for reader in readers.get(forward.origin, ())} - {name})
    try:
        return [plans[name] for name in order.static_order()]
    except CycleError:
        # The plans were never in effect together. A gap between two jobs is counted, not silent.
        return list(plans.values())


def _last_plan(folder: JobFolder) -> Plan | None:
    try:
        entries = folder.entries(1)
    except DAMAGE:
        # The job is copied as it is, in any order, and reports the damage on its start.
        return None
    return entries[-1].plan if entries else None


def _check_spools(folder: JobFolder, into: Path) -> None:
    """Check that a copied job finds all events that it has yet to read. A stopped job skips removed events."""
    if folder.is_stopped():
        return
    store, gone = RecordStore(folder.records), folder.gone()
    batches = store.batches() if folder.records.is_dir() else range(0)
    for stream, position in store.file(batches[-1]).header.end.at.items() if batches else ():
        spool = spool_folder(into, stream)
        files = log_files(spool / LOG) if (spool / LOG).is_dir() else []
        if max(position, gone.get(stream, 0)) < (files[0].first if files else read_mark(spool).end):
            raise ChangedMeanwhile("events were added and removed meanwhile")
