"""File stores: folders and buckets in which files are written as a whole, under names; and what bounds their use.

A tenant's place is a folder of this machine, or one that all machines share. How much a tenant's files take is counted,
and some disk has to stay free.

A secret of a tenant leads to a remote folder or bucket. It is a URL, or a JSON object with `url` and the credentials.
It must contain credentials, because a host may have its own for its operator's buckets, and file systems use these if
none are given.

What a task's libraries connect to is checked at the moment when they connect. A name may have other addresses the
second time that it is looked up, and a server may send its client elsewhere. Libraries look up names and follow
redirects by themselves. So each address is checked that the thread connects to, or that a coroutine does which it has
started: an audit hook of Python sees them all. Of drivers that are not written in Python it sees nothing; there only
the hosts that the secret names are checked, before each connection.
"""

import io
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import uuid4

import fsspec

from bridge.files import DiskSpace, make_folder, write_whole
from dags import Place, Secret
from dags.config import Where
from engine.behaviour import NoBehaviour
from engine.implementations.values import label
from engine.outside import HostBarred
from engine.side_effect import OutsideUnreachable


def check_room(folder: Path) -> None:
    """Raise if the disk of an existing folder is too full for tenants to write."""
    space = DiskSpace.of(folder)
    if space.free < space.spare:
        raise OutsideUnreachable(
            f"the disk is too full to write to places: {space.free:,} bytes are free, and {space.spare:,} must "
            "stay free; make room"
        )


MOST_PLACE_BYTES = 10 * 1024**3
MOST_PLACE_FILES = 1_000_000
_COUNTED_EVERY = 30.0
_PART_OF_TIME = 0.02
"""With very many files, so much of the time goes into counting them."""


class PlaceUsage:
    """What the places of one tenant take. Counted anew now and then, since others write too, and operators remove."""

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = MOST_PLACE_BYTES,
        most_files: int = MOST_PLACE_FILES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._clock = clock
        self._bytes = self._files = 0
        self._again_at = float("-inf")

    def take(self, more: int, *, files: int = 1) -> None:
        """Count so many more bytes, of a new file. Raises `OutsideUnreachable` if there is no room for them."""
        if self._clock() >= self._again_at:
            self._count()
        if self._bytes + more > self._most_bytes or self._files + files > self._most_files:
            raise OutsideUnreachable(
                f"the places of this tenant hold {self._files:,} files with {self._bytes:,} bytes, and may hold "
                f"{self._most_files:,} with {self._most_bytes:,}; have an operator remove some"
            )
        self._bytes += more
        self._files += files

    def _count(self) -> None:
        begun = self._clock()
        sizes = list(_sizes(self._folder))
        self._bytes, self._files = sum(sizes), len(sizes)
        took = self._clock() - begun
        self._again_at = begun + max(_COUNTED_EVERY, took / _PART_OF_TIME)


_KNOWN: dict[Path, PlaceUsage] = {}


def usage_of(where: Place) -> PlaceUsage:
    """The usage of the tenant that a place belongs to, as this process knows it."""
    folder = Path(where.path).parents[where.place.count("/")]
    return _KNOWN.setdefault(folder, PlaceUsage(folder))


def _sizes(folder: Path) -> Iterator[int]:
    """The bytes of each file. What vanishes meanwhile does not count."""
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(path) / name).lstat().st_size
            except FileNotFoundError:
                continue


class ConnectionGuard:
    """The connections of a task while it uses a secret; made by `guarded`."""

    def __init__(self, secret: Secret, addresses: Iterable[str]) -> None:
        self.refused = ""
        """Why a connection was refused; empty if none was."""
        self._secret = secret
        self._addresses = frozenset(addresses)

    def check(self, to: Any) -> None:
        """Refuse a connection to an address that tasks may not reach."""
        address = str(to[0]).partition("%")[0] if isinstance(to, tuple) else ""
        # The file system's own hosts, such as those of a cloud, are not among the secret's.
        if address not in self._addresses and (not address or self._secret.barred(address)):
            self.refused = "it leads to an address that tasks may not connect to; only an operator can allow it"
            raise HostBarred(self.refused)


@contextmanager
def guarded(secret: Secret, hosts: Iterable[str]) -> Iterator[ConnectionGuard]:
    """Let a secret lead only to addresses that its hosts have now, and to others that tasks may connect to.

    Raises `HostBarred` if tasks may not connect to one of the hosts.
    """
    _watch_connections()
    guard = ConnectionGuard(secret, [address for host in hosts for address in secret.addresses(host)])
    before = _GUARD.set(guard)
    try:
        yield guard
    finally:
        _GUARD.reset(before)


