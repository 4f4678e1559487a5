"""The peer's side of copies: it takes the files of other machines' hosts over connections, one owner for each host.

A machine whose disk fills up first says so, and the leading manager has its copies kept elsewhere. Meanwhile it still
takes what changes, until only what its own hosts need is left.
"""

import errno
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bridge.files import DiskSpace, Steps, no_steps
from engine.replicas.channel import (
    Channel,
    Confirmed,
    CopyTls,
    Disconnected,
    Frame,
    Greeting,
    PeerRefusal,
    PeerRefuses,
    SentFiles,
    TlsFailed,
    WrongSecret,
)
from engine.replicas.copy_folder import CopyFolder, WrongContent

_LEAVING = 2
"""How many times the spared bytes have to be free for a machine to be a good place for copies."""


class CopyRoom:
    """The room on the disk of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shortage(self, times: int = _LEAVING) -> str:
        """Why copies should rather be kept elsewhere; empty if so many times the spared bytes are free."""
        space = DiskSpace.of(self._folder)
        wanted = space.spare * times
        if space.free >= wanted:
            return ""
        return f"{space.free / 1e9:.1f} GB of its disk are free, and copies leave {wanted / 1e9:.1f}; make room there"

    def check(self) -> None:
        """Raise OSError if nothing more may be taken."""
        if shortage := self.shortage(times=1):
            raise OSError(errno.ENOSPC, shortage)


_MOST_STRANGERS = 32
"""Connections that have not proven yet that they know the secret."""
log = logging.getLogger("braid.host")


class _HeldCopy:
    """The copy of one host, and the connection of its owner."""

    def __init__(self) -> None:
        self.using = threading.Lock()
        self.least = 0
        """The lowest term of an owner that is not refused."""
        self.folder: CopyFolder | None = None
        self.owner: Channel | None = None
        self.trouble = ""
        """The trouble that was logged last."""

    def at(self, place: Path, step: Steps) -> CopyFolder:
        if self.folder is None or self.folder.place != place:
            self.folder = CopyFolder(place, step=step)
            self.least = max(self.least, self.folder.term)
        return self.folder

    def hang_up(self) -> None:
        """End the connection of the owner; from any thread, which need not wait for it."""
        if (owner := self.owner) is not None:
            owner.hang_up()


class CopyServer:
    """A machine's server for copies; `close` ends it."""

    def __init__(  # noqa: PLR0913 - whose it is, its secret and TLS, where it listens and keeps, what is free, and how it breaks are seven things
        self,
        machine: str,
        secret: str,
        *,
        listen: tuple[str, int],
        place: Callable[[str], Path | None],
        tls: CopyTls | None = None,
        check_room: Callable[[], None] = lambda: None,
        step: Steps = no_steps,
    ) -> None:
        """`place` says where the copy of a host lies here; None if this machine carries it or may not keep it.

        With `tls` it takes nothing from anybody whose certificate is not of the same authority. `check_room` raises
        OSError if the disk is too full to take any more.
        """
        if not secret:
            raise ValueError("without a secret anybody could send files; give one")
        self._machine = machine
        self._secret = secret
        self._place = place
        self._tls = tls
        self._check_room = check_room
        self._step = step
        self._held: dict[str, _HeldCopy] = {}
        self._using = threading.Lock()
        self._channels: set[Channel] = set()
        self._strangers = threading.Semaphore(_MOST_STRANGERS)
        self._refusal = ""
        """The refusal that was logged last, so that a machine that tries again and again is logged once."""
        self._closed = False
        self._socket = socket.create_server(listen)
        self.at = f"{listen[0]}:{self._socket.getsockname()[1]}"
        """Where others connect: by the name that was given, since a certificate may be for the name alone."""
        threading.Thread(target=self._accept, name="takes copies", daemon=True).start()

    def refuse_below(self, host: str, term: int) -> None:
        """Take nothing more from owners of a lower term, now and ever; the copy is then ready to be used."""
        held = self._copy_of(host)
        held.hang_up()
        with held.using:
            held.hang_up()
            held.owner = None
            held.least = max(held.least, term)
            place = self._place(host)
            folder = held.at(place, self._step) if place is not None else held.folder
            if folder is not None:
                folder.raise_term(term)
                folder.recover()

    def remove(self, host: str) -> None:
        """Remove the copy of a host that other machines have; owners of lower terms are refused as before."""
        held = self._copy_of(host)
        held.hang_up()
        with held.using:
            held.owner = None
            if (place := self._place(host)) is not None and place.exists():
                held.at(place, self._step).remove()

    def close(self) -> None:
        """Take nothing more; a round that counts is finished."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._using:
            channels, held = set(self._channels), list(self._held.values())
        for channel in channels:
            channel.hang_up()
        for copy in held:
            # Until the frame that it has is worked off.
            with copy.using:
                copy.owner = None

    def _copy_of(self, host: str) -> _HeldCopy:
        with self._using:
            return self._held.setdefault(host, _HeldCopy())

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, came_from = self._socket.accept()
            except OSError as error:
                if not self._closed:
                    log.warning("a machine cannot connect to send copies: %s", error)
                    threading.Event().wait(0.1)
                continue
            if self._strangers.acquire(blocking=False):
                arguments = (connection, came_from[0])
                threading.Thread(target=self._greet, args=arguments, name="takes a copy", daemon=True).start()
            else:
                connection.close()

    def _greet(self, connection: socket.socket, came_from: str) -> None:
        channel = Channel(connection)
        with self._using:
            self._channels.add(channel)
        try:
            try:
                channel.admit(self._secret, self._tls)
            finally:
                self._strangers.release()
            self._refusal = ""
            if not self._closed:
                self._serve(channel)
        except (WrongSecret, TlsFailed) as error:
            refusal = f"copies: a connection from {came_from} is refused: {error}"
            if refusal != self._refusal:
                log.warning("%s", refusal)
            self._refusal = refusal
        except OSError as error:
            log.debug("copies: %s", error)
        finally:
            with self._using:
                self._channels.discard(channel)
            channel.close()

    def _serve(self, channel: Channel) -> None:
        """Keep the copy of one host, as long as its owner is connected."""
        greeting = channel.receive()
        if not isinstance(greeting, Greeting):
            return
        held = self._copy_of(greeting.host)
        try:
            self._begin(greeting, held, channel)
            held.trouble = ""
            while not self._closed:
                self._take(channel.receive(), held, channel)
        except PeerRefuses as error:
            channel.part(PeerRefusal(why=str(error), term=error.term))
        except Disconnected:
            raise
        except WrongContent as error:
            self._report(channel, greeting, held, str(error))
        except OSError as error:
            # The disk is full, or broken.
            self._report(channel, greeting, held, f"machine {self._machine} cannot keep it: {error}")
        finally:
            with held.using:
                if held.owner is channel:
                    held.owner = None
                    if held.folder is not None:
                        with suppress(OSError):
                            held.folder.recover()

    def _begin(self, greeting: Greeting, held: _HeldCopy, channel: Channel) -> None:
        """Take the place of an earlier connection of the host's owner, and say what is here."""
        if greeting.term >= held.least:
            held.hang_up()
        with held.using:
            place = self._place(greeting.host)
            if place is None:
                raise PeerRefuses(f"machine {self._machine} keeps no copy of {greeting.host}", held.least)
            folder = held.at(place, self._step)
            if greeting.term < held.least:
                raise PeerRefuses(f"{greeting.host} has another carrier, of term {held.least}", held.least)
            self._check_room()
            held.hang_up()
            held.owner, held.least = channel, greeting.term
            folder.raise_term(greeting.term)
            folder.recover()
            for present in folder.present():
                channel.send(present)

    def _take(self, frame: Frame, held: _HeldCopy, channel: Channel) -> None:
        with held.using:
            if held.owner is not channel or (folder := held.folder) is None:
                raise PeerRefuses("the host has another carrier, or another connection of this one", held.least)
            if not isinstance(frame, SentFiles):
                raise WrongContent(f"an owner sent a {type(frame).__name__}")
            if frame.pieces:
                self._check_room()
            for piece in frame.pieces:
                folder.take(piece)
            if frame.commit is not None:
                done = folder.commit(frame.commit)
                # It counts, so the owner need not wait until the files are written too.
                with suppress(OSError):
                    channel.send(Confirmed())
                folder.finish(done, whole=frame.commit.whole)

    def _report(self, channel: Channel, greeting: Greeting, held: _HeldCopy, why: str) -> None:
        # Owners try again every second.
        if why != held.trouble:
            log.warning("the copy of host %s from machine %s waits: %s", greeting.host, greeting.machine, why)
        held.trouble = why
        channel.part(PeerRefusal(why=why))
