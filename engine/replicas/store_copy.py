"""The copy of a host in object storage: an owner keeps it there, and an empty machine is restored from it.

To the owner's sender the store is one more peer. What is written for one round is in one object, unless it is long.
From time to time the latest state is written, and everything that it does not need is removed. So a store has at most
about twice the bytes of the host's files, and few objects: what outlived its round is gathered in packs.

A machine that has nothing else fills the root of its host from the store. An operator requests that, and the request
lies in the root that is to be filled.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Self
from urllib.parse import quote

import msgspec

from bridge.files import Steps, make_folder, no_steps, write_whole
from engine.replicas.channel import (
    Commit,
    CopyTls,
    Disconnected,
    Greeting,
    PeerRefuses,
    Piece,
    PresentFile,
    PresentFiles,
    SentFiles,
)
from engine.replicas.copy_folder import CopyTree, sync_all
from engine.replicas.file_kinds import FOLDERS, is_replaced, kind_of
from engine.replicas.store_objects import (
    CLAIM_FOLDER,
    PACKS,
    ROUNDS,
    STATES,
    LatestState,
    Sitting,
    StoreAway,
    StoreDamaged,
    StoredClaim,
    StoredFile,
    StoredPart,
    StoredRound,
    StoredState,
    StoreObjects,
    latest,
)
from ring.fleet import STORE

PACK_BYTES = 8 << 20
"""The most bytes of contents in one object, and those of rounds after which a state is written."""
SMALL_PACK = 1 << 20
"""Packs with less are gathered in larger ones."""
MOST_MOVED = 4
"""Packs whose contents are moved at once."""
MOST_ROUNDS = 64
"""Rounds after which a state is written."""


class StoreWriter:
    """Writes what follows a state, in a sitting; used by one thread."""

    def __init__(self, objects: StoreObjects, sitting: Sitting, before: LatestState, claim: StoredClaim) -> None:
        """Begins with a state of its own, so that it is known whose files they are."""
        self._objects = objects
        self.sitting = sitting
        self._claim = claim
        self.files = before.files.copy()
        self.is_whole = before.whole
        """Whether a host could begin from what was written."""
        self._number = self._packs = 0
        self._rounds = self._bytes = 0
        """The rounds since the last state, and their bytes."""
        self._payloads: dict[str, bytes] = {}
        """Their contents, so that they need not be read again."""
        self._payload = bytearray()
        self.coming: dict[str, StoredFile] = {}
        """The files of the next round, as far as they came; a part in no object is in the payload."""
        self._write_state()
        sitting.check()

    def take(self, piece: Piece) -> None:
        """Take a file, or a part of one, for the next round."""
        if piece.at == 0:
            self.coming[piece.path] = StoredFile(piece.path, piece.size, piece.mtime_ns, b"", ())
        if sum(part.size for part in self.coming[piece.path].parts) != piece.at:
            raise Disconnected(f"a part of {piece.path} is missing at {piece.at}")
        if self._payload and len(self._payload) + len(piece.data) > PACK_BYTES:
            # The payload is written before its round.
            name = self._pack(self._payload)
            self.coming = {path: file.placed(name) for path, file in self.coming.items()}
            self._payload = bytearray()
        file = self.coming[piece.path]
        parts = (*file.parts, StoredPart("", len(self._payload), len(piece.data))) if piece.data else file.parts
        self.coming[piece.path] = msgspec.structs.replace(file, digest=piece.digest, parts=parts)
        self._payload += piece.data

    def write(self, done: StoredRound) -> None:
        """Write a round. It counts if this does not raise."""
        self._number += 1
        name = f"{ROUNDS}/{self.sitting.name}-{self._number:010d}"
        payload = self._payloads[name] = bytes(self._payload)
        self._objects.put(name, payload, done)
        self.sitting.check()
        self.files.apply(done, name)
        self.is_whole = not done.portion
        self._rounds += 1
        self._bytes += len(self._payload)

    def forget(self) -> None:
        """Forget what came for a round."""
        self._payload, self.coming = bytearray(), {}

    @property
    def is_full(self) -> bool:
        """Whether it is time for a state; one that no host could begin from would take the place of one that could."""
        return self.is_whole and (self._rounds >= MOST_ROUNDS or self._bytes >= PACK_BYTES)

    def gather(self) -> None:
        """Write the latest state, and remove what it does not need."""
        sizes = {
            f"{folder}/{name}": size
            for folder in (ROUNDS, PACKS, STATES, CLAIM_FOLDER)
            for name, size in self._objects.sizes(folder).items()
        }
        live = self.files.live()
        rounds = {name for name in live if name.startswith(ROUNDS)}
        packs = live.keys() - rounds
        worn = [name for name in packs if sizes.get(name, 0) < SMALL_PACK or 2 * live[name] < sizes.get(name, 0)]
        # Those with the least first, and not all at once: rounds wait meanwhile.
        moving = {*rounds, *sorted(worn, key=lambda name: live[name])[:MOST_MOVED]}
        self._move(moving)
        needed = {*self.files.live(), self._write_state(), f"{CLAIM_FOLDER}/{self.sitting.name}"}
        self.sitting.check()
        # What came meanwhile is not in the list. A higher sitting begins from this state, or from a later one.
        self._objects.remove(name for name in sorted(sizes) if name not in needed)

    def _write_state(self) -> str:
        name = f"{STATES}/{self.sitting.name}-{self._number:010d}"
        state = StoredState(
            root=self._claim.root,
            machine=self._claim.machine,
            whole=self.is_whole,
            files=tuple(self.files.files.values()),
            folders=tuple(self.files.folders),
        )
        self._objects.put(name, b"", state)
        self._rounds = self._bytes = 0
        self._payloads.clear()
        return name

    def _move(self, names: set[str]) -> None:
        """Move what files need of some objects to new packs."""
        moved: dict[StoredPart, StoredPart] = {}
        payload, waiting = bytearray(), list[StoredPart]()
        for name in sorted(names):
            content = self._payloads.get(name)
            if content is None:
                content, _ = self._objects.get(name, msgspec.Raw)
            for part in [part for part in self.files.parts() if part.object == name]:
                if payload and len(payload) + part.size > PACK_BYTES:
                    moved |= self._packed(payload, waiting)
                    payload, waiting = bytearray(), []
                waiting.append(part)
                payload += content[part.at : part.at + part.size]
        if payload:
            moved |= self._packed(payload, waiting)
        for path, file in self.files.files.items():
            parts = tuple(moved.get(part, part) for part in file.parts)
            self.files.files[path] = msgspec.structs.replace(file, parts=parts)

    def _packed(self, payload: bytearray, parts: list[StoredPart]) -> dict[StoredPart, StoredPart]:
        name = self._pack(payload)
        places = accumulate((part.size for part in parts), initial=0)
        return {part: StoredPart(name, at, part.size) for part, at in zip(parts, places, strict=False)}

    def _pack(self, payload: bytearray) -> str:
        self._packs += 1
        name = f"{PACKS}/{self.sitting.name}-{self._packs:010d}"
        self._objects.put(name, bytes(payload))
        return name


_DEPLOYMENT = "deployment"
"""The file of a host with the id of its deployment."""
_PROBE = 10.0
"""Seconds without a round after which it is seen whether the store is still there, and whose it is."""


class StoreConnection:
    """One connection; used by one thread."""

    _writer: StoreWriter

    def __init__(self, objects: StoreObjects, *, root: Path, identity: str) -> None:
        """`root` is that of the host, and `identity` the id of its machine's root."""
        self._objects = objects
        self._root = root
        self._identity = identity
        self._seen_at = 0.0
        self._hung_up = False

    def begin(self, greeting: Greeting) -> Iterator[PresentFiles]:
        """Claim the store for the owner; all files in it."""
        with self._working():
            # A claim would already end what another deployment does.
            self._check_deployment(greeting.host, latest(self._objects))
            claim = StoredClaim(machine=greeting.machine, root=self._identity)
            sitting = Sitting(self._objects, greeting.term, claim)
            before = latest(self._objects)
            self._writer = StoreWriter(self._objects, sitting, before, claim)
        # A term has one owner. So a file of the same time and size is the same, unless it may be replaced.
        known = (before.term, before.root) == (greeting.term, self._identity)
        self._seen_at = time.monotonic()
        yield PresentFiles(
            [
                PresentFile(
                    file.path, file.size, file.mtime_ns, b"" if known and not is_replaced(file.path) else file.digest
                )
                for file in before.files.files.values()
            ],
            list(before.files.folders),
        )

    def send(self, sent: SentFiles) -> int:
        """Keep files for the next round, or write the round; returns the bytes that were written."""
        before = self._objects.sent
        with self._working():
            # Only between rounds: what was written for the next one is needed by nothing yet.
            if self._writer.is_full and not self._writer.coming:
                self._writer.gather()
            for piece in sent.pieces:
                self._writer.take(piece)
            if sent.commit is not None:
                self._commit(sent.commit)
        return self._objects.sent - before

    def hang_up(self) -> None:
        """Write nothing more; from any thread."""
        self._hung_up = True

    def close(self) -> None:
        """There is nothing to give back."""

    @contextmanager
    def _working(self) -> Iterator[None]:
        if self._hung_up:
            raise Disconnected("the owner hung up")
        try:
            yield
        except StoreDamaged as error:
            raise PeerRefuses(f"{error}; remove {self._objects.url}, and all is sent again") from error

    def _check_deployment(self, host: str, before: LatestState) -> None:
        """Refuse to write over the files of another deployment, or of this one before its disk was lost."""
        path = f"hosts/{quote(host, safe='')}/{_DEPLOYMENT}"
        theirs = before.files.files.get(path)
        own = self._root / path
        if theirs is not None and (not own.exists() or sha256(own.read_bytes()).digest() != theirs.digest):
            raise PeerRefuses(
                f"{self._objects.url} has the files of another deployment's host {host}, or of this one before it "
                "began anew; give another URL, or remove that folder if nobody needs it"
            )

    def _commit(self, commit: Commit) -> None:
        writer = self._writer
        for path in commit.withdrawn:
            writer.coming.pop(path, None)
        done = StoredRound(
            files=tuple(sorted(writer.coming.values(), key=lambda file: kind_of(file.path))),
            folders=tuple(commit.folders),
            removed=tuple(commit.removed),
            removed_folders=tuple(commit.removed_folders),
            portion=commit.portion,
        )
        if done != StoredRound(portion=commit.portion) or not (commit.portion or writer.is_whole):
            writer.write(done)
            self._seen_at = time.monotonic()
        elif time.monotonic() - self._seen_at > _PROBE:
            writer.sitting.check()
            self._seen_at = time.monotonic()
        writer.forget()


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store, as the machine's option names it."""

    url: str
    identity: str
    """The id of the machine's root."""

    @property
    def machine(self) -> str:
        """The name by which it counts beside machines."""
        return STORE

    def connect(self, host: str, root: Path, _tls: CopyTls | None, on_answer: Callable[[], None]) -> StoreConnection:
        """Open the store; nothing is asked of it yet."""
        return StoreConnection(StoreObjects(self.url, host, on_answer=on_answer), root=root, identity=self.identity)