_GUARD: ContextVar[ConnectionGuard | None] = ContextVar("guard of connections", default=None)
"""Coroutines that are started elsewhere for this thread have it too."""


@cache
def _watch_connections() -> None:
    """Begin to watch; a hook stays for as long as the process."""
    sys.addaudithook(_look)


def _look(event: str, about: tuple[Any, ...]) -> None:
    if event == "socket.connect" and (guard := _GUARD.get()) is not None:
        guard.check(about[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemKind:
    """A kind of file system that tenants may use."""

    needs: tuple[frozenset[str], ...] = ()
    """The alternative sets of required options; empty if user and password are in the URL."""
    takes: frozenset[str] = frozenset()
    """Optional options."""
    always: Mapping[str, Any] | None = None
    """Options that are always set, so that it does not look for credentials of the host."""
    renames: bool = False
    """True if a file is first written under another name, because its writes are not atomic."""


_ANYBODY = frozenset({"anon"})
_S3 = FileSystemKind(needs=(frozenset({"key", "secret"}), _ANYBODY), takes=frozenset({"endpoint_url", "token"}))
_GCS = FileSystemKind(needs=(frozenset({"token"}),))
_AZURE = FileSystemKind(
    needs=tuple(frozenset({"account_name", credential}) for credential in ("account_key", "sas_token"))
)
FILE_SYSTEMS: Mapping[str, FileSystemKind] = {
    "abfs": _AZURE,
    "az": _AZURE,
    "ftp": FileSystemKind(renames=True),
    "gcs": _GCS,
    "gs": _GCS,
    "s3": _S3,
    "sftp": FileSystemKind(always={"look_for_keys": False, "allow_agent": False}, renames=True),
}
_UNFIT = re.compile(r"\s|::")
"""Parts of no host and path: fsspec takes `::` for a second URL, which may lead to files of the host."""
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"[a-z0-9$-]+(@[a-z0-9]{3,24}\.(blob|dfs)\.core\.windows\.net)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFolder:
    """The folder or bucket of a secret; made by `opened`."""

    system: Any
    """The fsspec file system."""
    path: str
    renames: bool
    hosts: tuple[str, ...]
    """The hosts that the secret names. Hosts of a cloud are known to its file system."""


def opened(secret: Secret) -> OpenedFolder:
    """Open the folder or bucket of a secret. Errors do not reveal the secret."""
    url, options = _read(secret)
    name, _, _ = url.partition("://")
    if (kind := FILE_SYSTEMS.get(name)) is None:
        # Others lead to files or memory of the host.
        known = ", ".join(f"{known_name}://" for known_name in FILE_SYSTEMS)
        raise _unfit(secret, f"is not the URL of a bucket or folder; begin it with one of {known}")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unfit(secret, "has a URL that cannot be read; write characters such as [ in it as %5B") from None
    if why := _lacking(kind, url, options):
        raise _unfit(secret, why)
    hosts = hosts_of(kind, url, options)
    if not kind.needs:
        url, options = without_login(parts)
    if _UNFIT.search(url):
        raise _unfit(secret, "has a space or `::` in the host or path of its URL; choose a host and a path without")
    try:
        # Some connect at once.
        with guarded(secret, () if kind.needs else hosts):
            system, path = fsspec.core.url_to_fs(url, **options, **(kind.always or {}))
    except HostBarred as barred:
        raise _unfit(secret, f"cannot be used: {barred}") from None
    except ImportError:
        raise NoBehaviour(f"the package for {name}:// is not installed; install it on every worker") from None
    except Exception as error:  # noqa: BLE001 - each file system raises its own errors, which may contain the URL
        raise _unfit(secret, f"cannot be opened: {type(error).__name__}") from None
    return OpenedFolder(system=system, path=path, renames=kind.renames, hosts=hosts)


def hosts_of(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts that a secret names. A missing host is an empty text."""
    if not kind.needs:
        return (urlsplit(url).hostname or "",)
    named = [options["endpoint_url"]] if "endpoint_url" in options else []
    if kind is _GCS:
        # A service account's key contains the URL where it is exchanged for a token.
        named += [url for name, url in options["token"].items() if name.endswith(("_uri", "_url"))]
    return tuple(urlsplit(str(named_url)).hostname or "" for named_url in named)


def without_login(url: SplitResult) -> tuple[str, dict[str, str]]:
    """Take user and password out of a URL, where they may hold any character, percent-encoded or not.

    >>> without_login(urlsplit("sftp://ann:a::b%2Fc d@files.example:2022/in"))
    ('sftp://files.example:2022/in', {'username': 'ann', 'password': 'a::b/c d'})
    """
    login = {"username": unquote(url.username or ""), "password": unquote(url.password or "")}
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl(), login


def _read(secret: Secret) -> tuple[str, dict[str, Any]]:
    text = secret.revealed.strip()
    if not text.startswith("{"):
        return text, {}
    try:
        options: dict[str, Any] = json.loads(text)
    except ValueError:
        raise _unfit(secret, "is neither a URL nor JSON; correct it") from None
    return str(options.pop("url", "")), options


def _lacking(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """A fault in the options of a secret; empty if there is none."""
    known = kind.takes.union(*kind.needs)
    if unknown := sorted(options.keys() - known):
        return f"has the option {unknown[0]!r}, which tenants may not use; remove it"
    if kind.needs and not any(options_needed <= options.keys() for options_needed in kind.needs):
        wanted = " or ".join(" and ".join(map(repr, sorted(options_needed))) for options_needed in kind.needs)
        return f"has no credentials; make it a JSON object with 'url' and {wanted}"
    if "anon" in options and options["anon"] is not True:
        return "has an 'anon' that is not true; remove it, and give credentials"
    if not kind.needs and not urlsplit(url).password:
        return "has no user and password in its URL; put them there, with / ? # in them as %2F %3F %23"
    return _misfit(kind, url, options)


def _misfit(kind: FileSystemKind, url: str, options: Mapping[str, Any]) -> str:
    """A fault in the options for a cloud; empty if there is none."""
    if kind is _GCS and not isinstance(options["token"], dict):
        # A text would name a file or the identity of the host.
        return "has a 'token' that is not a JSON object; put the service account's key there unchanged"
    if kind is _AZURE and not (
        _ACCOUNT.fullmatch(str(options["account_name"])) and _CONTAINER.fullmatch(urlsplit(url).netloc)
    ):
        # The account's name becomes part of a host's name.
        return "has no valid name of an account or container of Azure; correct it"
    return ""


def _unfit(secret: Secret, why: str) -> NoBehaviour:
    return NoBehaviour(f"the secret {secret.secret!r} {why}")


_NAME = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_=.,@+-]*(/[A-Za-z0-9_=][A-Za-z0-9_=.,@+-]*)*")

_LONGEST = 300


class Missing(LookupError):
    """A file store has no file of that name."""


class FolderFile(NamedTuple):
    """A file as a store lists it."""

    name: str
    """Its path in the folder."""
    size: int
    changed: str
    """When it was changed, as a text: of two files of a store the later one has the greater text."""


class StoredContent(io.RawIOBase):
    """The content of a file in a store. Raises `OutsideUnreachable` where it cannot be read."""

    def __init__(self, file: Any, reaching: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._file = file
        self._reaching = reaching

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, into: Any) -> int:
        """Read into a buffer as much as there is at once."""
        with self._reaching():
            part = self._file.read(len(into))
        into[: len(part)] = part
        return len(part)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place."""
        with self._reaching():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """The place in the content."""
        return int(self._file.tell())

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            with suppress(Exception):
                self._file.close()
        super().close()


def file_store(where: Where) -> "FileStore":
    """The file store that a config names."""
    if isinstance(where, Place):
        return LocalFileStore(Path(where.path), usage_of(where))
    folder = opened(where)
    return RemoteFileStore(folder, label(where), partial(guarded, where, folder.hosts))


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
        """Write a file as a whole. Replaces the file of that name."""
        path = self._folder / name
        try:
            make_folder(path.parent)
            check_room(path.parent)
            self._usage.take(len(content))
            write_whole(path, content)
        except OSError as error:
            raise OutsideUnreachable(f"{name} cannot be written: {error.strerror}") from None

    def read(self, name: str, most: int) -> bytes:
        """Read a file. Raises `ValueError` if it has more than `most` bytes."""
        try:
            with (self._folder / name).open("rb") as file:
                return _bounded(name, file.read(most + 1), most)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Missing(f"there is no file {name!r}") from None
        except OSError as error:
            raise OutsideUnreachable(f"{name} cannot be read: {error.strerror}") from None

    def files(self) -> list[FolderFile]:
        """All files in the folder and in those within, without links and what is being written."""
        files: list[FolderFile] = []
        waiting = [""]
        while waiting:
            before = waiting.pop()
            try:
                entries = list(os.scandir(self._folder / before))
            except (FileNotFoundError, NotADirectoryError):
                # A task may make it later, or has removed it.
                continue
            except OSError as error:
                raise OutsideUnreachable(f"the files cannot be listed: {error.strerror}") from None
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.name != "tmp":
                    waiting.append(f"{before}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        files.append(_found(f"{before}{entry.name}", entry.stat(follow_symlinks=False)))
        return files

    def file(self, name: str) -> FolderFile:
        """A file as it is now."""
        with self._reaching(name):
            found = (self._folder / name).lstat()
        if not stat.S_ISREG(found.st_mode):
            raise Missing(f"{name!r} is no file any more")
        return _found(name, found)

    def open(self, name: str) -> StoredContent:
        """Open a file."""
        with self._reaching(name):
            # Not waiting, should it be a pipe by now.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(self._folder / name, flags)
        return StoredContent(os.fdopen(handle, "rb"), partial(self._reaching, name))

    @contextmanager
    def _reaching(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Missing(f"there is no file {name!r}") from None
        except OSError as error:
            raise OutsideUnreachable(f"{name} cannot be read: {error.strerror}") from None


class RemoteFileStore:
    """A folder or bucket of any file system that fsspec knows."""

    def __init__(
        self, folder: OpenedFolder, label: str, guard: Callable[[], AbstractContextManager[ConnectionGuard]]
    ) -> None:
        self._system = folder.system
        self._path = folder.path.rstrip("/")
        self._renames = folder.renames
        self._label = label
        self._guard = guard

    def put(self, name: str, content: bytes) -> None:
        """Write a file as a whole. Replaces the file of that name."""
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
        """Read a file. Raises `ValueError` if it has more than `most` bytes."""
        content: bytes | None = None
        with self._reaching("read"), suppress(FileNotFoundError):
            content = self._system.cat_file(f"{self._path}/{name}", start=0, end=most + 1)
        if content is None:
            raise Missing(f"there is no file {name!r}")
        return _bounded(name, content, most)

    def files(self) -> list[FolderFile]:
        """All files in the folder or bucket and in the folders within."""
        listed: Mapping[str, Mapping[str, Any]] = {}
        with self._reaching("listed"):
            self._system.invalidate_cache()
            listed = self._system.find(self._path, detail=True)
        before = self._path.lstrip("/") + "/"
        return [
            _stored(path.lstrip("/").removeprefix(before), about)
            for path, about in listed.items()
            if path.lstrip("/").startswith(before) and about.get("type", "file") == "file"
        ]

    def file(self, name: str) -> FolderFile:
        """A file as it is now."""
        about: Mapping[str, Any] | None = None
        with self._reaching("read"), suppress(FileNotFoundError):
            self._system.invalidate_cache()
            about = self._system.info(f"{self._path}/{name}")
        if about is None:
            raise Missing(f"there is no file {name!r}")
        return _stored(name, about)

    def open(self, name: str) -> StoredContent:
        """Open a file."""
        file: Any = None
        with self._reaching("read"), suppress(FileNotFoundError):
            file = self._system.open(f"{self._path}/{name}", "rb")
        if file is None:
            raise Missing(f"there is no file {name!r}")
        return StoredContent(file, partial(self._reaching, "read"))

    @contextmanager
    def _reaching(self, done: str) -> Iterator[None]:
        guard: ConnectionGuard | None = None
        try:
            with self._guard() as guard:
                yield
        except HostBarred as barred:
            raise OutsideUnreachable(f"{self._label} cannot be {done}: {barred}") from None
        except Exception as error:  # noqa: BLE001 - each file system raises its own errors
            # The message may contain the URL.
            why = (guard and guard.refused) or type(error).__name__
            raise OutsideUnreachable(f"{self._label} cannot be {done}: {why}") from None


def _found(name: str, found: os.stat_result) -> FolderFile:
    return FolderFile(name, found.st_size, f"{found.st_mtime_ns:020d}")


_CHANGED = ("mtime", "LastModified", "last_modified", "updated", "modify")
"""The names under which file systems say when a file was changed."""


def _stored(name: str, about: Mapping[str, Any]) -> FolderFile:
    """A file as a file system describes it."""
    changed = next((about[key] for key in _CHANGED if about.get(key) is not None), "")
    if isinstance(changed, int | float):
        changed = f"{changed:020.6f}"
    return FolderFile(name, int(about.get("size") or 0), f"{changed} {about.get('ETag', '')}".strip())


def _bounded(name: str, content: bytes, most: int) -> bytes:
    if len(content) > most:
        raise ValueError(f"the file {name!r} has more than {most:,} bytes; raise `most_bytes`")
    return content


FileStore: TypeAlias = LocalFileStore | RemoteFileStore
"""A folder or bucket of a tenant."""
