"""The copy of a host's files in a folder of a peer. It changes by rounds: all of a round takes effect, or nothing.

A small round is first appended to a log as a whole and synced, and then it counts. After that its files are written,
without a sync each: a round that a crash interrupted is done again from the log, by `recover`. Most files are removed
soon, so most are never synced themselves. A round with more bytes has files that wait beside the log until it counts.

Everything here that is not the host's own lies in the folder `copying`: the log, waiting files, and the term.

Paths come from another machine, and none leads out of the copy.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from io import BufferedWriter
from pathlib import Path
from shutil import rmtree

import msgspec

from bridge.files import Steps, make_folder, no_steps, sync_folder, write_whole
from engine.replicas.channel import Commit, Piece, PresentFile, PresentFiles
from engine.replicas.file_kinds import (
    FOLDERS,
    digest_of,
    folders_around,
    has_folder,
    is_plain,
    is_replaced,
    is_sent,
    kind_of,
)


class WrongContent(ValueError):
    """A path that must not be in a copy, or content that is not what was sent."""


class CopyTree:
    """The folders `jobs`, `spools` and `hosts` of a copy."""

    def __init__(self, place: Path, unfinished: Path, step: Steps) -> None:
        """`unfinished` is where a file is written before it gets its name, on the same file system."""
        self._place = str(place)
        self._unfinished = str(unfinished)
        self._step = step
        self._real: set[str] = set()
        """The folders that are known to be folders, and not links to some."""

    def forget(self) -> None:
        """Look at all folders anew, since others may have worked in them."""
        self._real.clear()

    def check_file(self, path: str) -> None:
        """Refuse the path of a file that is not sent."""
        if not is_sent(path):
            raise WrongContent(f"{path!r} is no path of a host's file")
        self._check_way(path)

    def check_folder(self, path: str) -> None:
        """Refuse the path of a folder that is not sent."""
        if path not in FOLDERS and not (is_plain(path) and all(map(has_folder, (*folders_around(path), path)))):
            raise WrongContent(f"{path!r} is no path of a host's folder")
        self._check_way(path)

    def check_removed(self, path: str) -> None:
        """Refuse to remove something outside the copy; inside, anything may be removed."""
        if not is_plain(path):
            raise WrongContent(f"{path!r} is no path in a host's folders")
        self._check_way(path)

    def _check_way(self, path: str) -> None:
        """Refuse a path through a link."""
        for folder in folders_around(path):
            if folder not in self._real and os.path.islink(f"{self._place}/{folder}"):  # noqa: PTH114 - as below
                raise WrongContent(f"{folder!r} is a link; a copy has its files in its own folders")

    def make(self, folder: str) -> None:
        """Make a folder, and those around it."""
        if folder in self._real:
            return
        if "/" in folder:
            self.make(folder.rpartition("/")[0])
        with suppress(FileExistsError):
            os.mkdir(f"{self._place}/{folder}")  # noqa: PTH102 - strings, since a path for each file costs more
        if os.path.islink(f"{self._place}/{folder}"):  # noqa: PTH114 - as above
            raise WrongContent(f"{folder!r} is a link; a copy has its files in its own folders")
        self._real.add(folder)

    def write(self, path: str, data: bytes, mtime_ns: int) -> None:
        """Write a whole file."""
        handle = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(handle, data)
            os.utime(handle, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(handle)
        self.place_file(self._unfinished, path)

    def place_file(self, waiting: str, path: str) -> None:
        """Give a whole file its name."""
        self.make(path.rpartition("/")[0])
        self._step("rename")
        os.replace(waiting, f"{self._place}/{path}")  # noqa: PTH105 - as above

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._step("remove")
        with suppress(FileNotFoundError):
            os.unlink(f"{self._place}/{path}")  # noqa: PTH108 - as above

    def remove_folder(self, folder: str) -> None:
        """Remove a folder, unless something is in it."""
        self._real = {real for real in self._real if real != folder and not real.startswith(f"{folder}/")}
        self._step("remove folder")
        try:
            os.rmdir(f"{self._place}/{folder}")  # noqa: PTH106 - as above
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
                raise

    def walk(self) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
        """Each folder with the names, sizes and times of its files, whatever they are; links count as files."""
        waiting = [folder for folder in FOLDERS if (Path(self._place) / folder).is_dir()]
        while waiting:
            folder = waiting.pop()
            files: list[tuple[str, int, int]] = []
            with os.scandir(f"{self._place}/{folder}") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{folder}/{entry.name}")
                    else:
                        file_stat = entry.stat(follow_symlinks=False)
                        size = -1 if entry.is_symlink() else file_stat.st_size
                        files.append((entry.name, size, file_stat.st_mtime_ns))
            yield folder, files


_LENGTH, _DIGEST = 8, 32


class LoggedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a round."""

    path: str
    mtime_ns: int
    data: bytes | None
    """None if it waits beside the log."""


