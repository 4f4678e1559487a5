"""A look at a host's root: a set of files as a crash at one moment might have left them, taken while the host works.

All names are noted first. What is gone by then may be removed from copies, and what goes later stays for now. Then the
folders are listed again in the order of `file_kinds`, last kind first, so all that a listed file needs is listed too:
it was there before, and either still is, or stays because it was noted. Only if it came and went in between, or went
before it was sent, the look does not hold together, and is taken again.

A look at some folders takes the jobs in them as a whole, with the spools that their logged plans read and the jobs
whose states they import. It removes nothing from spools: other jobs may need that.

Folders are remembered as they were seen last, so that those that did not change are not listed again.
"""

import json
import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bridge.spools.log import LOG_FILE_NAME
from engine.plan_messages import read_entry
from engine.records.job_folder import spool_folder
from engine.replicas.file_kinds import FOLDERS, has_file, has_folder, is_replaced, kind_of

_COARSE = 2_000_000_000
"""Nanoseconds: a folder that changed so recently may change again without getting another time."""


class FileVersion(NamedTuple):
    """The properties that distinguish a file from others of its name."""

    size: int
    mtime_ns: int
    inode: int


Files = dict[str, FileVersion]
"""The files in a folder, by their names."""
Tree = dict[str, Files]
"""The files in each folder, by its path in the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFolder:
    """A folder as it was seen; made by `RootFolders`."""

    stamp: tuple[int, int] = (0, 0)
    sure: bool = False
    """Whether another change would have given it another time."""
    files: Files = field(default_factory=dict)
    folders: tuple[str, ...] = ()


NO_FOLDER = SeenFolder()
"""A folder that is not there."""


class RootFolders:
    """The folders of a root; used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._seen: dict[str, SeenFolder] = {}

    def seen(self, folder: str) -> SeenFolder:
        """The files and folders in a folder that are to be sent."""
        path = f"{self._root}/{folder}"
        before = self._seen.get(folder, NO_FOLDER)
        try:
            # Only the folders of the root itself may be links, such as to another disk.
            folder_stat = os.stat(path, follow_symlinks="/" not in folder)  # noqa: PTH116 - a path for each folder costs more
            if not stat.S_ISDIR(folder_stat.st_mode):
                return NO_FOLDER
            stamp = (folder_stat.st_ino, folder_stat.st_mtime_ns)
            if before.sure and before.stamp == stamp:
                return before
            now = time.time_ns()
            files, folders = self._listed(folder, path, before.files if before.stamp[0] == stamp[0] else {})
        except (FileNotFoundError, NotADirectoryError):
            self._seen.pop(folder, None)
            return NO_FOLDER
        if files == before.files:
            # So that it can be seen at once that nothing changed.
            files = before.files
        seen = SeenFolder(
            stamp=stamp, sure=now - folder_stat.st_mtime_ns > _COARSE, files=files, folders=tuple(folders)
        )
        self._seen[folder] = seen
        return seen

    def forget(self, folder: str) -> None:
        """Forget a folder and all in it, because another one has its name."""
        for seen in [seen for seen in self._seen if seen == folder or seen.startswith(f"{folder}/")]:
            del self._seen[seen]

    def _listed(self, folder: str, path: str, before: Files) -> tuple[Files, list[str]]:
        files: Files = {}
        folders: list[str] = []
        # Of files that never change only new ones are looked at: a job has hundreds.
        known = {} if is_replaced(f"{folder}/") or folder.count("/") == 1 else before
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if (old := known.get(name)) is not None and old.inode == entry.inode():
                    files[name] = old
                elif entry.is_dir(follow_symlinks=False):
                    if has_folder(f"{folder}/{name}"):
                        folders.append(name)
                elif has_file(f"{folder}/{name}") and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        file_stat = entry.stat(follow_symlinks=False)
                        files[name] = FileVersion(file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ino)
        return files, folders


class PlanNeeds(NamedTuple):
    """The folders that a job needs besides its own."""

    spools: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()


