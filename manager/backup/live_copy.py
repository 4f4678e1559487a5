"""A picture of what jobs go on from, taken while they run: links to files that never change once they are there.

Links cost no time, so hardly a batch passes from the first to the last. What belongs together is held together by the
order in which it is linked:

- Of a job first what was published and cut, then Spark's checkpoint, and then the records of the batches in that: what
  is pruned or added meanwhile is noticed, and the picture is taken again.
- Jobs that read a stream before its spool, and that before the job that it comes from: so no job is behind what the
  next one had from it, and no spool behind what a job had read.

Without what lay in the spools a job is taken at the last batch that it had finished, since no other can be run again.
A spool between jobs then expects what that job gives next, so that nothing is taken twice, and nothing for another.
Nor does a job stay a consumer of its spools then: on its start it sees that it is none, and passes over what is gone.
With the spools its consumers' positions are taken first, so that nothing that a job still needs is missing.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bridge.intake import Expected
from bridge.machine.files import make_folder, no_steps
from bridge.spools.log import LOG, LogFile, Mark, SpoolDamaged, log_files, read_mark, write_mark
from bridge.spools.log_file import expected_in
from engine.plan import Plan, Port
from engine.records.damage import DAMAGE, damage_named
from engine.records.job_folder import JobFolder, spool_folder
from engine.records.kept_cuts import KeptCut
from engine.records.record_file import Header
from engine.records.record_store import RecordStore
from engine.supply import Bridged
from manager.backup.archive import BackupRefused

TRIES = 5
"""How often a picture is taken of a job or a spool that moves on too fast."""


class Moved(Exception):
    """Something went on so far meanwhile that what was linked does not belong together."""


def copy_live(root: Path, into: Path, *, with_spools: bool) -> int:
    """Link all that jobs go on from below a folder of the same file system; how many jobs they are."""
    make_folder(into)
    _again(partial(_picture, root, into, with_spools=with_spools), into, f"what runs in {root}")
    return len(_below(into / "jobs"))


def _picture(root: Path, into: Path, *, with_spools: bool) -> None:
    spools = {path.name: path for path in _below(root / "spools") if path.is_dir()}
    if with_spools:
        for path in spools.values():
            _link_all(path, into / "spools" / path.name, ["consumers", LOG])
    for folder, plan in _downstream_first([JobFolder(path) for path in _below(root / "jobs") if path.is_dir()]):
        forwards = plan.forwards if plan is not None else ()
        between = {spool_folder(root, f"bridge/{each.instance}:{each.port}").name: each.origin for each in forwards}
        between = {name: origin for name, origin in between.items() if name in spools}
        for name in between:
            _take_spool(spools.pop(name), into, whole=with_spools)
        taken = into / "jobs" / folder.path.name
        _take_job(folder.path, taken, whole=with_spools)
        if not with_spools:
            _expect_no_more({into / "spools" / name: origin for name, origin in between.items()}, JobFolder(taken))
    for path in spools.values():
        _take_spool(path, into, whole=with_spools)
        if not with_spools and path.name.startswith(quote("bridge/", safe="")):
            # Nobody forwards it now. When somebody does again, that tells which number comes.
            _expect(into / "spools" / path.name, {})
    if with_spools:
        for path in _below(into / "jobs"):
            _check_spools(JobFolder(path), into)


def _downstream_first(folders: Iterable[JobFolder]) -> list[tuple[JobFolder, Plan | None]]:
    """Jobs, each after those that read what it forwards."""
    plans = {folder.path.name: (folder, _last_plan(folder)) for folder in folders}
    readers: dict[tuple[int, str], set[str]] = {}
    for name, (_, plan) in plans.items():
        for ingress in plan.ingress if plan is not None else ():
            if isinstance(ingress.supply, Bridged):
                readers.setdefault((ingress.instance, ingress.port), set()).add(name)
    order = TopologicalSorter[str]()
    for name, (_, plan) in plans.items():
        forwards = plan.forwards if plan is not None else ()
        order.add(
            name, *{reader for each in forwards for reader in readers.get((each.instance, each.port), ())} - {name}
        )
    try:
        return [plans[name] for name in order.static_order()]
    except CycleError:
        # Of plans that were never in effect at once; a gap between two jobs is counted, and not silent.
        return list(plans.values())


def _last_plan(folder: JobFolder) -> Plan | None:
    try:
        entries = folder.entries(1)
    except DAMAGE:
        # It is taken as it is, in any order, and says on its start what is damaged.
        return None
    return entries[-1].plan if entries else None


def _take_job(path: Path, into: Path, *, whole: bool) -> None:
    _again(partial(_job_whole if whole else _job_finished, path, into), into, f"job {path.name}")


def _job_whole(path: Path, into: Path) -> None:
    """A job with the batch that it was about to run."""
    _link_all(path, into, ["published", "cuts"])
    _link_all(path, into, ["checkpoint"])
    planned = max(_numbers(into / "checkpoint" / "offsets"), default=-1)
    _link_all(path, into, ["records"], most=planned)
    # Attempts are those of processes that live; verdicts are for good.
    _link_all(path, into, ["attempts"], ending=".json")
    _link_all(path, into, ["plans", "runs", "stopped", "gone"])
    _check_job(into, range(planned - 1, planned + 1))


def _job_finished(path: Path, into: Path) -> None:
    """A job as it was after the last batch that it had finished."""
    finished = max(_numbers(path / "checkpoint" / "commits"), default=-1)
    if finished >= 0:
        _link_all(path, into, ["published", "cuts"])
        _link_all(path, into, ["checkpoint", "records"], most=finished)
    _link_all(path, into, ["plans", "runs", "stopped", "gone"])
    for each in JobFolder(into).cuts.all() if (into / "cuts").is_dir() else ():
        if each.batch > finished:
            _cut_path(into, each).unlink()
    if (told := _published(into)) and told["batch"] > finished + 1:
        # The link is the job's own file; it must not be written into.
        (into / "published").unlink()
        (into / "published").write_text(json.dumps({**told, "batch": finished + 1}))
    _check_job(into, range(finished, finished + 1))


def _check_job(into: Path, last: range) -> None:
    """See that the records are there which a job goes on from."""
    folder = JobFolder(into)
    batches = RecordStore(folder.records).batches() if folder.records.is_dir() else range(0)
    if not batches:
        if last[-1] > 0:
            raise Moved("its records were removed meanwhile")
        return
    needed = [RecordStore(folder.records).base(batches[-1]), *(cut.batch for cut in folder.cuts.all())]
    if told := _published(into):
        needed.append(min(told["batch"], batches[-1]))
    names = set(_numbers(folder.records))
    begins = RecordStore(folder.records).file(batches[0]).header.start.entry
    if begins and begins not in _numbers(folder.plans):
        raise Moved("its plans were removed meanwhile")
    if batches[-1] not in last or batches[0] > min(needed) or names != set(batches):
        raise Moved("its records were removed meanwhile")


def _published(folder: Path) -> dict[str, Any]:
    """What a job has written down of how far its records have left."""
    path = folder / "published"
    if not path.exists():
        return {}
    with damage_named(path):
        told: dict[str, Any] = json.loads(path.read_bytes())
        return {**told, "batch": int(told["batch"])}


def _check_spools(folder: JobFolder, into: Path) -> None:
    """See that what a job has yet to read is there; one that is stopped passes over what went when it is started."""
    if folder.is_stopped():
        return
    store, gone = RecordStore(folder.records), folder.gone()
    batches = store.batches() if folder.records.is_dir() else range(0)
    for stream, position in store.file(batches[-1]).header.end.at.items() if batches else ():
        spool = spool_folder(into, stream)
        files = log_files(spool / LOG) if (spool / LOG).is_dir() else []
        if max(position, gone.get(stream, 0)) < (files[0].first if files else read_mark(spool).end):
            raise Moved("events came and went meanwhile")


def _take_spool(path: Path, into: Path, *, whole: bool) -> None:
    target = into / "spools" / path.name
    _again(partial(_spool_whole if whole else _spool_mark, path, target), None, f"the spool {path.name}")


def _spool_whole(path: Path, into: Path) -> None:
    """A spool with what lies in it: of which its oldest part was linked before the jobs, lest it be gone by now."""
    # Twice: a listing may lack a file that is older than one in it, but the next one does not.
    for _ in range(2):
        _link_all(path, into, [LOG])
    mark = _mark(path)
    files = _after_holes(into / LOG)
    end = files[-1].end if files else mark.end
    if end < mark.end:
        raise Moved("events came and went meanwhile")
    write_mark(into, Mark(end, expected_in(files[-1]) if end > mark.end else mark.producers), no_steps)


def _after_holes(log: Path) -> list[LogFile]:
    """The files behind which nothing is missing; what lay in a hole was removed meanwhile, as needed by nobody."""
    listed = [LogFile(int(path.name[:20]), int(path.name[21:]), path) for path in _below(log)]
    begin = max((at for at, (one, next_one) in enumerate(pairwise(listed), 1) if one.end != next_one.first), default=0)
    for file in listed[:begin]:
        file.path.unlink()
    return listed[begin:]


def _spool_mark(path: Path, into: Path) -> None:
    """Where a spool ends, so that no position is given twice."""
    mark = _mark(path)
    make_folder(into)
    write_mark(into, mark, no_steps)


def _expect_no_more(spools: Mapping[Path, Port], job: JobFolder) -> None:
    """Have spools expect of what a job forwards to them no number that it has yet to give.

    A batch that it had not finished may have left already. What that gave goes by other numbers when it is run again.
    """
    store = RecordStore(job.records)
    batches = store.batches() if job.records.is_dir() else range(0)
    for spool, origin in spools.items():
        ends = (_end_of(store.file(batch).header, origin) for batch in reversed(batches))
        end = next((end for end in ends if end is not None), None)
        if not batches:
            # It begins anew.
            _expect(spool, {})
        elif end is not None:
            expected = read_mark(spool).producers
            _expect(spool, {name: replace(each, next=_least(each.next, end)) for name, each in expected.items()})
        # Records stay until the spool has what they gave: where none is left it has all of it.


def _end_of(header: Header, origin: Port) -> int | None:
    """The number after the last that a batch gave at a port; None where it gave nothing there."""
    return max((each.first + each.count for each in header.emitted if each.origin == origin), default=None)


def _least(expected: int | None, end: int) -> int | None:
    return None if expected is None else min(expected, end)


def _expect(spool: Path, producers: Mapping[str, Expected]) -> None:
    write_mark(spool, Mark(read_mark(spool).end, producers), no_steps)


def _mark(path: Path) -> Mark:
    """How far a spool is, and what it expects."""
    files = log_files(path / LOG) if (path / LOG).is_dir() else []
    mark = read_mark(path)
    if not files or files[-1].end <= mark.end:
        return mark
    try:
        return Mark(files[-1].end, expected_in(files[-1]))
    except SpoolDamaged as error:
        if files[-1].path.exists():
            raise
        raise Moved("it was emptied meanwhile") from error


def _again(take: Callable[[], None], into: Path | None, what: str) -> None:
    """Take a picture until what is on it belongs together."""
    for _ in range(TRIES):
        if into is not None:
            _clear(into)
        with suppress(Moved):
            try:
                take()
            except DAMAGE as error:
                raise BackupRefused(f"{what}: {error}") from error
            return
    raise BackupRefused(f"{what} goes on too fast for a picture of it, or is damaged; try again, or stop the service")


def _link_all(source: Path, target: Path, names: Iterable[str], *, most: int | None = None, ending: str = "") -> None:
    """Link files and all files in folders; of those that are named by a batch, those up to one."""
    for name in names:
        path = source / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = file.relative_to(source)
            # What is being written has no place in it, nor has what only a living process means something by.
            if not file.is_file() or "tmp" in relative.parts or file.name.startswith(".") or file.name == "lease":
                continue
            if most is not None and file.name.isdigit() and int(file.name) > most:
                continue
            if not file.name.endswith(ending):
                continue
            linked = target / relative
            make_folder(linked.parent)
            with suppress(FileNotFoundError, FileExistsError):
                linked.hardlink_to(file)


def _numbers(folder: Path) -> Iterator[int]:
    return (int(path.name) for path in _below(folder) if path.name.isdigit())


def _below(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _cut_path(into: Path, cut: KeptCut) -> Path:
    return into / "cuts" / f"{quote(cut.name, safe='')}.{cut.batch:020d}"


def _clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else ():
        path.rmdir() if path.is_dir() else path.unlink()
