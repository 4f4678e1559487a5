"""The store of published code: sources, the wheels that they import from, and the vouchers of operators.

All of it lies in the root. The manager writes it, and all hosts and workers share the root or are sent it. So what is
published reaches a running job at once.

Each source and each wheel is a file that is named by the digest of its content. A worker needs no more than the digest,
which it verifies. A cell may read the wheels of its own code and no others.

A voucher says that an operator vouches for a published function of a tenant. All vouchers are in one file, which
workers look up for each batch. So a voucher that is given or withdrawn takes effect with the next batch of every job,
whatever its plan. Without the file nobody vouches.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path

import msgspec

from bridge.files import link_whole, make_folder, write_whole

CODE_FOLDER = "code"
MOST_SOURCE_BYTES = 64 * 1024


class NoCode(LookupError):
    """A source is not available, or not acceptable. Says which, why, and what to do."""


def _keep(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        make_folder(path.parent)
        # One that was damaged is replaced.
        path.unlink(missing_ok=True)
        link_whole(path, content)


def _version(path: Path) -> tuple[int, int, int]:
    """A value that changes whenever a file is written anew."""
    file = path.stat()
    return file.st_ino, file.st_mtime_ns, file.st_size


class CodeStore:
    """The sources of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / CODE_FOLDER

    def put(self, digest: str, text: str) -> None:
        """Keep a source, durably, before any plan names it; idempotent. Raises `NoCode` if it cannot be kept."""
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > MOST_SOURCE_BYTES:
            raise NoCode(f"the source has {len(content):,} bytes; the most allowed are {MOST_SOURCE_BYTES:,}")
        if (actual := digest_of(text)) != digest:
            raise NoCode(f"the digest of the source is {actual}, not {digest}; send both again")
        _keep(Path(self.path(digest)), content)

    def path(self, digest: str) -> str:
        """The path of a source, whether it is there or not."""
        return str(self._folder / f"{digest}.py")


def read_source(path: str) -> str:
    """A source that is verified by the digest in its path. Raises `NoCode`."""
    digest = Path(path).stem
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise NoCode(f"the source {digest} is not in the root; publish it again") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise NoCode(f"the file of the source {digest} is damaged; publish it again")
    return content.decode("utf-8", "surrogatepass")


def digest_of(text: str) -> str:
    """The digest of a source.

    >>> digest_of("def entry(event): return event")[:8]
    '93cc91cf'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class WheelStore:
    """The wheels of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / CODE_FOLDER / "wheels"

    def put(self, content: bytes) -> None:
        """Keep a wheel, durably; idempotent."""
        _keep(Path(self.path(hashlib.sha256(content).hexdigest())), content)

    def remove(self, digest: str) -> None:
        """Keep a wheel no longer."""
        Path(self.path(digest)).unlink(missing_ok=True)

    def path(self, digest: str) -> str:
        """The path of a wheel, whether it is there or not."""
        return str(self._folder / f"{digest}.whl")


class WheelCheck:
    """The check of a task's wheels in a worker, which verifies a file whenever it changes."""

    def __init__(self) -> None:
        self._sound: dict[str, tuple[int, int, int]] = {}

    def __call__(self, paths: tuple[str, ...]) -> None:
        """Raises `NoCode` if one is missing or damaged."""
        for path in paths:
            digest = Path(path).stem
            try:
                version = _version(Path(path))
                if self._sound.get(path) == version:
                    continue
                actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except FileNotFoundError:
                raise NoCode(f"the wheel {digest} is not in the root; send it again") from None
            if actual != digest:
                raise NoCode(f"the file of the wheel {digest} is damaged; send it again")
            self._sound[path] = version


VOUCHERS = "vouchers.json"


class Voucher(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """An operator's voucher for a function as a tenant published it; made by the manager, and looked up by workers."""

    owner: str
    digest: str
    entry: str
    per: str


class VoucherFile:
    """The file of vouchers in a root. Any process may open it; the manager alone writes it."""

    def __init__(self, root: Path) -> None:
        self._path = root / VOUCHERS
        self._seen: tuple[int, int, int] | None = None
        self._read: frozenset[Voucher] = frozenset()

    def keep(self, vouchers: Collection[Voucher]) -> None:
        """Keep these vouchers and no others, durably."""
        content = msgspec.json.encode(sorted(vouchers))
        if not self._path.exists() or self._path.read_bytes() != content:
            make_folder(self._path.parent)
            write_whole(self._path, content)

    def has(self, voucher: Voucher) -> bool:
        """Whether an operator vouches for a function, at this moment."""
        try:
            version = _version(self._path)
            if version != self._seen:
                self._read = frozenset(msgspec.json.decode(self._path.read_bytes(), type=list[Voucher]))
                self._seen = version
        except (FileNotFoundError, msgspec.MsgspecError):
            # What cannot be read vouches for nothing; the manager writes it again when it begins.
            self._read, self._seen = frozenset(), None
        return voucher in self._read