class NeedsReader:
    """Reads each plan once; used by one thread."""

    def __init__(self, root: Path, folders: RootFolders) -> None:
        self._root = root
        self._folders = folders
        self._read: dict[str, dict[str, tuple[FileVersion, PlanNeeds]]] = {}

    def needs_of(self, job: str) -> PlanNeeds | None:
        """The needs of the job in a folder; None if a plan cannot be read."""
        files = self._folders.seen(f"{job}/plans").files
        before = self._read.get(job, {})
        now: dict[str, tuple[FileVersion, PlanNeeds]] = {}
        for name, version in files.items():
            if (read := before.get(name)) is not None and read[0] == version:
                now[name] = read
                continue
            try:
                plan = read_entry((self._root / job / "plans" / name).read_bytes()).plan
            except FileNotFoundError:
                continue
            except ValueError:
                return None
            now[name] = (
                version,
                PlanNeeds(
                    frozenset(f"spools/{spool_folder(Path(), stream).name}" for stream in plan.streams),
                    frozenset(f"jobs/{quote(state.job, safe='')}" for state in plan.imports) - {job},
                ),
            )
        self._read[job] = now
        needs = [needed for _, needed in now.values()] or [PlanNeeds()]
        return PlanNeeds(*(frozenset().union(*folders) for folders in zip(*needs, strict=True)))


_MARK, _LEASE, _PUBLISHED = "high-water", "lease", "published"


