"""The archive: a tar whose last members are a manifest, which has the checksum of all others, and the manifest's own.

Whatever is missing, cut off, changed or added is found before anything is taken out of it.
"""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from bridge.machine.files import sync_folder
from engine.vault import VAULT_FOLDER, VAULT_KEY

FORMAT = 1
DATABASE = "database.sqlite"
"""The member that holds the database, whichever kind that was."""
_MANIFEST, _CHECKSUM = "manifest.json", "manifest.sha256"
_PIECE = 1 << 20


class BackupRefused(Exception):
    """A backup cannot be made or restored; says why and what to do, and nothing was written."""


class Member(BaseModel):
    """A file in an archive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Contents(BaseModel):
    """What an archive holds, besides its files."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    braid: str
    """The version of Braid that made it."""
    scheme: str
    """The revision of the database's tables."""
    made: datetime
    counts: dict[str, int]
    """How many rows each table has."""
    jobs: int
    spools: bool
    """Whether what lay in the spools is in it."""
    key: bool
    """Whether the first operator's API key is in it."""


class Manifest(Contents):
    """The whole of it; made by `write_archive`, and by `verified` from an archive."""

    files: dict[str, Member]


def write_archive(path: Path, files: Iterable[tuple[str, Path]], contents: Contents) -> Manifest:
    """Write files under their names into an archive, for its owner only; a path that is there is refused."""
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    members: dict[str, Member] = {}
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as output:
            with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name, source in files:
                    members[name] = _add(tar, name, source)
                manifest = Manifest(**contents.model_dump(), files=members)
                written = manifest.model_dump_json().encode()
                for name, content in ((_MANIFEST, written), (_CHECKSUM, hashlib.sha256(written).hexdigest().encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
            output.flush()
            os.fsync(output.fileno())
        # Not a rename: that would take the place of a file that came meanwhile.
        path.hardlink_to(part)
    except FileExistsError:
        raise BackupRefused(f"{path} is there already; choose another name, or remove it first") from None
    except OSError as error:
        raise BackupRefused(f"{path} cannot be written: {error.strerror}; choose another place") from error
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return manifest


def verified(path: Path) -> Manifest:
    """The manifest of an archive of which every byte is as it was written."""
    found: dict[str, Member] = {}
    told: dict[str, bytes] = {}
    with _reading(path) as tar:
        for info, content in _members(tar):
            if info.name in found or info.name in told:
                raise BackupRefused(f"{path} is damaged: it holds {info.name} twice; use another backup")
            if info.name in {_MANIFEST, _CHECKSUM}:
                told[info.name] = content.read()
            else:
                found[info.name] = _summed(content, None)
    if told.keys() != {_MANIFEST, _CHECKSUM}:
        raise BackupRefused(f"{path} is damaged: its end is missing; use another backup")
    if hashlib.sha256(told[_MANIFEST]).hexdigest().encode() != told[_CHECKSUM]:
        raise BackupRefused(f"{path} is damaged: its manifest is not as it was written; use another backup")
    try:
        contents = Contents.model_validate_json(told[_MANIFEST])
        if contents.format != FORMAT:
            raise BackupRefused(f"{path} has the form {contents.format} of a newer Braid; restore it with that one")
        manifest = Manifest.model_validate_json(told[_MANIFEST])
    except ValidationError as error:
        raise BackupRefused(f"{path} is no backup of Braid's; name one that `braid backup` made") from error
    if changed := sorted(
        name for name in found.keys() | manifest.files.keys() if found.get(name) != manifest.files.get(name)
    ):
        raise BackupRefused(f"{path} is damaged: {changed[0]} is not as it was written; use another backup")
    for name in found:
        _check_name(path, name)
    return manifest


def take_out(path: Path, folder: Path, *, only: str | None = None, without: str | None = None) -> None:
    """Write the files of an archive that was verified below a folder, so that they stay."""
    with _reading(path) as tar:
        for info, content in _members(tar):
            if info.name in {_MANIFEST, _CHECKSUM, without} or only not in {None, info.name}:
                continue
            target = folder / info.name
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(info.mode) & 0o660)
            with os.fdopen(handle, "wb") as output:
                _summed(content, output)
                output.flush()
                os.fsync(output.fileno())


def _add(tar: tarfile.TarFile, name: str, source: Path) -> Member:
    with source.open("rb") as content:
        told = os.fstat(content.fileno())
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = told.st_size, told.st_mtime, stat.S_IMODE(told.st_mode)
        counted = _Counted(content)
        tar.addfile(info, counted)
    return Member(size=told.st_size, sha256=counted.digest.hexdigest())


class _Counted(io.RawIOBase):
    """A file whose checksum is taken while it is read."""

    def __init__(self, content: IO[bytes]) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._content = content

    def read(self, size: int = -1, /) -> bytes:
        """As a file does."""
        piece = self._content.read(size)
        self.digest.update(piece)
        return piece


def _summed(content: IO[bytes], output: IO[bytes] | None) -> Member:
    digest, size = hashlib.sha256(), 0
    while piece := content.read(_PIECE):
        digest.update(piece)
        size += len(piece)
        if output is not None:
            output.write(piece)
    return Member(size=size, sha256=digest.hexdigest())


def _members(tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    for info in tar:
        content = tar.extractfile(info) if info.isreg() else None
        if content is None:
            raise tarfile.ReadError(f"{info.name} is no file")
        yield info, content


@contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r:") as tar:
            yield tar
    except FileNotFoundError:
        raise BackupRefused(f"{path} is not there; name a file that `braid backup` made") from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise BackupRefused(f"{path} is damaged: {error}; use another backup") from error


def _check_name(path: Path, name: str) -> None:
    """Refuse what would be written anywhere but below the folder, or where Braid keeps nothing."""
    parts = PurePosixPath(name).parts
    known = name in {DATABASE, "key", VAULT_KEY} or (
        len(parts) > 1 and parts[0] in {"access", "jobs", VAULT_FOLDER, "spools"}
    )
    if not known or ".." in parts or str(PurePosixPath(name)) != name:
        raise BackupRefused(f"{path} holds {name!r}, which no backup of Braid's does; use another backup")
