"""A copy of a running host's spool: with its events, or only with its position.

Without the events of spools, a job is copied as of its last finished batch. A spool between jobs must then expect the
numbers that the job gives next, so that no event is accepted twice, and none is taken for another.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from bridge.intake import Expected
from bridge.machine.files import make_folder, no_steps
from bridge.spools.log import LOG, LogFile, Mark, SpoolDamaged, log_files, read_mark, write_mark
from bridge.spools.log_file import mark_in
from engine.plan import Port
from engine.records.job_folder import JobFolder
from engine.records.record_header import Header
from engine.records.record_store import RecordStore
from manager.backup.linked_files import ChangedMeanwhile, entries_of, link_files, retried


def link_early(path: Path, into: Path) -> None:
    """Link the consumers and the events of a spool before the jobs are copied, in case the oldest are removed soon."""
    link_files(path, into / "spools" / path.name, ["consumers", LOG])


def copy_spool(path: Path, into: Path, *, whole: bool) -> None:
    """Copy a spool; `whole` is with its events."""
    target = into / "spools" / path.name
    retried(partial(_copy_whole if whole else _copy_mark, path, target), None, f"the spool {path.name}")


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
            # The job starts from the beginning.
            expect_anything(spool)
        elif end is not None:
            expected = read_mark(spool).producers
            _expect(spool, {name: replace(each, next=_least(each.next, end)) for name, each in expected.items()})
        # Records are kept until the spool has their events: without records for the stream, it has all of them.


def expect_anything(spool: Path) -> None:
    """Let a copied spool accept any number from a producer."""
    _expect(spool, {})


def _copy_whole(path: Path, into: Path) -> None:
    # Twice, because a listing may miss a file that is older than one in it, but the next listing does not.
    for _ in range(2):
        link_files(path, into, [LOG])
    mark = _mark(path)
    files = _after_gaps(into / LOG)
    end = files[-1].end if files else mark.end
    if end < mark.end:
        raise ChangedMeanwhile("events were added and removed meanwhile")
    _write_mark(into, mark_in(files[-1]) if end > mark.end else mark)


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
    _write_mark(into, mark)


def _write_mark(into: Path, mark: Mark) -> None:
    # By the time that a backup is restored, the broker may have given the packet ids in doubt to other messages.
    write_mark(into, Mark(mark.end, mark.producers), no_steps)


def _end_of(header: Header, origin: Port) -> int | None:
    """Return the number after the last that a batch emitted at a port; None if it emitted nothing there."""
    return max((each.first + each.count for each in header.emitted if each.origin == origin), default=None)


def _least(expected: int | None, end: int) -> int | None:
    return None if expected is None else min(expected, end)


def _expect(spool: Path, producers: Mapping[str, Expected]) -> None:
    write_mark(spool, Mark(read_mark(spool).end, producers), no_steps)


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