class RootLook:
    """Takes looks at a root; used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders = RootFolders(root)
        self._needs = NeedsReader(root, self._folders)
        self._leases: dict[str, FileVersion | None] = {}
        self._mark_ends: dict[str, tuple[FileVersion, int]] = {}
        self._agreed: dict[str, tuple[Files, FileVersion]] = {}
        """For each spool the log and the mark that were found to agree last."""

    def whole(self, known: Tree) -> Tree | None:
        """All files of the host; None if what was seen does not hold together. `known` are the files in the copy."""
        tops = {top: self._folders.seen(top) for top in FOLDERS}
        early: Tree = {top: {} for top, seen in tops.items() if seen is not NO_FOLDER}
        for top, seen in tops.items():
            for name in seen.folders:
                self._note(f"{top}/{name}", early)
        return self._look(early, set(), known, whole=True)

    def part(self, entities: Iterable[str], known: Tree) -> Tree | None:
        """The files of some jobs, spools and hosts, and of what they need; None if that takes a look at all."""
        waiting, early, kept = list(entities), Tree(), set[str]()
        while waiting:
            entity = waiting.pop()
            if entity in early or entity in kept:
                continue
            if entity.startswith("spools/"):
                kept.add(entity)
                continue
            self._note(entity, early)
            if entity.startswith("jobs/"):
                if (needs := self._needs.needs_of(entity)) is None:
                    return None
                waiting += needs.jobs
        return self._look(early, kept, known, whole=False)

    def _note(self, folder: str, early: Tree) -> None:
        seen = self._folders.seen(folder)
        if folder.count("/") == 1:
            lease = seen.files.get(_LEASE)
            if self._leases.get(folder, lease) != lease:
                # Another job has this name now, and may even have got files of the same numbers.
                self._folders.forget(folder)
                seen = self._folders.seen(folder)
            self._leases[folder] = lease
        if seen is not NO_FOLDER:
            early[folder] = seen.files
            for name in seen.folders:
                self._note(f"{folder}/{name}", early)

    def _look(self, early: Tree, kept: set[str], known: Tree, *, whole: bool) -> Tree | None:
        """List what was noted again, in order; nothing is removed from the spools that are kept."""
        late = [(_turn(folder), folder) for folder in early]
        late += [(_turn(place), place) for spool in kept for place in (spool, f"{spool}/log", f"{spool}/consumers")]
        heapify(late)
        look: Tree = {}
        planned: dict[str, int] = {}
        while late:
            turn, folder = heappop(late)
            if folder.startswith("jobs/") and folder.endswith("/records"):
                # After cuts and what was published, which have records of these batches, and before the records.
                planned[folder] = max(map(_batch, self._folders.seen(f"{folder}/ends").files), default=-1)
            seen = self._folders.seen(folder)
            if seen is NO_FOLDER:
                continue
            look[folder] = seen.files
            for name in seen.folders if folder.startswith("jobs/") else ():
                inner = f"{folder}/{name}"
                # Something new may only be taken up while what it needs is still to be listed.
                if inner not in early and _turn(inner) >= turn:
                    early[inner] = {}
                    heappush(late, (_turn(inner), inner))
            if not whole and folder.endswith("/plans"):
                if (needs := self._needs.needs_of(folder.removesuffix("/plans"))) is None:
                    return None
                for spool in needs.spools - kept:
                    kept.add(spool)
                    for place in (spool, f"{spool}/log"):
                        heappush(late, (_turn(place), place))
        return look if self._holds_together(look, early, kept, known, planned) else None

    def _holds_together(
        self, look: Tree, early: Tree, kept: Collection[str], known: Tree, planned: Mapping[str, int]
    ) -> bool:
        """Whether the listed files need nothing that came and went meanwhile; what went meanwhile is added again."""
        for folder, files in look.items():
            had = known.get(folder, {})
            noted = had if _entity(folder) in kept else early.get(folder, {})
            if noted is files:
                continue
            gone = noted.keys() - files.keys()
            if any(had.get(name) != noted[name] for name in gone):
                return False
            if gone:
                files = look[folder] = {**files, **{name: had[name] for name in gone}}  # noqa: PLW2901 - what went too
                if _has_gap(folder, files):
                    return False
            if folder.startswith("jobs/") and folder.count("/") == 1 and not _as_noted(look, folder, files, noted):
                return False
        for records, last in planned.items():
            _cut_off(look, records, last, known)
        spools = (folder for folder in look if folder.startswith("spools/") and folder.count("/") == 1)
        return all(self._agrees(spool, look, known if spool in kept else early) for spool in spools)

    def _agrees(self, spool: str, look: Tree, noted: Tree) -> bool:
        """Whether the mark of a spool is not beyond its log: the files up to it came and went meanwhile."""
        mark, log = look[spool].get(_MARK), look.get(f"{spool}/log", {})
        if mark is None:
            return True
        if (agreed := self._agreed.get(spool)) is not None and agreed[0] is log and agreed[1] == mark:
            return True
        if not log:
            return noted.get(spool, {}).get(_MARK) == mark
        end = self._end_of(spool, mark)
        if end is None or end > int(max(log)[21:]):
            return False
        self._agreed[spool] = log, mark
        return True

    def _end_of(self, spool: str, mark: FileVersion) -> int | None:
        """The end of a log by its mark; None if that was replaced, or is damaged."""
        if (read := self._mark_ends.get(spool)) is not None and read[0] == mark:
            return read[1]
        try:
            end = int(json.loads((self._root / spool / _MARK).read_bytes())["end"])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        self._mark_ends[spool] = mark, end
        return end


def _turn(folder: str) -> int:
    """The place of a folder in the order of a look, the least first."""
    # The lease of a job comes last: if it is still the same, so was the job all the while.
    return -kind_of(folder) if folder.count("/") > 1 else 0


def _entity(folder: str) -> str:
    return "/".join(folder.split("/", 2)[:2])


def _as_noted(look: Tree, job: str, files: Files, noted: Files) -> bool:
    """Take the published position of a job as it was noted; False if another job has its name since."""
    if noted.get(_LEASE) not in {None, files.get(_LEASE)}:
        return False
    if files.get(_PUBLISHED) != (before := noted.get(_PUBLISHED)):
        look[job] = {name: version for name, version in files.items() if name != _PUBLISHED}
        if before is not None:
            look[job][_PUBLISHED] = before
    return True


def _cut_off(look: Tree, records: str, last: int, known: Tree) -> None:
    """Leave out what is of batches that were planned only after the look came to records: some of it may be gone."""
    for folder in (records, f"{records}/ends", f"{records}/shards"):
        files, had = look.get(folder, {}), known.get(folder, {})
        if late := {name for name in files if _batch(name) > last and name not in had}:
            look[folder] = {name: version for name, version in files.items() if name not in late}


def _batch(name: str) -> int:
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else -1


def _has_gap(folder: str, files: Files) -> bool:
    """Whether files that follow each other have a gap."""
    if folder.startswith("spools/") and folder.endswith("/log"):
        names = sorted(filter(LOG_FILE_NAME.fullmatch, files))
        return any(one[21:] != following[:20] for one, following in pairwise(names))
    if folder.endswith(("/records", "/plans")):
        numbers = sorted(int(name) for name in files if name.isdigit())
        return bool(numbers) and numbers[-1] - numbers[0] + 1 != len(numbers)
    return False
