"""What a store says of a host's files: the heads of its objects, and the list of files that they make together."""

from collections.abc import Iterable, Iterator

import msgspec

SITTING_LENGTH = 32
"""The characters of the name of a sitting: a term, a number and a random name."""


class StoredPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file in an object; of all objects, rounds and packs have some."""

    object: str
    """Empty for the round itself."""
    at: int
    size: int


class StoredFile(msgspec.Struct, frozen=True, array_like=True):
    """A file, and where its parts are."""

    path: str
    size: int
    mtime_ns: int
    digest: bytes
    parts: tuple[StoredPart, ...]


class StoredClaim(msgspec.Struct, frozen=True):
    """Who writes."""

    machine: str
    root: str


class StoredRound(msgspec.Struct, frozen=True):
    """What a round changes."""

    files: tuple[StoredFile, ...] = ()
    folders: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    removed_folders: tuple[str, ...] = ()
    portion: bool = False
    """Whether it is a part of something longer, after which no host could begin yet."""


class StoredState(msgspec.Struct, frozen=True):
    """All files of a host."""

    root: str
    """The id of the root that they are from, or were restored to."""
    machine: str
    whole: bool
    """Whether a host could begin from them."""
    files: tuple[StoredFile, ...] = ()
    folders: tuple[str, ...] = ()


class StoredFiles:
    """The files and folders of a host, as rounds change them."""

    def __init__(self, files: Iterable[StoredFile] = (), folders: Iterable[str] = ()) -> None:
        self.files = {file.path: file for file in files}
        self.folders = dict.fromkeys(folders)

    def copy(self) -> "StoredFiles":
        """Another one, with the same files."""
        return StoredFiles(self.files.values(), self.folders)

    def apply(self, done: StoredRound, name: str) -> None:
        """Change what a round changes, in its order; `name` is that of its object."""
        for folder in done.folders:
            self._make(folder)
        for file in done.files:
            self._make(file.path.rpartition("/")[0])
            self.files[file.path] = msgspec.structs.replace(
                file, parts=tuple(part if part.object else StoredPart(name, part.at, part.size) for part in file.parts)
            )
        for path in done.removed:
            self.files.pop(path, None)
        for folder in done.removed_folders:
            if not any(path.startswith(f"{folder}/") for path in (*self.files, *self.folders)):
                self.folders.pop(folder, None)

    def live(self) -> dict[str, int]:
        """The bytes of each object that files need."""
        found: dict[str, int] = {}
        for part in self._parts():
            found[part.object] = found.get(part.object, 0) + part.size
        return found

    def _parts(self) -> Iterator[StoredPart]:
        for file in self.files.values():
            yield from file.parts

    def _make(self, folder: str) -> None:
        while folder and folder not in self.folders:
            self.folders[folder] = None
            folder = folder.rpartition("/")[0]
