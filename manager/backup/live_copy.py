"""A live copy of everything that jobs continue from, taken while they run.

It consists of hard links, which take no time, so hardly a batch passes between the first and the last. The order of
linking keeps the parts consistent: the jobs that read a stream come before its spool, and the spool before the job that
forwards it. So no spool is behind the events that a job had read, and no job is behind the events that it had
forwarded. With the events of spools, the positions of their consumers come first, so that no event is missing that a
job still needs.

Without the events of spools, a job is copied as of its last finished batch, because no later one could be run again.
Nor does it stay a consumer of its spools: on its start it notices that it is none, and skips the removed events.
"""

from collections.abc import Iterable
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from urllib.parse import quote

from bridge.machine.files import make_folder
from bridge.spools.log import LOG, log_files, read_mark
from engine.plan import Plan
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder, spool_folder
from engine.records.record_store import RecordStore
from engine.supply import Bridged
from manager.backup.job_copy import copy_job
from manager.backup.linked_files import ChangedMeanwhile, entries_of, retried
from manager.backup.spool_copy import copy_spool, expect_anything, expect_next, link_early


def copy_live(root: Path, into: Path, *, with_spools: bool) -> int:
    """Copy all jobs and spools into a folder on the same file system, and return the number of jobs."""
    make_folder(into)
    retried(partial(_copy, root, into, with_spools=with_spools), into, f"the service in {root}")
    return len(entries_of(into / "jobs"))


def _copy(root: Path, into: Path, *, with_spools: bool) -> None:
    spools = {path.name: path for path in entries_of(root / "spools") if path.is_dir()}
    if with_spools:
        for path in spools.values():
            link_early(path, into)
    for folder, plan in _downstream_first([JobFolder(path) for path in entries_of(root / "jobs") if path.is_dir()]):
        forwards = plan.forwards if plan is not None else ()
        between = {spool_folder(root, f"bridge/{each.instance}:{each.port}").name: each.origin for each in forwards}
        between = {name: origin for name, origin in between.items() if name in spools}
        for name in between:
            copy_spool(spools.pop(name), into, whole=with_spools)
        copied = into / "jobs" / folder.path.name
        copy_job(folder.path, copied, whole=with_spools)
        if not with_spools:
            expect_next({into / "spools" / name: origin for name, origin in between.items()}, JobFolder(copied))
    for path in spools.values():
        copy_spool(path, into, whole=with_spools)
        if not with_spools and path.name.startswith(quote("bridge/", safe="")):
            # No job forwards this stream now. The next one that does may begin with any number.
            expect_anything(into / "spools" / path.name)
    if with_spools:
        for path in entries_of(into / "jobs"):
            _check_spools(JobFolder(path), into)


def _downstream_first(folders: Iterable[JobFolder]) -> list[tuple[JobFolder, Plan | None]]:
    """Sort jobs so that each follows the jobs that read its streams."""
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
