"""The copy of a host's files in a folder of a peer. It changes by rounds: all of a round takes effect, or nothing.

A small round is first appended to a log as a whole and synced, and then it counts. After that its files are written,
without a sync each: a round that a crash interrupted is done again from the log, by `recover`. Most files are removed
soon, so most are never synced themselves. A round with more bytes has files that wait beside the log until it counts.

Everything here that is not the host's own lies in the folder `copying`: the log, waiting files, and the term.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from hashlib import sha256
from io import BufferedWriter
from pathlib import Path
from shutil import rmtree

import msgspec

from bridge.files import Steps, make_folder, no_steps, write_whole
from engine.replicas.copy_tree import CopyTree
from engine.replicas.file_kinds import FOLDERS, is_replaced, kind_of
from engine.replicas.frames import CopyChanges, Piece, PresentFile, PresentFiles
from engine.replicas.round_log import LoggedFile, LoggedRound, RoundLog

COPYING = "copying"
"""The folder beside the files of a copy with all that belongs to the copying."""
IN_MEMORY = 4 << 20
"""Bytes of a round that are kept in memory, and then in the log."""
LONGEST_LOG = 16 << 20
"""Bytes of rounds after which everything is synced, so that they need not be logged any longer."""
_PAGE = 1000
"""Files in one frame of those that are present."""


class WrongContent(ValueError):
    """What came is not what was sent."""


class _Standing(msgspec.Struct, frozen=True):
    term: int = 0
    whole: int = 0
    """The term as whose owner's the copy was exact; since then it had no files of others."""


