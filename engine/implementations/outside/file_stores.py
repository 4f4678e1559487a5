"""File stores: folders and buckets in which files are written as a whole, under names."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from bridge.files import make_folder, write_whole
from dags import Place
from engine.implementations.outside.contents import label
from engine.implementations.outside.disk_space import check_room
from engine.implementations.outside.guarded_connections import ConnectionGuard, guarded
from engine.implementations.outside.place_usage import PlaceUsage, usage_of
from engine.implementations.outside.remote_folders import opened
from engine.outside import HostBarred
from engine.side_effect import OutsideUnreachable
from engine.tasks.outside import Where

_NAME = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_=.,@+-]*(/[A-Za-z0-9_=][A-Za-z0-9_=.,@+-]*)*")

_LONGEST = 300


class Missing(LookupError):
    """A file store has no file of that name."""


class FileStore(Protocol):
    """A place for files."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file as a whole. Replaces the file of that name."""

    def read(self, name: str, most: int) -> bytes:
        """Read a file. Raises `ValueError` if it has more than `most` bytes."""


def file_store(where: Where) -> FileStore:
    """The file store that a config names."""
    if isinstance(where, Place):
        return LocalFileStore(Path(where.path), usage_of(where))
    found = opened(where)
    guard = partial(guarded, where, found.hosts)
    return RemoteFileStore(found.system, found.path, label(where), renames=found.renames, guard=guard)


def check_name(field: str, name: str) -> str:
    """Refuse a name that leads outside the folder, or that some file systems do not accept.

    >>> check_name("file", "2026/street.svg")
    '2026/street.svg'
    """
    if len(name) > _LONGEST or not _NAME.fullmatch(name) or "tmp" in name.split("/"):
        raise ValueError(
            f"the field {field!r} is not the name of a file: {name[:100]!r}; use letters, digits and _=.,@+- in levels "
            "divided by /, none of which begins with a dot or is tmp"
        )
    return name


class LocalFileStore:
    """A folder of this machine, or one that all machines share."""

    def __init__(self, folder: Path, usage: PlaceUsage) -> None:
        self._folder = folder
        self._usage = usage

    def put(self, name: str, content: bytes) -> None:
        """See `FileStore`."""
        path = self._folder / name
        try:
            make_folder(path.parent)
            check_room(path.parent)
            self._usage.take(len(content))
            write_whole(path, content)
        except OSError as error:
            raise OutsideUnreachable(f"{name} cannot be written: {error.strerror}") from None

    def read(self, name: str, most: int) -> bytes:
        """See `FileStore`."""
        try:
            with (self._folder / name).open("rb") as file:
                return _bounded(name, file.read(most + 1), most)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Missing(f"there is no file {name!r}") from None
        except OSError as error:
            raise OutsideUnreachable(f"{name} cannot be read: {error.strerror}") from None


class RemoteFileStore:
    """A folder or bucket of any file system that fsspec knows."""

    def __init__(
        self,
        system: Any,
        path: str,
        label: str,
        *,
        renames: bool,
        guard: Callable[[], AbstractContextManager[ConnectionGuard]],
    ) -> None:
        self._system = system
        self._path = path.rstrip("/")
        self._label = label
        self._renames = renames
        self._guard = guard

    def put(self, name: str, content: bytes) -> None:
        """See `FileStore`."""
        path = f"{self._path}/{name}"
        with self._reaching("written"):
            if not self._renames:
                self._system.pipe_file(path, content)
                return
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            made = f"{path}.{uuid4().hex}.tmp"
            self._system.pipe_file(made, content)
            self._system.mv(made, path)

    def read(self, name: str, most: int) -> bytes:
        """See `FileStore`."""
        with self._reaching("read"):
            try:
                content: bytes = self._system.cat_file(f"{self._path}/{name}", start=0, end=most + 1)
            except FileNotFoundError:
                content = b""
                found = False
            else:
                found = True
        if not found:
            raise Missing(f"there is no file {name!r}")
        return _bounded(name, content, most)

    @contextmanager
    def _reaching(self, done: str) -> Iterator[None]:
        refused = ""
        try:
            with self._guard() as guard:
                try:
                    yield
                finally:
                    refused = guard.refused
        except HostBarred as barred:
            raise OutsideUnreachable(f"{self._label} cannot be {done}: {barred}") from None
        except Exception as error:  # noqa: BLE001 - each file system raises its own errors
            # The message may contain the URL.
            raise OutsideUnreachable(f"{self._label} cannot be {done}: {refused or type(error).__name__}") from None


def _bounded(name: str, content: bytes, most: int) -> bytes:
    if len(content) > most:
        raise ValueError(f"the file {name!r} has more than {most:,} bytes; raise `most_bytes`")
    return content
