"""The sender to one peer: a thread that keeps the peer's copy up to date, and connects again whenever that breaks.

Over each connection it learns what the peer has, and sends the rounds that change it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Protocol

import msgspec

from bridge.machine import BackOff
from engine.replicas.channel import (
    PIECE_BYTES,
    CannotKeep,
    Channel,
    Commit,
    Confirmed,
    CopyChanges,
    CopyTls,
    Disconnected,
    Frame,
    FrameChannel,
    Greeting,
    OwnerRefused,
    Piece,
    Pieces,
    PresentFile,
    PresentFiles,
)
from engine.replicas.file_kinds import is_replaced, kind_of
from engine.replicas.root_look import FileVersion, RootLook, Tree

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


WHOLE_SECONDS = 1.0
"""Seconds between two looks at everything."""
BROKEN_SECONDS = 5.0
"""Seconds after which a peer that was not reached counts as broken."""
_BACK_OFF = BackOff.doubling(0.05, longest=1.0)
_NEARLY = 8 << 20
"""Bytes of a look at everything; with less to send, a peer is nearly in sync, so that it is waited for."""
_LOOKS = 50
"""Looks that did not hold together, after which the next one waits for a while."""
log = logging.getLogger("braid.host")


class Destination(Protocol):
    """What takes copies; an equal one is the same."""

    @property
    def machine(self) -> str:
        """Its name."""

    def connect(self, host: str, root: Path, tls: CopyTls | None, on_answer: Callable[[], None]) -> FrameChannel:
        """Connect to it, for the copy of a host's root; `on_answer` is called whenever it shows that it is there."""


class PeerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that takes copies; made from what the leader orders."""

    machine: str
    at: str
    """Its address, host:port."""
    secret: str

    def connect(self, _host: str, _root: Path, tls: CopyTls | None, _on_answer: Callable[[], None]) -> Channel:
        """Connect to the machine; it answers frames alone."""
        return Channel.to(self.at, self.secret, tls)


class PeerSender:
    """Keeps one peer's copy; its public state is read and changed with `news` held."""

    def __init__(  # noqa: PLR0913 - whose files, where they are and how they go, and whom it notifies are eight things
        self,
        greeting: Greeting,
        root: Path,
        address: Destination,
        *,
        counted: bool,
        news: threading.Condition,
        on_kept: Callable[[], None],
        on_refused: Callable[[int], None],
        tls: CopyTls | None = None,
    ) -> None:
        """`on_kept` is called after a round that the peer confirmed, and `on_refused` with a higher term."""
        self.address = address
        self.counted = counted
        """Whether the leader has committed that this peer has everything."""
        self.waited_for = counted
        """Whether nothing is acted upon before this peer has it."""
        self.in_sync = False
        """Whether it has had everything at some time since it is waited for."""
        self.done = 0
        """The last request that it fulfils."""
        self.known: Tree = {}
        """The files that it has; replaced as a whole."""
        self._had: Tree = {}
        """What it had when it was last connected."""
        self.left = self.sent = 0
        self.trouble = ""
        self.greeting = greeting
        self._root = root
        self._news = news
        self._on_kept = on_kept
        self._on_refused = on_refused
        self._tls = tls
        self._asked = 0
        self._wanted: set[str] = set()
        self._wants_all = True
        self._reached = time.monotonic()
        self._channel: FrameChannel | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"sends copies to {address.machine}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def ask(self, request: int, entities: Iterable[str] | None) -> None:
        """Ask for some jobs, spools and hosts, or for everything, by a number that grows; with `news` held."""
        self._asked = request
        if entities is None:
            self._wants_all = True
        else:
            self._wanted.update(entities)

    def expect(self, *, counted: bool) -> None:
        """Take note whether the peer is committed to have everything; with `news` held."""
        self.counted = counted
        if counted:
            self.waited_for = True
        elif self.is_broken:
            # Where no machine can replace it, it stays a peer, and nobody may wait for it.
            self.waited_for = self.in_sync = False

    @property
    def is_broken(self) -> bool:
        """Whether it was not reached for some seconds."""
        return time.monotonic() - self._reached > BROKEN_SECONDS

    def close(self) -> None:
        """Send nothing more; with `news` held."""
        self._closed = True
        if self._channel is not None:
            self._channel.hang_up()
        self._news.notify_all()

    def join(self) -> None:
        """Wait a moment for the thread to end; without `news` held. It sends nothing more anyway."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        failures = 0
        look = RootLook(self._root)
        while not self._closed:
            line: CopyLine | None = None
            try:
                line = self._connect()
                failures = 0
                self._keep(line)
            except PeerRefuses as error:
                self._note(str(error))
                if error.term > self.greeting.term:
                    self._on_refused(error.term)
                    return
            except OSError as error:
                self._note(str(error) or type(error).__name__)
            except Exception:
                # Whatever it is: to end here would have everybody wait for ever, and nobody know.
                log.exception("copies to %s: they are tried again", self.address.machine)
                self._note("see the log of the host")
            finally:
                self._hang_up()
            failures += 1
            self._count_missing(look)
            with self._news:
                self._news.wait_for(lambda: self._closed, timeout=_BACK_OFF.after(failures))

    def _connect(self) -> CopyLine:
        channel = self.address.connect(self.greeting.host, self._root, self._tls, self._touch)
        with self._news:
            self._channel = channel
            if self._closed:
                channel.hang_up()
        line = CopyLine(channel, self._root, on_sent=self._count)
        line.greet(self.greeting)
        return line

    def _hang_up(self) -> None:
        with self._news:
            channel, self._channel = self._channel, None
            self._had, self.known = self.known or self._had, {}
            if not self.in_sync:
                # Nobody has heard that it counts.
                self.waited_for = self.counted
        if channel is not None:
            channel.close()

    def _count_missing(self, look: RootLook) -> None:
        """Note what a peer that is away does not have by now."""
        with suppress(OSError):
            if (found := look.whole(self._had)) is not None:
                had = self._had
                self.left = sum(
                    version.size
                    for folder, files in found.items()
                    for name, version in files.items()
                    if had.get(folder, {}).get(name) != version
                )

    def _keep(self, line: CopyLine) -> None:
        """Keep the copy up to date, as long as the connection lasts."""
        look = RootLook(self._root)
        whole_at = 0.0
        with self._news:
            self._wants_all = True
        synced = False
        while True:
            with self._news:
                self._news.wait_for(
                    lambda: self._closed or self._wants_all or self._wanted,
                    timeout=max(0.0, whole_at + WHOLE_SECONDS - time.monotonic()) if synced else 0.0,
                )
                if self._closed:
                    return
                request, wanted = self._asked, frozenset(self._wanted)
                whole = self._wants_all or time.monotonic() >= whole_at + WHOLE_SECONDS or not synced
                self._wants_all = False
                self._wanted.clear()
                waited_for = self.waited_for
            before, changes = self.sent, line.changes
            whole = self._round(line, look, None if whole else wanted, in_portions=not waited_for)
            if whole:
                whole_at = time.monotonic()
            with self._news:
                self.trouble = ""
                self.done, self.known = request, line.known
                if whole and waited_for and self.waited_for:
                    synced = self.in_sync = True
                elif whole and self.sent - before < _NEARLY:
                    # From now on nothing is acted upon that it does not have. With one more look it has all before.
                    self.waited_for = True
                self._news.notify_all()
            if line.changes > changes or not synced:
                self._on_kept()

    def _round(self, line: CopyLine, look: RootLook, wanted: Iterable[str] | None, *, in_portions: bool) -> bool:
        """Bring the peer all that is wanted; whether that took everything."""
        looks = 0
        while not self._closed:
            looks += 1
            if wanted is not None and looks > 1:
                # What was looked at does not hold together without the rest, or not any more.
                wanted = None
            found = look.whole(line.known) if wanted is None else look.part(wanted, line.known)
            if found is not None and line.bring(found, whole=wanted is None, in_portions=in_portions):
                return wanted is None
            if looks % _LOOKS == 0:
                self._note("the host's files change faster than they can be sent")
                with self._news:
                    self._news.wait_for(lambda: self._closed, timeout=_BACK_OFF.longest)
        return False

    def _count(self, sent: int, left: int) -> None:
        self.sent += sent
        self.left = left
        self._reached = time.monotonic()

    def _touch(self) -> None:
        self._reached = time.monotonic()

    def _note(self, trouble: str) -> None:
        if trouble != self.trouble and not self._closed:
            log.warning("the copy at %s waits: %s", self.address.machine, trouble)
        self.trouble = trouble