class CopyFolder:
    """The copy of one host; used by one thread at a time."""

    def __init__(self, place: Path, *, step: Steps = no_steps) -> None:
        self.place = place
        self._own = place / COPYING
        make_folder(self._own)
        self._step = step
        self._tree = CopyTree(place, self._own / "file", step)
        self._log = RoundLog(self._own, step)
        self._standing = self._read_standing()
        self._syncing: threading.Thread | None = None
        self._coming: _Coming | None = None
        self._forget()

    @property
    def term(self) -> int:
        """The highest term of an owner that is known here."""
        return self._standing.term

    def raise_term(self, term: int) -> None:
        """Note a higher term, durably."""
        if term > self.term:
            self._stand(_Standing(term=term, whole=self._standing.whole))

    def recover(self) -> None:
        """Finish the rounds that count, and forget what does not. After that the copy needs nothing but its files."""
        self._forget()
        self._tree.forget()
        if self._log.parts():
            for each in self._log.rounds():
                self._write(each)
            self._make_durable()
        for path in self._own.glob("*.waiting"):
            path.unlink()

    def remove(self) -> None:
        """Remove all files of the host; the term stays known. What a crash leaves is a copy that lacks something."""
        self._forget()
        if self._syncing is not None:
            self._syncing.join()
        self._log.clear()
        for folder in FOLDERS:
            rmtree(self.place / folder, ignore_errors=True)
        self._tree.forget()

    def present(self) -> Iterator[PresentFiles]:
        """All files and folders that are there, whatever they are, for an owner to compare with its own."""
        files: list[PresentFile] = []
        folders: list[str] = []
        known = self._standing.whole == self.term
        for folder, names in self._tree.walk():
            folders.append(folder)
            for name, size, mtime_ns in names:
                path = f"{folder}/{name}"
                # A term has one owner. So a file of the same time and size is the same, unless it was replaced within
                # a tick of the clock.
                digest = b"" if known and not is_replaced(path) else self._tree.digest(path)
                files.append(PresentFile(path, size, mtime_ns, digest))
                if len(files) >= _PAGE or (digest and size > IN_MEMORY):
                    yield PresentFiles(files, folders)
                    files, folders = [], []
        yield PresentFiles(files, folders, last=True)

    def take(self, piece: Piece) -> None:
        """Take a file, or a part of one, for the next round."""
        if piece.at == 0:
            self._tree.check_file(piece.path)
            if len(piece.data) == piece.size and self._in_memory + piece.size <= IN_MEMORY:
                _check(piece, sha256(piece.data).digest())
                self._in_memory += piece.size
                self._files[piece.path] = LoggedFile(piece.path, piece.mtime_ns, piece.data)
                return
            self._drop_coming()
            self._coming = _Coming(piece, self._waiting(piece.path))
        if self._coming is None or not self._coming.is_next(piece):
            raise WrongContent(f"a part of {piece.path} is missing at {piece.at}; all of it is sent again")
        if self._coming.take(piece):
            self._coming = None
            self._files[piece.path] = LoggedFile(piece.path, piece.mtime_ns, None)

    def note(self, changes: CopyChanges) -> None:
        """Take what the next round does besides putting files."""
        for path in changes.withdrawn:
            self._files.pop(path, None)
        for folder in changes.folders:
            self._tree.check_folder(folder)
        for path in (*changes.removed, *changes.removed_folders):
            self._tree.check_removed(path)
        self._folders += changes.folders
        self._removed += changes.removed
        self._removed_folders += changes.removed_folders

    def commit(self) -> LoggedRound:
        """Let the round count. It is then to be finished, before anything else."""
        files = sorted(self._files.values(), key=lambda file: kind_of(file.path))
        done = LoggedRound(files, self._folders, self._removed, self._removed_folders)
        if any(file.data is None for file in files):
            # The files that wait must be durable, and no older round may be done again after they have their names.
            self._make_durable()
        if files or done.folders or done.removed or done.removed_folders:
            self._log.append(done)
        self._forget()
        return done

    def finish(self, done: LoggedRound, *, whole: bool) -> None:
        """Write the files of a round that counts; `whole` says that the copy is then exactly its owner's."""
        self._write(done)
        if any(file.data is None for file in done.files):
            self._make_durable()
        elif self._log.size > LONGEST_LOG and (self._syncing is None or not self._syncing.is_alive()):
            self._syncing = threading.Thread(target=_sync_and_remove, args=(self.place, self._log.turn()), daemon=True)
            self._syncing.start()
        if whole and self._standing.whole != self.term:
            self._stand(_Standing(term=self.term, whole=self.term))

    def _write(self, done: LoggedRound) -> None:
        for folder in done.folders:
            self._tree.make(folder)
        for file in done.files:
            if file.data is not None:
                self._tree.write(file.path, file.data, file.mtime_ns)
            elif (waiting := self._waiting(file.path)).exists():
                # Otherwise it had got its name before the round was interrupted.
                self._tree.place_file(str(waiting), file.path)
        for path in done.removed:
            self._tree.remove(path)
        for folder in done.removed_folders:
            self._tree.remove_folder(folder)

    def _make_durable(self) -> None:
        """Make all that was written durable, so that the log has nothing to say."""
        if self._syncing is not None:
            self._syncing.join()
        sync_all(self.place)
        self._log.clear()

    def _forget(self) -> None:
        """Forget what came for a round that does not count."""
        self._files: dict[str, LoggedFile] = {}
        self._folders: list[str] = []
        self._removed: list[str] = []
        self._removed_folders: list[str] = []
        self._in_memory = 0
        self._drop_coming()

    def _drop_coming(self) -> None:
        if self._coming is not None:
            self._coming.close()
            self._coming = None

    def _waiting(self, path: str) -> Path:
        return self._own / f"{sha256(path.encode()).hexdigest()}.waiting"

    def _read_standing(self) -> _Standing:
        path = self._own / "term"
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Standing) if path.exists() else _Standing()
        except msgspec.MsgspecError as error:
            raise OSError(f"{path} is damaged: {error}; remove the whole copy, and it is sent again") from error

    def _stand(self, standing: _Standing) -> None:
        write_whole(self._own / "term", msgspec.json.encode(standing), self._step)
        self._standing = standing


class _Coming:
    """A file that comes in parts, or is too large for the memory."""

    def __init__(self, first: Piece, waiting: Path) -> None:
        self._path, self._size = first.path, first.size
        self._file: BufferedWriter = waiting.open("wb")
        self._came = 0
        self._digest = sha256()

    def close(self) -> None:
        self._file.close()

    def is_next(self, piece: Piece) -> bool:
        return (piece.path, piece.size, piece.at) == (self._path, self._size, self._came)

    def take(self, piece: Piece) -> bool:
        """Take a part; True if it was the last."""
        self._file.write(piece.data)
        self._digest.update(piece.data)
        self._came += len(piece.data)
        if self._came < self._size and piece.data:
            return False
        self.close()
        os.utime(self._file.name, ns=(piece.mtime_ns, piece.mtime_ns))
        _check(piece, self._digest.digest() if self._came == self._size else b"")
        return True


def _check(piece: Piece, digest: bytes) -> None:
    if digest != piece.digest:
        raise WrongContent(f"the content of {piece.path} changed on its way; it is sent again")


def sync_all(place: Path) -> None:
    """Make everything durable that was written on the file system of a folder."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), f"{place} cannot be synced: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)


def _sync_and_remove(place: Path, parts: list[Path]) -> None:
    sync_all(place)
    for path in parts:
        path.unlink(missing_ok=True)


_LIBC = ctypes.CDLL(None, use_errno=True)
"""Python has no call for the sync of one file system."""
