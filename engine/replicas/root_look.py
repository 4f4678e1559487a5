"""A look at a host's root: a set of files as a crash at one moment might have left them, taken while the host works.

All names are noted first. What is gone by then may be removed from copies, and what goes later stays for now. Then the
folders are listed again in the order of `file_kinds`, last kind first, so all that a listed file needs is listed too:
it was there before, and either still is, or stays because it was noted. Only if it came and went in between, or went
before it was sent, the look does not hold together, and is taken again.

A look at some folders takes the jobs in them as a whole, with the spools that they read, and removes nothing from
spools: other jobs may need that.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from bridge.spools.log import LOG_FILE_NAME
from engine.replicas.file_kinds import FOLDERS, kind_of
from engine.replicas.plan_needs import NeedsReader
from engine.replicas.root_folders import NO_FOLDER, Files, FileVersion, RootFolders, Tree

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
                needs = self._needs.of(entity)
                if needs is None:
                    return None
                waiting += needs.jobs
        return self._look(early, kept, known, whole=False)

    def _note(self, folder: str, early: Tree) -> None:
        """Note all files in a folder and in the folders in it."""
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
        late += [(_turn(each), each) for spool in kept for each in (spool, f"{spool}/log", f"{spool}/consumers")]
        heapify(late)
        found: Tree = {}
        planned: dict[str, int] = {}
        while late:
            turn, folder = heappop(late)
            if folder.startswith("jobs/") and folder.endswith("/records"):
                # After cuts and what was published, which have records of these batches, and before the records.
                planned[folder] = max(map(_batch, self._folders.seen(f"{folder}/ends").files), default=-1)
            seen = self._folders.seen(folder)
            if seen is NO_FOLDER:
                continue
            found[folder] = seen.files
            for name in seen.folders if folder.startswith("jobs/") else ():
                inner = f"{folder}/{name}"
                # Something new may only be taken up while what it needs is still to be listed.
                if inner not in early and _turn(inner) >= turn:
                    early[inner] = {}
                    heappush(late, (_turn(inner), inner))
            if not whole and folder.endswith("/plans"):
                needs = self._needs.of(folder.removesuffix("/plans"))
                if needs is None:
                    return None
                for spool in needs.spools - kept:
                    kept.add(spool)
                    for each in (spool, f"{spool}/log"):
                        heappush(late, (_turn(each), each))
        return found if self._holds_together(found, early, kept, known, planned) else None

    def _holds_together(
        self, found: Tree, early: Tree, kept: Collection[str], known: Tree, planned: Mapping[str, int]
    ) -> bool:
        """Whether the listed files need nothing that came and went meanwhile; what went meanwhile is added again."""
        for folder, listed in found.items():
            files = listed
            had = known.get(folder, {})
            noted = had if _entity(folder) in kept else early.get(folder, {})
            if noted is files:
                continue
            gone = noted.keys() - files.keys()
            if any(had.get(name) != noted[name] for name in gone):
                return False
            if gone:
                found[folder] = files = {**files, **{name: had[name] for name in gone}}
                if _has_gap(folder, files):
                    return False
            if folder.startswith("jobs/") and folder.count("/") == 1 and not _as_noted(found, folder, files, noted):
                return False
        for records, last in planned.items():
            _cut_off(found, records, last, known)
        spools = (folder for folder in found if folder.startswith("spools/") and folder.count("/") == 1)
        return all(self._agrees(spool, found, known if spool in kept else early) for spool in spools)

    def _agrees(self, spool: str, found: Tree, noted: Tree) -> bool:
        """Whether the mark of a spool is not beyond its log: the files up to it came and went meanwhile."""
        mark, log = found[spool].get(_MARK), found.get(f"{spool}/log", {})
        if mark is None:
            return True
        agreed = self._agreed.get(spool)
        if agreed is not None and agreed[0] is log and agreed[1] == mark:
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
            with (self._root / spool / _MARK).open("rb") as file:
                content = file.read()
            end = int(json.loads(content)["end"])
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


def _as_noted(found: Tree, job: str, files: Files, noted: Files) -> bool:
    """Take the published position of a job as it was noted; False if another job has its name since."""
    if noted.get(_LEASE) not in {None, files.get(_LEASE)}:
        return False
    if files.get(_PUBLISHED) != (before := noted.get(_PUBLISHED)):
        found[job] = {name: version for name, version in files.items() if name != _PUBLISHED}
        if before is not None:
            found[job][_PUBLISHED] = before
    return True


def _cut_off(found: Tree, records: str, last: int, known: Tree) -> None:
    """Leave out what is of batches that were planned only after the look came to records: some of it may be gone."""
    for folder in (records, f"{records}/ends", f"{records}/shards"):
        files, had = found.get(folder, {}), known.get(folder, {})
        late = {name for name in files if _batch(name) > last and name not in had}
        if late:
            found[folder] = {name: version for name, version in files.items() if name not in late}


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