class LoggedRound(msgspec.Struct, frozen=True, array_like=True):
    """The changes of a round."""

    files: list[LoggedFile]
    folders: list[str]
    removed: list[str]
    removed_folders: list[str]


_DECODER = msgspec.msgpack.Decoder(LoggedRound)


class RoundLog:
    """The files of the log, in the order of their names; the last one is written."""

    def __init__(self, folder: Path, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step
        self._last: Path | None = None
        self.size = 0
        """The bytes in the last file."""

    def parts(self) -> list[Path]:
        """The files of the log."""
        return sorted(self._folder.glob("rounds.*"))

    def append(self, logged: LoggedRound) -> None:
        """Append a round; it counts once this returns."""
        body = msgspec.msgpack.encode(logged)
        framed = len(body).to_bytes(_LENGTH, "big") + sha256(body).digest() + body
        if self._last is None:
            self.turn()
        assert self._last is not None  # noqa: S101 - for the type checker
        self._step("log")
        handle = os.open(self._last, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        try:
            os.lseek(handle, self.size, os.SEEK_SET)
            try:
                _write_all(handle, framed)
                self._step("sync log")
                os.fsync(handle)
            except OSError:
                # On a full disk: it does not count, and what was written would keep the disk full.
                os.ftruncate(handle, self.size)
                raise
        finally:
            os.close(handle)
        self.size += len(framed)

    def turn(self) -> list[Path]:
        """Go on in another file; the files before it may be removed once all their rounds are written and synced."""
        before = self.parts()
        number = int(before[-1].suffix[1:]) + 1 if before else 1
        make_folder(self._folder)
        path = self._folder / f"rounds.{number:08d}"
        path.touch()
        sync_folder(self._folder)
        self._last, self.size = path, 0
        return before

    def rounds(self) -> Iterator[LoggedRound]:
        """The rounds that count; what a crash cut off does not."""
        for path in self.parts():
            with path.open("rb") as file:
                while len(head := file.read(_LENGTH + _DIGEST)) == _LENGTH + _DIGEST:
                    # A part of a round is what a crash left of the last one.
                    body = file.read(int.from_bytes(head[:_LENGTH], "big"))
                    if sha256(body).digest() != head[_LENGTH:]:
                        return
                    yield _DECODER.decode(body)

    def clear(self) -> None:
        """Remove all of it."""
        self._last, self.size = None, 0
        # The oldest first: a round is never done again without those after it.
        for path in self.parts():
            path.unlink()
            sync_folder(self._folder)


COPYING = "copying"
"""The folder beside the files of a copy with all that belongs to the copying."""
IN_MEMORY = 4 << 20
"""Bytes of a round that are kept in memory, and then in the log."""
LONGEST_LOG = 16 << 20
"""Bytes of rounds after which everything is synced, so that they need not be logged any longer."""
_PAGE = 1000
"""Files in one frame of those that are present."""


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
            for logged in self._log.rounds():
                self._write(logged)
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
                digest = b"" if known and not is_replaced(path) else digest_of(f"{self.place}/{path}")
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
        if self._coming is None or self._coming.awaited != (piece.path, piece.size, piece.at):
            raise WrongContent(f"a part of {piece.path} is missing at {piece.at}; all of it is sent again")
        if self._coming.take(piece):
            self._coming = None
            self._files[piece.path] = LoggedFile(piece.path, piece.mtime_ns, None)

    def commit(self, commit: Commit) -> LoggedRound:
        """Let the round count. It is then to be finished, before anything else."""
        for path in commit.withdrawn:
            self._files.pop(path, None)
        for folder in commit.folders:
            self._tree.check_folder(folder)
        for path in (*commit.removed, *commit.removed_folders):
            self._tree.check_removed(path)
        files = sorted(self._files.values(), key=lambda file: kind_of(file.path))
        done = LoggedRound(files, commit.folders, commit.removed, commit.removed_folders)
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
        self.awaited = (first.path, first.size, 0)
        """The file, and where its next part begins."""
        self._file: BufferedWriter = waiting.open("wb")
        self._digest = sha256()

    def close(self) -> None:
        self._file.close()

    def take(self, piece: Piece) -> bool:
        """Take a part; True if it was the last."""
        self._file.write(piece.data)
        self._digest.update(piece.data)
        came = piece.at + len(piece.data)
        self.awaited = (piece.path, piece.size, came)
        if came < piece.size and piece.data:
            return False
        self.close()
        os.utime(self._file.name, ns=(piece.mtime_ns, piece.mtime_ns))
        _check(piece, self._digest.digest() if came == piece.size else b"")
        return True


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


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
