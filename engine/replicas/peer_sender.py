"""The sender to one peer: a thread that keeps the peer's copy up to date, and connects again whenever that breaks."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from bridge.machine import BackOff
from engine.replicas.channel import Channel
from engine.replicas.copy_line import CopyLine, PeerRefuses
from engine.replicas.copy_tls import CopyTls
from engine.replicas.frames import FrameChannel, Greeting
from engine.replicas.root_folders import Tree
from engine.replicas.root_look import RootLook

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
