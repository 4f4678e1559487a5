"""The objects of a host in object storage, and the files that they make together. Each object is whole or absent.

```text
claims/SITTING          who writes; a higher one ends all lower ones
states/SITTING-NUMBER   all files, and in which objects their contents are
rounds/SITTING-NUMBER   what a round changes, and the contents of its files
packs/SITTING-NUMBER    contents alone: of long rounds, and of files that outlived theirs
```

A sitting is one connection of a host's owner: its term, a number, and a random name. From its claim on, nothing that
lower ones write counts. The state of a host is the latest state of the highest sitting, and the rounds of that sitting
that follow it. A sitting begins with a state, so what an earlier owner still writes after that counts no more.

A round counts if no higher claim is there after it was written. A higher owner first claims, and then reads. So either
it reads the round, or the round does not count.

The storage is any file system that fsspec knows.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import fsspec
import msgspec

from bridge.files import Steps, make_folder, no_steps, write_whole
from engine.replicas.channel import PeerRefuses

_MAGIC = b"braid store 1\n"
_LENGTH, _DIGEST = 8, 32
_FOOT = _LENGTH + _DIGEST + len(_MAGIC)
_REMOVED_AT_ONCE = 500
T = TypeVar("T")


class StoreAway(ConnectionError):
    """A store that does not answer, or does not allow what is asked of it."""


class StoreDamaged(ValueError):
    """An object that is missing, or is not what was written."""


class NoStore(ValueError):
    """A URL of no store."""


class StoreObjects:
    """The objects of one host; used by one thread."""

    def __init__(
        self, url: str, host: str, *, step: Steps = no_steps, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        """`url` is that of a folder for all hosts. Raises NoStore.

        `step` is called around each change, and `on_answer` whenever the store has answered.
        """
        self.url = f"{url.rstrip('/')}/{quote(host, safe='')}"
        self._step = step
        self._on_answer = on_answer
        protocol = url.partition("://")[0]
        if not url.partition("://")[2]:
            raise NoStore(f"{url!r} is no URL of a store; give one such as s3://bucket/folder or file:///mnt/folder")
        try:
            # Others write too, so nothing that was listed is remembered.
            self._files: Any = fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True)
            self._place = str(self._files._strip_protocol(self.url))  # noqa: SLF001 - fsspec has no other name for it
        except ImportError as error:
            raise NoStore(f"{url} needs a package: {error}; for s3:// it is braid[s3]") from error
        except ValueError as error:
            raise NoStore(f"{url} is no URL of a store: {error}") from error
        self._is_local = protocol in {"file", "local"}
        self.sent = 0

    def put(self, name: str, payload: bytes, head: msgspec.Struct | None = None) -> None:
        """Write an object, durably and as a whole; its head comes after its payload."""
        body = msgspec.msgpack.encode(head)
        whole = b"".join((payload, body, len(body).to_bytes(_LENGTH, "big"), sha256(payload + body).digest(), _MAGIC))
        path = f"{self._place}/{name}"
        self._step(f"put {name}")
        try:
            with self._answering():
                if self._is_local:
                    make_folder(Path(path).parent)
                    write_whole(Path(path), whole)
                else:
                    self._files.pipe_file(path, whole)
        except FileNotFoundError as error:
            raise StoreAway(f"the store {self.url} is not there: {error}; make its bucket or folder first") from error
        self.sent += len(whole)
        self._step(f"put {name}, done")

    def get(self, name: str, head: type[T]) -> tuple[bytes, T]:
        """Read an object; raises StoreDamaged."""
        try:
            with self._answering():
                whole: bytes = self._files.cat_file(f"{self._place}/{name}")
        except FileNotFoundError:
            raise StoreDamaged(f"{self.url}/{name} is missing") from None
        length = int.from_bytes(whole[-_FOOT : _LENGTH - _FOOT], "big")
        content = whole[:-_FOOT]
        digest = whole[_LENGTH - _FOOT : -len(_MAGIC)]
        if not whole.endswith(_MAGIC) or length > len(content) or sha256(content).digest() != digest:
            raise StoreDamaged(f"{self.url}/{name} is damaged")
        split = len(content) - length
        try:
            return content[:split], msgspec.msgpack.decode(content[split:], type=head)
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"{self.url}/{name} cannot be read: {error}") from error

    def sizes(self, folder: str) -> dict[str, int]:
        """The objects in a folder, in the order of their names."""
        try:
            with self._answering():
                listed = self._files.ls(f"{self._place}/{folder}", detail=True)
        except FileNotFoundError:
            return {}
        names = {entry["name"].rpartition("/")[2]: entry["size"] for entry in listed if entry["type"] == "file"}
        return dict(sorted((name, size) for name, size in names.items() if name))

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects that nobody needs; those that stay for some reason are harmless."""
        paths = [f"{self._place}/{name}" for name in names]
        for first in range(0, len(paths), _REMOVED_AT_ONCE):
            self._step("remove")
            with suppress(FileNotFoundError), self._answering():
                # S3 takes one request for all of them.
                self._files.rm(paths[first : first + _REMOVED_AT_ONCE])

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self._on_answer()
            raise
        except Exception as error:  # each file system has errors of its own
            raise StoreAway(f"the store {self.url} does not do it: {str(error) or type(error).__name__}") from error
        self._on_answer()


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

    def placed(self, name: str) -> "StoredFile":
        """The file, with those of its parts in an object that are in none yet."""
        parts = (part if part.object else StoredPart(name, part.at, part.size) for part in self.parts)
        return msgspec.structs.replace(self, parts=tuple(parts))


