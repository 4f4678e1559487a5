"""The folders of a host's root as they were seen last, so that folders that did not change are not listed again."""

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from engine.replicas.file_kinds import has_file, has_folder, is_replaced

_COARSE = 2_000_000_000
"""Nanoseconds: a folder that changed so recently may change again without getting another time."""


class FileVersion(NamedTuple):
    """What tells a file from others of its name."""

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
            found = os.stat(path, follow_symlinks="/" not in folder)  # noqa: PTH116 - a path for each folder costs more
            if not stat.S_ISDIR(found.st_mode):
                return NO_FOLDER
            stamp = (found.st_ino, found.st_mtime_ns)
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
        seen = SeenFolder(stamp=stamp, sure=now - found.st_mtime_ns > _COARSE, files=files, folders=tuple(folders))
        self._seen[folder] = seen
        return seen

    def forget(self, folder: str) -> None:
        """Forget a folder and all in it, because another one has its name."""
        for each in [each for each in self._seen if each == folder or each.startswith(f"{folder}/")]:
            del self._seen[each]

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
                        found = entry.stat(follow_symlinks=False)
                        files[name] = FileVersion(found.st_size, found.st_mtime_ns, found.st_ino)
        return files, folders