class NothingStored(ValueError):
    """A store from which a host cannot be restored."""


def restorable(objects: StoreObjects) -> LatestState:
    """The latest state in a store; raises NothingStored or StoreDamaged."""
    stored = latest(objects)
    if not stored.term:
        raise NothingStored(
            f"{objects.url} has no files of a host; see whether URL and name are those of the lost host"
        )
    if not stored.whole:
        raise NothingStored(
            f"{objects.url} never got all files of the host, so no host can begin from it; start one without --restore"
        )
    return stored


def restore(objects: StoreObjects, term: int, root: Path, claim: StoredClaim, *, step: Steps = no_steps) -> LatestState:
    """Fill an empty root as the carrier of a term, after which no earlier carrier's files count.

    Raises HigherTerm, NothingStored or StoreDamaged. If it ends early, it can be done again.
    """
    # A store with nothing in it is not claimed.
    restorable(objects)
    sitting = Sitting(objects, term, claim)
    stored = restorable(objects)
    StoreWriter(objects, sitting, stored, claim)
    for top in FOLDERS:
        # What an attempt left that came to no end.
        shutil.rmtree(root / top, ignore_errors=True)
        make_folder(root / top)
    unfinished = root / "restoring"
    tree = CopyTree(root, unfinished, step)
    for folder in sorted(stored.files.folders):
        tree.check_folder(folder)
        tree.make(folder)
    for file, content in _contents(objects, stored):
        tree.check_file(file.path)
        tree.write(file.path, content, file.mtime_ns)
    sync_all(root)
    unfinished.unlink(missing_ok=True)
    sitting.check()
    return stored


