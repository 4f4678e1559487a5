"""The list of the files that a source takes, in the order in which it takes them, in a folder beside its spool.

A file is on the list, durably, before the first event of it is spooled. So its number on the list, and a row in it, say
all about what was spooled already, however many files were taken. The spool keeps these two with the events, and they
agree after a crash at any instruction: what is on the list from that number on was not taken, and no name is on it
twice, unless it was withdrawn in between.

A file that is gone before any of it was taken is withdrawn: it is on the list once more, as such. Only the last entry
of a name counts, so one that was withdrawn is passed over even if its file is there again; that is a new file then.

The list is in files of up to a thousand names, which never change. The last one is replaced by one of another name that
has more: that is complete before the old one goes, and where both are there, the longer one counts. So a peer may copy
the folder as it does a log; it has to have a list that is at least as long as the spool says.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bridge.files import Steps, clear_unfinished, make_folder, no_steps, write_whole

_NAME = re.compile(r"(\d{20})-(\d{20})")
"""The number of the first name in a file, and the one after its last."""
_MOST_NAMES = 1_000
"""Names in a file: as many are written again for each new one, at most."""


_WITHDRAWN = -1


class ListedFile(NamedTuple):
    """A file on the list."""

    name: str
    version: int
    """What it was like, as a number; negative if it is withdrawn."""


class FileListDamaged(RuntimeError):
    """A file of the list that cannot be read or is missing."""


class FileList:
    """The list in a folder; used by one thread."""

    def __init__(self, folder: Path, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step
        make_folder(folder)
        clear_unfinished(folder)
        self._files: list[ListedFile] = []
        self._last: Path | None = None
        """The last file, if it has room for more names."""
        for path, end in self._paths():
            self._files += _read(path)
            if len(self._files) != end:
                raise FileListDamaged(f"{path} does not hold the names that its own name says; restore it")
            self._last = path if end % _MOST_NAMES else None
        self._numbers: dict[str, int] = {}
        self._count(0)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> ListedFile:
        return self._files[number]

    def number(self, name: str) -> int | None:
        """The number of a file; None if it is not on the list, or withdrawn."""
        return self._numbers.get(name)

    def withdraw(self, name: str) -> None:
        """Durably take a file for one that is not on the list."""
        self.append([ListedFile(name, _WITHDRAWN)])

    def note(self, number: int, version: int) -> None:
        """Remember what a file is like by now, until the list is opened again."""
        self._files[number] = self._files[number]._replace(version=version)

    def append(self, files: Sequence[ListedFile]) -> None:
        """Make more entries durable."""
        while files:
            before = len(self._files)
            begin = before // _MOST_NAMES * _MOST_NAMES
            room = begin + _MOST_NAMES - before
            self._files += files[:room]
            files = files[room:]
            self._count(before)
            path = self._folder / f"{begin:020d}-{len(self._files):020d}"
            write_whole(path, json.dumps(self._files[begin:]).encode(), self._step)
            if self._last is not None:
                self._step("remove")
                self._last.unlink()
            self._last = path if len(self._files) % _MOST_NAMES else None

    def clear(self) -> None:
        """Remove all that is on the list."""
        for path, _ in reversed(self._paths()):
            path.unlink()
        self._files, self._numbers, self._last = [], {}, None

    def _count(self, first: int) -> None:
        """Note the numbers of names from an entry on."""
        for number in range(first, len(self._files)):
            name, version = self._files[number]
            if version == _WITHDRAWN:
                self._numbers.pop(name, None)
            else:
                self._numbers[name] = number

    def _paths(self) -> list[tuple[Path, int]]:
        """The files, without those that a longer one has replaced, which are removed; each with the number after it."""
        longest: dict[int, int] = {}
        for first, end in sorted(_numbers(path.name for path in self._folder.iterdir())):
            if first in longest:
                self._path(first, longest[first]).unlink()
            longest[first] = end
        return [(self._path(first, end), end) for first, end in longest.items()]

    def _path(self, first: int, end: int) -> Path:
        return self._folder / f"{first:020d}-{end:020d}"


def _numbers(names: Iterable[str]) -> Iterable[tuple[int, int]]:
    return [(int(match[1]), int(match[2])) for match in map(_NAME.fullmatch, names) if match is not None]


def _read(path: Path) -> list[ListedFile]:
    try:
        return [ListedFile(str(name), int(version)) for name, version in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError) as error:
        raise FileListDamaged(f"{path} cannot be read: {error}; restore it") from error
