"""The connection of an owner to its store: it answers frames as a machine would, and keeps their files in objects."""

import time
from collections import deque
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from engine.replicas.channel import Disconnected
from engine.replicas.file_kinds import is_replaced, kind_of
from engine.replicas.frames import (
    CannotKeep,
    Commit,
    Confirmed,
    CopyChanges,
    Frame,
    Greeting,
    OwnerRefused,
    Piece,
    Pieces,
    PresentFile,
    PresentFiles,
)
from engine.replicas.store.latest import LatestState, latest
from engine.replicas.store.objects import StoreDamaged, StoreObjects
from engine.replicas.store.sitting import HigherTerm, Sitting
from engine.replicas.store.stored import StoredClaim, StoredRound
from engine.replicas.store.writer import IncomingFile, StoreWriter

_DEPLOYMENT = "deployment"
"""The file of a host with the id of its deployment."""
_PROBE = 10.0
"""Seconds without a round after which it is seen whether the store is still there, and whose it is."""
_PAGE = 1000


class _OtherDeployment(Exception):
    """A store with a host of the same name that is another one."""


class StoreChannel:
    """One connection; used by one thread."""

    def __init__(self, objects: StoreObjects, *, root: Path, identity: str) -> None:
        """`root` is that of the host, and `identity` the id of its machine's root."""
        self._objects = objects
        self._root = root
        self._identity = identity
        self._answers: deque[Frame] = deque()
        self._writer: StoreWriter | None = None
        self._coming: dict[str, IncomingFile] = {}
        self._changes = CopyChanges()
        self._seen_at = 0.0
        self._hung_up = False

    def send(self, frame: Frame) -> int:
        """Take a frame of the owner; returns the bytes that were written."""
        before = self._objects.sent
        if self._hung_up:
            raise Disconnected("the owner hung up")
        try:
            self._work(frame)
        except _OtherDeployment as error:
            self._answers.append(CannotKeep(why=str(error)))
        except HigherTerm as error:
            self._answers.append(OwnerRefused(term=error.term, why=str(error)))
        except StoreDamaged as error:
            self._answers.append(CannotKeep(why=f"{error}; remove {self._objects.url}, and all is sent again"))
        return self._objects.sent - before

    def receive(self) -> Frame:
        """The next answer."""
        if self._hung_up or not self._answers:
            raise Disconnected("the owner hung up")
        return self._answers.popleft()

    def hang_up(self) -> None:
        """Write nothing more; from any thread."""
        self._hung_up = True

    def close(self) -> None:
        """There is nothing to give back."""

    def _work(self, frame: Frame) -> None:
        # Only between rounds: what was written for the next one is needed by nothing yet.
        if self._writer is not None and self._writer.is_full and not self._coming:
            self._writer.gather()
        match frame:
            case Greeting():
                self._begin(frame)
            case Pieces():
                for piece in frame.pieces:
                    self._take(piece)
            case CopyChanges():
                self._note(frame)
            case Commit():
                self._commit(frame)
            case _:
                raise Disconnected(f"an owner sent a {type(frame).__name__}")

    def _begin(self, greeting: Greeting) -> None:
        # A claim would already end what another deployment does.
        self._check_deployment(greeting.host, latest(self._objects))
        claim = StoredClaim(machine=greeting.machine, root=self._identity)
        sitting = Sitting(self._objects, greeting.term, claim)
        before = latest(self._objects)
        self._writer = StoreWriter(self._objects, sitting, before, claim)
        # A term has one owner. So a file of the same time and size is the same, unless it may be replaced.
        known = (before.term, before.root) == (greeting.term, self._identity)
        files = [
            PresentFile(
                file.path, file.size, file.mtime_ns, b"" if known and not is_replaced(file.path) else file.digest
            )
            for file in before.files.files.values()
        ]
        for first in range(0, len(files), _PAGE):
            self._answers.append(PresentFiles(files[first : first + _PAGE], []))
        self._answers.append(PresentFiles([], list(before.files.folders), last=True))
        self._seen_at = time.monotonic()

    def _check_deployment(self, host: str, before: LatestState) -> None:
        """Refuse to write over the files of another deployment, or of this one before its disk was lost."""
        path = f"hosts/{quote(host, safe='')}/{_DEPLOYMENT}"
        theirs = before.files.files.get(path)
        own = self._root / path
        if theirs is not None and (not own.exists() or sha256(own.read_bytes()).digest() != theirs.digest):
            raise _OtherDeployment(
                f"{self._objects.url} has the files of another deployment's host {host}, or of this one before it "
                "began anew; give another URL, or remove that folder if nobody needs it"
            )

    def _take(self, piece: Piece) -> None:
        writer = self._begun()
        if piece.at == 0:
            self._coming[piece.path] = IncomingFile(piece.path, piece.size, piece.mtime_ns)
        file = self._coming[piece.path]
        if file.came != piece.at:
            raise Disconnected(f"a part of {piece.path} is missing at {piece.at}")
        writer.add(file, piece.data)
        file.digest = piece.digest

    def _note(self, changes: CopyChanges) -> None:
        for path in changes.withdrawn:
            self._coming.pop(path, None)
        self._changes = CopyChanges(
            folders=self._changes.folders + changes.folders,
            removed=self._changes.removed + changes.removed,
            removed_folders=self._changes.removed_folders + changes.removed_folders,
        )

    def _commit(self, commit: Commit) -> None:
        writer, noted = self._begun(), self._changes
        done = StoredRound(
            files=tuple(file.stored() for file in sorted(self._coming.values(), key=lambda file: kind_of(file.path))),
            folders=tuple(noted.folders),
            removed=tuple(noted.removed),
            removed_folders=tuple(noted.removed_folders),
            portion=commit.portion,
        )
        if done != StoredRound(portion=commit.portion) or not (commit.portion or writer.is_whole):
            writer.write(done)
            self._seen_at = time.monotonic()
        elif time.monotonic() - self._seen_at > _PROBE:
            writer.check()
            self._seen_at = time.monotonic()
        writer.forget()
        self._coming.clear()
        self._changes = CopyChanges()
        self._answers.append(Confirmed(number=commit.number))

    def _begun(self) -> StoreWriter:
        if self._writer is None:
            raise Disconnected("the owner did not say which host it is about")
        return self._writer