def _contents(objects: StoreObjects, stored: LatestState) -> Iterator[tuple[StoredFile, bytes]]:
    """Each file with its content; each object is read about once."""
    name, payload = "", b""
    for file in sorted(stored.files.files.values(), key=lambda file: [(part.object, part.at) for part in file.parts]):
        content = bytearray()
        for part in file.parts:
            if part.object != name:
                payload, _ = objects.get(part.object, msgspec.Raw)
                name = part.object
            content += payload[part.at : part.at + part.size]
        if len(content) != file.size or sha256(content).digest() != file.digest:
            raise StoreDamaged(f"{objects.url}: {file.path} is damaged, in {name or 'no object'}")
        yield file, bytes(content)


_REQUEST_FILE = "restoration.json"


class NoRestoration(ValueError):
    """A restoration that cannot begin."""


class RestorationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to restore a machine's host, which is in the machine's root."""

    restores: str
    """The id of the root whose files are wanted."""
    accepts_loss: bool
    done: bool = False

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """The request in a root, if there is one."""
        path = root / _REQUEST_FILE
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else None

    def keep(self, root: Path) -> None:
        """Keep the request durably."""
        make_folder(root)
        write_whole(root / _REQUEST_FILE, msgspec.json.encode(self))


def request_restoration(root: Path, host: str, url: str, *, accepts_loss: bool) -> str:
    """Have the machine that begins in an empty root restore its host; what it will restore, in words.

    Empty if that was asked before, and is done. Raises NoRestoration, and NoStore.
    """
    before = RestorationRequest.read(root)
    if before is not None and before.done:
        return ""
    if before is None and any((root / name).exists() for name in ("identity", *FOLDERS)):
        raise NoRestoration(f"{root} has files of a host already; give an empty folder, or start without --restore")
    try:
        stored = restorable(StoreObjects(url, host))
    except (NothingStored, StoreAway) as error:
        raise NoRestoration(str(error)) from error
    except StoreDamaged as error:
        raise NoRestoration(f"{error}; bring that object back, such as from a version that the store keeps") from error
    RestorationRequest(restores=stored.root, accepts_loss=accepts_loss).keep(root)
    return f"{len(stored.files.files):,} files of machine {stored.machine} in term {stored.term}"