class StoredClaim(msgspec.Struct, frozen=True):
    """The claim of a machine to be the one that writes."""

    machine: str
    root: str


class StoredRound(msgspec.Struct, frozen=True):
    """The changes of a round."""

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
            self.files[file.path] = file.placed(name)
        for path in done.removed:
            self.files.pop(path, None)
        for folder in done.removed_folders:
            if not any(path.startswith(f"{folder}/") for path in (*self.files, *self.folders)):
                self.folders.pop(folder, None)

    def live(self) -> Counter[str]:
        """The bytes of each object that files need."""
        needed = Counter[str]()
        for part in self.parts():
            needed[part.object] += part.size
        return needed

    def parts(self) -> Iterator[StoredPart]:
        """The parts of all files."""
        for file in self.files.values():
            yield from file.parts

    def _make(self, folder: str) -> None:
        while folder and folder not in self.folders:
            self.folders[folder] = None
            folder = folder.rpartition("/")[0]


CLAIM_FOLDER = "claims"


class HigherTerm(PeerRefuses):
    """A store that a later carrier of the host writes to."""

    def __init__(self, objects: StoreObjects, term: int) -> None:
        super().__init__(f"the store {objects.url} follows a carrier of term {term}", term)


class HigherSitting(ConnectionError):
    """A store that another connection of the same carrier writes to."""


class Sitting:
    """One sitting; it begins by claiming the store."""

    def __init__(self, objects: StoreObjects, term: int, claim: StoredClaim) -> None:
        """Raises HigherTerm, or HigherSitting: then another attempt gets the store."""
        self._objects = objects
        self.term = term
        self._number = 0
        self._number = 1 + max((number for claimed, number, _ in self._claims() if claimed == term), default=0)
        self.name = f"{term:010d}-{self._number:08d}-{uuid.uuid4().hex[:12]}"
        self.check()
        objects.put(f"{CLAIM_FOLDER}/{self.name}", b"", claim)
        self.check()

    def check(self) -> None:
        """Raise if the store is another's by now. What was written before counts if this does not raise."""
        for term, number, name in self._claims():
            if term > self.term:
                raise HigherTerm(self._objects, term)
            if term == self.term and number >= self._number and name != self.name:
                raise HigherSitting(f"the store {self._objects.url} has a later connection of this host")

    def _claims(self) -> list[tuple[int, int, str]]:
        return [(int(name[:10]), int(name[11:19]), name) for name in self._objects.sizes(CLAIM_FOLDER)]


STATES, ROUNDS, PACKS = "states", "rounds", "packs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestState:
    """The latest state; made by `latest`."""

    term: int = 0
    """The term of its owner; 0 if there is none."""
    root: str = ""
    machine: str = ""
    whole: bool = False
    files: StoredFiles = field(default_factory=StoredFiles)


def _split(name: str) -> tuple[str, int]:
    """The sitting and the number in the name of an object."""
    sitting, _, number = name.rpartition("-")
    return sitting, int(number)


def latest(objects: StoreObjects) -> LatestState:
    """Read the latest state from which a host could begin; else the latest one. Raises StoreDamaged."""
    states = list(objects.sizes(STATES))
    if not states:
        return LatestState()
    name = states[-1]
    sitting, number = _split(name)
    _, state = objects.get(f"{STATES}/{name}", StoredState)
    files, whole = StoredFiles(state.files, state.folders), state.whole
    fallen_back = None
    for round_name in objects.sizes(ROUNDS):
        its_sitting, its_number = _split(round_name)
        if its_sitting != sitting or its_number <= number:
            continue
        number += 1
        if its_number != number:
            raise StoreDamaged(f"{objects.url}/{ROUNDS}/{sitting}-{number:010d} is missing")
        _, done = objects.get(f"{ROUNDS}/{round_name}", StoredRound)
        if done.portion and whole:
            fallen_back = files.copy()
        elif not done.portion:
            fallen_back = None
        whole = not done.portion
        files.apply(done, f"{ROUNDS}/{round_name}")
    if fallen_back is not None:
        files, whole = fallen_back, True
    present = {f"{folder}/{object_name}" for folder in (ROUNDS, PACKS) for object_name in objects.sizes(folder)}
    if missing := sorted(files.live().keys() - present):
        raise StoreDamaged(f"{objects.url}/{missing[0]} is missing")
    return LatestState(term=int(sitting[:10]), root=state.root, machine=state.machine, whole=whole, files=files)
