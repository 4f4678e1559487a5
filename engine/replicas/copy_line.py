"""A connection of an owner to one peer: what the peer has, and the rounds that change it."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path

from engine.replicas.channel import PIECE_BYTES, Disconnected
from engine.replicas.file_kinds import is_replaced, kind_of
from engine.replicas.frames import (
    CannotKeep,
    Commit,
    Confirmed,
    CopyChanges,
    Frame,
    FrameChannel,
    Greeting,
    OwnerRefused,
    Piece,
    Pieces,
    PresentFile,
    PresentFiles,
)
from engine.replicas.root_folders import FileVersion, Tree

_PAGE = 2000
"""Paths in one frame of changes, and files in one frame."""
_LONGEST_REST = 0.5
"""Seconds for which a copy that nobody counts on rests at most, after each frame."""
_TICK = 50_000_000
"""Nanoseconds within which a file may be replaced without getting another time."""
PORTION = 64 << 20
"""Bytes after which a copy that nobody counts on is committed in between, so that a break costs no more."""


class PeerRefuses(ConnectionError):
    """A peer takes nothing from this owner."""

    def __init__(self, term: int, why: str) -> None:
        super().__init__(why)
        self.term = term
        """The highest term of the host that the peer knows."""


class PeerTrouble(ConnectionError):
    """A peer cannot do its part for now."""


class CopyLine:
    """The copy of a root at a peer, over one connection; used by one thread."""

    def __init__(self, channel: FrameChannel, root: Path, *, on_sent: Callable[[int, int], None]) -> None:
        """`on_sent` is called with the bytes that were just sent, and with those of files that are left."""
        self._channel = channel
        self._root = str(root)
        self._on_sent = on_sent
        self.known: Tree = {}
        """The files in the copy, as of the last round."""
        self._present: dict[str, PresentFile] = {}
        """Files that the peer had from the start, and that were not compared yet."""
        self._waiting: dict[str, FileVersion] = {}
        """Files that were sent for the next round."""
        self._unsure: set[str] = set()
        """Files that may have been replaced unnoticed just after they were read."""
        self._number = 0
        self._left = 0
        self.changes = 0
        """How many rounds changed the copy."""

    def greet(self, greeting: Greeting) -> None:
        """Ask what the peer has."""
        self._channel.send(greeting)
        while True:
            present = self._answer()
            if not isinstance(present, PresentFiles):
                raise Disconnected(f"the peer answered the greeting with a {type(present).__name__}")
            for folder in present.folders:
                self.known.setdefault(folder, {})
            for file in present.files:
                folder, _, name = file.path.rpartition("/")
                self.known.setdefault(folder, {})[name] = FileVersion(file.size, file.mtime_ns, 0)
                self._present[file.path] = file
            self._on_sent(0, 0)
            if present.last:
                return

    def bring(self, found: Tree, *, whole: bool, in_portions: bool) -> bool:
        """Bring the copy to what was found; False if a file went before it was sent, so that it takes another look.

        `whole` says that everything was looked at, and what was not found is gone.
        """
        if self._present:
            self._compare(found)
        if not self._send_files(self._differing(found), in_portions=in_portions):
            return False
        changed = self._send_changes(found, whole=whole)
        changed = changed or bool(self._waiting)
        # Without changes, it shows that the peer is still there.
        if changed or whole:
            self._commit(whole=whole)
        self.changes += changed
        self.known = dict(found) if whole else {**self.known, **found}
        self._waiting.clear()
        for path in self._unsure:
            folder, _, name = path.rpartition("/")
            if (version := self.known.get(folder, {}).get(name)) is not None:
                self.known[folder] = {**self.known[folder], name: version._replace(inode=-1)}
        self._unsure.clear()
        return True

    def _compare(self, found: Tree) -> None:
        """Take the files that the peer had for our own if they are the same."""
        for path, file in self._present.items():
            folder, _, name = path.rpartition("/")
            version = found.get(folder, {}).get(name)
            if version is None or (version.size, version.mtime_ns) != (file.size, file.mtime_ns):
                continue
            if not file.digest or file.digest == self._digest(path):
                self.known[folder][name] = version
        self._present.clear()

    def _differing(self, found: Tree) -> list[tuple[str, FileVersion]]:
        """The files that the peer does not have, in the order in which it writes them."""
        differing = [
            (f"{folder}/{name}", version)
            for folder, files in found.items()
            if files is not (had := self.known.get(folder, {}))
            for name, version in files.items()
            if had.get(name) != version
        ]
        return sorted(
            (each for each in differing if self._waiting.get(each[0]) != each[1]), key=lambda each: kind_of(each[0])
        )

    def _send_files(self, files: Iterable[tuple[str, FileVersion]], *, in_portions: bool) -> bool:
        """Send files; False if some are gone or were replaced."""
        files = list(files)
        self._left = sum(version.size for _, version in files)
        pieces: list[Piece] = []
        size = since = 0
        complete = True
        pace = _BackgroundPace()
        for path, version in files:
            try:
                for piece in self._pieces(path, version):
                    pieces.append(piece)
                    size += len(piece.data)
                    if size >= PIECE_BYTES or len(pieces) >= _PAGE:
                        self._send(Pieces(pieces=pieces))
                        pieces, size = [], 0
                        if in_portions:
                            pace.rest()
            except FileNotFoundError:
                complete = False
                continue
            self._waiting[path] = version
            since += version.size
            if in_portions and since > PORTION:
                self._send(Pieces(pieces=pieces))
                pieces, size, since = [], 0, 0
                self._commit(whole=False, portion=True)
                self._note_portion()
        if pieces:
            self._send(Pieces(pieces=pieces))
        return complete

    def _pieces(self, path: str, version: FileVersion) -> Iterator[Piece]:
        """The parts of a file. Raises FileNotFoundError if it is not there any more."""
        handle = os.open(f"{self._root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as file:
            now, found = time.time_ns(), os.fstat(handle)
            if (found.st_size, found.st_mtime_ns, found.st_ino) != version:
                raise FileNotFoundError(path)
            if now - version.mtime_ns < _TICK and is_replaced(path):
                self._unsure.add(path)
            digest = sha256()
            at = 0
            while True:
                data = file.read(min(PIECE_BYTES, version.size - at))
                digest.update(data)
                last = at + len(data) == version.size
                if not data and not last:
                    raise FileNotFoundError(f"{path} was cut short")
                yield Piece(path, version.size, version.mtime_ns, at, data, digest.digest() if last else b"")
                at += len(data)
                if last:
                    return

    def _send_changes(self, found: Tree, *, whole: bool) -> bool:
        """Send what changes besides files; False if nothing does."""
        folders = sorted(found.keys() - self.known.keys())
        withdrawn = [
            path
            for path, version in self._waiting.items()
            if found.get((parts := path.rpartition("/"))[0], {}).get(parts[2]) != version
        ]
        removed = [
            f"{folder}/{name}"
            for folder, files in found.items()
            if files is not (had := self.known.get(folder, {}))
            for name in had.keys() - files.keys()
        ]
        gone = sorted(self.known.keys() - found.keys(), reverse=True) if whole else []
        removed += [f"{folder}/{name}" for folder in gone for name in self.known[folder]]
        # What needs others goes before them.
        removed.sort(key=kind_of, reverse=True)
        gone = [folder for folder in gone if "/" in folder]
        for path in withdrawn:
            del self._waiting[path]
        names = ("folders", "withdrawn", "removed", "removed_folders")
        for name, paths in zip(names, (folders, withdrawn, removed, gone), strict=True):
            for first in range(0, len(paths), _PAGE):
                self._send(CopyChanges(**{name: paths[first : first + _PAGE]}))
        return bool(folders or removed or gone)

    def _commit(self, *, whole: bool, portion: bool = False) -> None:
        """Let all that was sent count, and wait until the peer has confirmed it."""
        self._number += 1
        self._send(Commit(number=self._number, whole=whole, portion=portion))
        answer = self._answer()
        if answer != Confirmed(number=self._number):
            raise Disconnected(f"the peer answered a round with a {type(answer).__name__}")
        self._on_sent(0, self._left)

    def _note_portion(self) -> None:
        for path, version in self._waiting.items():
            folder, _, name = path.rpartition("/")
            # A folder of its own: the known one may be what was seen in the root.
            if not isinstance(files := self.known.get(folder), _Portion):
                files = self.known[folder] = _Portion(files or {})
            files[name] = version
        self._waiting.clear()

    def _send(self, frame: Frame) -> None:
        try:
            size = self._channel.send(frame)
        except Disconnected:
            # The peer may have said why.
            with suppress(Disconnected):
                self._answer()
            raise
        if isinstance(frame, Pieces):
            self._left -= sum(len(piece.data) for piece in frame.pieces)
        self._on_sent(size, self._left)

    def _answer(self) -> Frame:
        answer = self._channel.receive()
        if isinstance(answer, OwnerRefused):
            raise PeerRefuses(answer.term, answer.why)
        if isinstance(answer, CannotKeep):
            raise PeerTrouble(answer.why)
        return answer

    def _digest(self, path: str) -> bytes:
        try:
            with Path(f"{self._root}/{path}").open("rb") as file:
                return file_digest(file, "sha256").digest()
        except OSError:
            return b"?"


class _BackgroundPace:
    """The pace of a copy that nobody counts on: it leaves half of the time to what others wait for."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def rest(self) -> None:
        """Rest for as long as the last frame took to be read and sent."""
        time.sleep(min(time.monotonic() - self._since, _LONGEST_REST))
        self._since = time.monotonic()


class _Portion(dict[str, FileVersion]):
    """The files of a folder that came so far."""
