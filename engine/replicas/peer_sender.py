"""The sender to one peer: a thread that keeps the peer's copy up to date, and connects again whenever that breaks.

Over each connection it learns what the peer has, and sends the rounds that change it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from bridge.machine import BackOff
from engine.replicas.channel import (
    PIECE_BYTES,
    Channel,
    Commit,
    Confirmed,
    CopyTls,
    Disconnected,
    Frame,
    Greeting,
    PeerRefusal,
    PeerRefuses,
    Piece,
    PresentFile,
    PresentFiles,
    SentFiles,
)
from engine.replicas.file_kinds import digest_of, is_replaced, kind_of
from engine.replicas.root_look import FileVersion, RootLook, Tree

_PIECE_HEAD = 512
"""Bytes that a piece counts for besides its content, so that one frame has not too many."""
_LONGEST_REST = 0.5
"""Seconds for which a copy that nobody counts on rests at most, after each frame."""
_TICK = 50_000_000
"""Nanoseconds within which a file may be replaced without getting another time."""
PORTION = 64 << 20
"""Bytes after which a copy that nobody counts on is committed in between, so that a break costs no more."""
F = TypeVar("F", bound=Frame)


class CopyConnection(Protocol):
    """A connection to what keeps a copy, a peer or a store; used by one thread. Both calls may raise PeerRefuses."""

    def begin(self, greeting: Greeting) -> Iterator[PresentFiles]:
        """Say whose files are about to come; all that is there."""

    def send(self, sent: SentFiles) -> int:
        """Send files; with a commit, this returns once they are durable there. Returns the bytes that were sent."""

    def hang_up(self) -> None:
        """End the connection; who uses it gets an error. From any thread."""

    def close(self) -> None:
        """End the connection, and give its resources back."""


class PeerConnection:
    """A connection to a machine that keeps a copy."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.hang_up = channel.hang_up
        self.close = channel.close

    def begin(self, greeting: Greeting) -> Iterator[PresentFiles]:
        """Greet the machine; the files that it has."""
        self._channel.send(greeting)
        is_last = False
        while not is_last:
            yield (present := self._answer(PresentFiles))
            is_last = present.last

    def send(self, sent: SentFiles) -> int:
        """Send files, and wait for the confirmation of a commit."""
        try:
            size = self._channel.send(sent)
        except Disconnected:
            # The peer may have said why.
            with suppress(Disconnected):
                self._answer(Confirmed)
            raise
        if sent.commit is not None:
            self._answer(Confirmed)
        return size

    def _answer(self, kind: type[F]) -> F:
        answer = self._channel.receive()
        if isinstance(answer, PeerRefusal):
            raise PeerRefuses(answer.why, answer.term)
        if not isinstance(answer, kind):
            raise Disconnected(f"the peer answered with a {type(answer).__name__}")
        return answer


