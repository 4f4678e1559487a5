"""The files and folders of a copy, by paths that came from another machine: none leads out of the copy."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

from bridge.files import Steps
from engine.replicas.file_kinds import FOLDERS, has_folder, is_plain, is_sent


class WrongPath(ValueError):
    """A path that must not be in a copy."""


class CopyTree:
    """The folders `jobs`, `spools` and `hosts` of a copy."""

    def __init__(self, place: Path, unfinished: Path, step: Steps) -> None:
        """`unfinished` is where a file is written before it gets its name, on the same file system."""
        self._place = str(place)
        self._unfinished = str(unfinished)
        self._step = step
        self._real: set[str] = set()
        """The folders that are known to be folders, and not links to some."""

    def forget(self) -> None:
        """Look at all folders anew, since others may have worked in them."""
        self._real.clear()

    def check_file(self, path: str) -> None:
        """Refuse the path of a file that is not sent."""
        if not is_sent(path):
            raise WrongPath(f"{path!r} is no path of a host's file")
        self._check_way(path)

    def check_folder(self, path: str) -> None:
        """Refuse the path of a folder that is not sent."""
        parts = path.split("/")
        around = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        if path not in FOLDERS and not (is_plain(path) and all(map(has_folder, around))):
            raise WrongPath(f"{path!r} is no path of a host's folder")
        self._check_way(path)

    def check_removed(self, path: str) -> None:
        """Refuse to remove something outside the copy; inside, anything may be removed."""
        if not is_plain(path):
            raise WrongPath(f"{path!r} is no path in a host's folders")
        self._check_way(path)

    def _check_way(self, path: str) -> None:
        """Refuse a path through a link."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder not in self._real and os.path.islink(f"{self._place}/{folder}"):  # noqa: PTH114 - as below
                raise WrongPath(f"{folder!r} is a link; a copy has its files in its own folders")

    def make(self, folder: str) -> None:
        """Make a folder, and those around it."""
        if folder in self._real:
            return
        if "/" in folder:
            self.make(folder.rpartition("/")[0])
        with suppress(FileExistsError):
            os.mkdir(f"{self._place}/{folder}")  # noqa: PTH102 - strings, since a path for each file costs more
        if os.path.islink(f"{self._place}/{folder}"):  # noqa: PTH114 - as above
            raise WrongPath(f"{folder!r} is a link; a copy has its files in its own folders")
        self._real.add(folder)

    def write(self, path: str, data: bytes, mtime_ns: int) -> None:
        """Write a whole file."""
        handle = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.utime(handle, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(handle)
        self.place_file(self._unfinished, path)

    def place_file(self, waiting: str, path: str) -> None:
        """Give a whole file its name."""
        self.make(path.rpartition("/")[0])
        self._step("rename")
        os.replace(waiting, f"{self._place}/{path}")  # noqa: PTH105 - as above

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._step("remove")
        with suppress(FileNotFoundError):
            os.unlink(f"{self._place}/{path}")  # noqa: PTH108 - as above

    def remove_folder(self, folder: str) -> None:
        """Remove a folder, unless something is in it."""
        self._real = {each for each in self._real if each != folder and not each.startswith(f"{folder}/")}
        self._step("remove folder")
        try:
            os.rmdir(f"{self._place}/{folder}")  # noqa: PTH106 - as above
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
                raise

    def walk(self) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
        """Each folder with the names, sizes and times of its files, whatever they are; links count as files."""
        waiting = [folder for folder in FOLDERS if (Path(self._place) / folder).is_dir()]
        while waiting:
            folder = waiting.pop()
            files: list[tuple[str, int, int]] = []
            with os.scandir(f"{self._place}/{folder}") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{folder}/{entry.name}")
                    else:
                        found = entry.stat(follow_symlinks=False)
                        size = -1 if entry.is_symlink() else found.st_size
                        files.append((entry.name, size, found.st_mtime_ns))
            yield folder, files

    def digest(self, path: str) -> bytes:
        """The digest of a file; nothing that a file has if it is none."""
        try:
            with os.fdopen(os.open(f"{self._place}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                return file_digest(file, "sha256").digest()
        except OSError:
            return b"?"
