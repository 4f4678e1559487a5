"""The archive: a tar that ends with a manifest, which has the checksums of all other members, and its own checksum.

A missing, truncated, changed or added member is detected before anything is extracted.
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

from bridge.files import sync_folder
from engine.code.store import CODE_FOLDER
from engine.outside import VAULT_FOLDER, VAULT_KEY

FORMAT = 1
DATABASE = "database.sqlite"
"""The member with the database, as a file of SQLite."""
_MANIFEST, _CHECKSUM = "manifest.json", "manifest.sha256"
_PIECE = 1 << 20


class BackupRefused(Exception):
    """A backup that cannot be made or restored, with the reason and the remedy; nothing was written."""


class Member(BaseModel):
    """A file in an archive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Contents(BaseModel):
    """The facts about an archive, without its files."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    braid: str
    """The version of Braid that made it."""
    scheme: str
    """The revision of the database's tables."""
    made: datetime
    counts: dict[str, int]
    """The number of rows in each table."""
    jobs: int
    spools: bool
    """It contains the events in the spools."""
    key: bool
    """It contains the first operator's API key."""


class BackupManifest(Contents):
    """The manifest of an archive; made by `write_archive`, and read by `verified`."""

    files: dict[str, Member]


def write_archive(path: Path, files: Iterable[tuple[str, Path]], contents: Contents) -> BackupManifest:
    """Write files under their names into an archive that only its owner can read; an existing path is refused."""
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    members: dict[str, Member] = {}
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as output:
            with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name, source in files:
                    members[name] = _add(tar, name, source)
                manifest = BackupManifest(**contents.model_dump(), files=members)
                text = manifest.model_dump_json().encode()
                for name, content in ((_MANIFEST, text), (_CHECKSUM, hashlib.sha256(text).hexdigest().encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
            output.flush()
            os.fsync(output.fileno())
        # Not a rename, which would replace a file that was created meanwhile.
        path.hardlink_to(part)
    except FileExistsError:
        raise BackupRefused(f"{path} is there already; choose another name, or remove it first") from None
    except OSError as error:
        raise BackupRefused(f"{path} cannot be written: {error.strerror}; choose another place") from error
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return manifest


def verified(path: Path) -> BackupManifest:
    """Verify every byte of an archive, and return its manifest."""
    members: dict[str, Member] = {}
    ends: dict[str, bytes] = {}
    with _reading(path) as tar:
        for info, content in _members(tar):
            if info.name in members or info.name in ends:
                raise BackupRefused(f"{path} is damaged: it holds {info.name} twice; use another backup")
            if info.name in {_MANIFEST, _CHECKSUM}:
                ends[info.name] = content.read()
            else:
                members[info.name] = _summed(content, None)
    if ends.keys() != {_MANIFEST, _CHECKSUM}:
        raise BackupRefused(f"{path} is damaged: its end is missing; use another backup")
    if hashlib.sha256(ends[_MANIFEST]).hexdigest().encode() != ends[_CHECKSUM]:
        raise BackupRefused(f"{path} is damaged: its manifest is not as it was written; use another backup")
    try:
        contents = Contents.model_validate_json(ends[_MANIFEST])
        if contents.format != FORMAT:
            raise BackupRefused(f"{path} has the format {contents.format} of a newer Braid; restore it with that one")
        manifest = BackupManifest.model_validate_json(ends[_MANIFEST])
    except ValidationError as error:
        raise BackupRefused(f"{path} is no backup of Braid's; name one that `braid backup` made") from error
    names = members.keys() | manifest.files.keys()
    if changed := sorted(name for name in names if members.get(name) != manifest.files.get(name)):
        raise BackupRefused(f"{path} is damaged: {changed[0]} is not as it was written; use another backup")
    for name in members:
        _check_name(path, name)
    return manifest


def extract(path: Path, folder: Path, *, only: str | None = None, without: str | None = None) -> None:
    """Extract the files of a verified archive below a folder, durably."""
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
        status = os.fstat(content.fileno())
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = status.st_size, status.st_mtime, stat.S_IMODE(status.st_mode)
        reader = _ChecksumReader(content)
        tar.addfile(info, reader)
    return Member(size=status.st_size, sha256=reader.digest.hexdigest())


class _ChecksumReader(io.RawIOBase):
    """A file whose checksum is computed while it is read."""

    def __init__(self, content: IO[bytes]) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._content = content

    def read(self, size: int = -1, /) -> bytes:
        """Read from the file."""
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
    """Refuse a member that would be written outside the folder, or where Braid keeps nothing."""
    parts = PurePosixPath(name).parts
    known = name in {DATABASE, "key", VAULT_KEY} or (
        len(parts) > 1 and parts[0] in {"access", CODE_FOLDER, "jobs", VAULT_FOLDER, "spools"}
    )
    if not known or ".." in parts or str(PurePosixPath(name)) != name:
        raise BackupRefused(f"{path} holds {name!r}, which no backup of Braid's does; use another backup")