class CopyLine:
    """The copy of a root at a peer, over one connection; used by one thread."""

    def __init__(self, connection: CopyConnection, root: Path, *, on_sent: Callable[[int, int], None]) -> None:
        """`on_sent` is called with the bytes that were just sent, and with those of files that are left."""
        self._connection = connection
        self._root = str(root)
        self._on_sent = on_sent
        self.known: Tree = {}
        """The files in the copy, as of the last round."""
        self._present: dict[str, PresentFile] = {}
        """Files that the peer had from the start, and that were not compared yet."""
        self._waiting: dict[str, FileVersion] = {}
        """Files that were sent for the next round, or whose pieces wait to be."""
        self._unsure: set[str] = set()
        """Files that may have been replaced unnoticed just after they were read."""
        self._pieces: list[Piece] = []
        self._left = 0
        self.changes = 0
        """How many rounds changed the copy."""

    def greet(self, greeting: Greeting) -> None:
        """Ask what the peer has."""
        for present in self._connection.begin(greeting):
            for folder in present.folders:
                self.known.setdefault(folder, {})
            for file in present.files:
                folder, _, name = file.path.rpartition("/")
                self.known.setdefault(folder, {})[name] = FileVersion(file.size, file.mtime_ns, 0)
                self._present[file.path] = file
            self._on_sent(0, 0)

    def bring(self, seen: Tree, *, whole: bool, in_portions: bool) -> bool:
        """Bring the copy to what was seen; False if a file went before it was sent, so that it takes another look.

        `whole` says that everything was looked at, and what was not seen is gone.
        """
        if self._present:
            self._compare(seen)
        if not self._send_files(self._differing(seen), in_portions=in_portions):
            return False
        commit = self._commit(seen, whole=whole)
        changed = bool(commit.folders or commit.removed or commit.removed_folders or self._waiting)
        # Without changes, it shows that the peer is still there.
        if changed or whole or commit.withdrawn:
            self._send(commit)
        self.changes += changed
        self.known = dict(seen) if whole else {**self.known, **seen}
        self._waiting.clear()
        for path in self._unsure:
            folder, _, name = path.rpartition("/")
            if (version := self.known.get(folder, {}).get(name)) is not None:
                self.known[folder] = {**self.known[folder], name: version._replace(inode=-1)}
        self._unsure.clear()
        return True

    def _compare(self, seen: Tree) -> None:
        """Take the files that the peer had for our own if they are the same."""
        for path, file in self._present.items():
            folder, _, name = path.rpartition("/")
            version = seen.get(folder, {}).get(name)
            if version is None or (version.size, version.mtime_ns) != (file.size, file.mtime_ns):
                continue
            if not file.digest or file.digest == digest_of(f"{self._root}/{path}"):
                self.known[folder][name] = version
        self._present.clear()

    def _differing(self, seen: Tree) -> list[tuple[str, FileVersion]]:
        """The files that the peer does not have, in the order in which it writes them."""
        differing = [
            (path, version)
            for folder, files in seen.items()
            if files is not (had := self.known.get(folder, {}))
            for name, version in files.items()
            if had.get(name) != version and self._waiting.get(path := f"{folder}/{name}") != version
        ]
        return sorted(differing, key=lambda file: kind_of(file[0]))

    def _send_files(self, files: list[tuple[str, FileVersion]], *, in_portions: bool) -> bool:
        """Send files, but keep what fills no frame for the next one; False if some are gone or were replaced."""
        self._left = sum(version.size for _, version in files) + sum(len(piece.data) for piece in self._pieces)
        size = since = 0
        complete = True
        begun = time.monotonic()
        for path, version in files:
            try:
                for piece in self._read(path, version):
                    self._pieces.append(piece)
                    size += len(piece.data) + _PIECE_HEAD
                    if size >= PIECE_BYTES:
                        self._send()
                        size = 0
                        if in_portions:
                            # What others wait for gets half of the time.
                            time.sleep(min(time.monotonic() - begun, _LONGEST_REST))
                            begun = time.monotonic()
            except FileNotFoundError:
                complete = False
                continue
            self._waiting[path] = version
            since += version.size
            if in_portions and since > PORTION:
                self._send(Commit(whole=False, portion=True))
                self._note_portion()
                size = since = 0
        return complete

    def _read(self, path: str, version: FileVersion) -> Iterator[Piece]:
        """The parts of a file. Raises FileNotFoundError if it is not there any more."""
        handle = os.open(f"{self._root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as file:
            now, file_stat = time.time_ns(), os.fstat(handle)
            if (file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ino) != version:
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

    def _commit(self, seen: Tree, *, whole: bool) -> Commit:
        """The end of a round, with what changes besides files."""
        withdrawn = [
            path
            for path, version in self._waiting.items()
            if seen.get((parts := path.rpartition("/"))[0], {}).get(parts[2]) != version
        ]
        for path in withdrawn:
            del self._waiting[path]
        removed = [
            f"{folder}/{name}"
            for folder, files in seen.items()
            if files is not (had := self.known.get(folder, {}))
            for name in had.keys() - files.keys()
        ]
        gone = sorted(self.known.keys() - seen.keys(), reverse=True) if whole else []
        removed += [f"{folder}/{name}" for folder in gone for name in self.known[folder]]
        # What needs others goes before them.
        removed.sort(key=kind_of, reverse=True)
        return Commit(
            whole=whole,
            folders=sorted(seen.keys() - self.known.keys()),
            withdrawn=withdrawn,
            removed=removed,
            removed_folders=[folder for folder in gone if "/" in folder],
        )

    def _note_portion(self) -> None:
        for path, version in self._waiting.items():
            folder, _, name = path.rpartition("/")
            # A folder of its own: the known one may be what was seen in the root.
            if not isinstance(files := self.known.get(folder), _Portion):
                files = self.known[folder] = _Portion(files or {})
            files[name] = version
        self._waiting.clear()

    def _send(self, commit: Commit | None = None) -> None:
        """Send the pieces that wait; with a commit, let all that was sent count."""
        pieces, self._pieces = self._pieces, []
        size = self._connection.send(SentFiles(pieces, commit))
        self._left -= sum(len(piece.data) for piece in pieces)
        self._on_sent(size, self._left)


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
    """A machine or store that takes copies; two that are equal are the same."""

    @property
    def machine(self) -> str:
        """The name of the machine, or the one that stands for a store."""

    def connect(self, host: str, root: Path, tls: CopyTls | None, on_answer: Callable[[], None]) -> CopyConnection:
        """Connect to it, for the copy of a host's root; `on_answer` is called whenever it shows that it is there."""


class PeerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that takes copies; made from what the leader orders."""

    machine: str
    at: str
    """Its address, host:port."""
    secret: str

    def connect(self, _host: str, _root: Path, tls: CopyTls | None, _on_answer: Callable[[], None]) -> CopyConnection:
        """Connect to the machine, which shows that it is there only by what it answers."""
        return PeerConnection(Channel.to(self.at, self.secret, tls))


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
        """The files that it had when it was last connected."""
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
        self._connection: CopyConnection | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"sends copies to {address.machine}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def ask(self, request: int, entities: Iterable[str] | None) -> None:
        """Ask for some jobs, spools and hosts, or for everything, by a number that grows; with `news` held."""
        self._asked = request
        self._wants_all |= entities is None
        self._wanted.update(entities or ())

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
        if self._connection is not None:
            self._connection.hang_up()
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
        connection = self.address.connect(self.greeting.host, self._root, self._tls, self._touch)
        with self._news:
            self._connection = connection
            if self._closed:
                connection.hang_up()
        line = CopyLine(connection, self._root, on_sent=self._count)
        line.greet(self.greeting)
        return line

    def _hang_up(self) -> None:
        with self._news:
            connection, self._connection = self._connection, None
            self._had, self.known = self.known or self._had, {}
            # Otherwise nobody has heard that it counts.
            self.waited_for = self.waited_for if self.in_sync else self.counted
        if connection is not None:
            connection.close()

    def _count_missing(self, look: RootLook) -> None:
        """Note what a peer that is away does not have by now."""
        with suppress(OSError):
            if (seen := look.whole(self._had)) is not None:
                files = ((self._had.get(folder, {}), files) for folder, files in seen.items())
                self.left = sum(
                    version.size for had, now in files for name, version in now.items() if had.get(name) != version
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
        for looks in count(1):
            if self._closed:
                break
            seen = look.whole(line.known) if wanted is None else look.part(wanted, line.known)
            if seen is not None and line.bring(seen, whole=wanted is None, in_portions=in_portions):
                return wanted is None
            # What was looked at does not hold together without the rest, or not any more.
            wanted = None
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
