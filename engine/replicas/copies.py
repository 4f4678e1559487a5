"""The copies of a host's files: what a host asks of them, and the owner's side, which keeps them at peers.

A message is acknowledged, a record published, a plan or a run acted upon only once the files behind it are at all peers
that count, before anybody outside may notice what is in them. So a machine that has a copy can go on from it. A host
without peers waits for nothing.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from engine.replicas.channel import CopyTls, Greeting
from engine.replicas.file_kinds import FOLDERS
from engine.replicas.peer_sender import Destination, PeerSender
from engine.replicas.root_look import FileVersion
from ring.fleet import STORE, HostReport


class CopiesEnded(RuntimeError):
    """An end to keeping copies: the host is carried by another machine by now, or is being stopped."""


class Copies(Protocol):
    """The copies of one host's files; from any thread."""

    def settle(self, *folders: Path) -> None:
        """Wait until all finished files in these folders, or in all, are at the peers; raises CopiesEnded."""

    def ship(self, folder: Path) -> None:
        """Ask that the files in a folder be sent soon."""

    def has(self, path: Path) -> bool:
        """Whether a file is at the peers."""


class HostSuperseded(CopiesEnded):
    """A peer knows a later carrier of the host, so this one may not act any more."""


class ReplicatorClosed(CopiesEnded):
    """A replicator that sends nothing more."""


class Replicator:
    """Keeps the files of one host at peers; called from any thread.

    Peers count from the moment they are committed, or have everything, until they leave.
    """

    def __init__(  # noqa: PLR0913 - whose files, where they are, whom it notifies, and how and where else they go are six things
        self,
        host: str,
        root: Path,
        machine: str,
        *,
        on_kept: Callable[[], None],
        tls: CopyTls | None = None,
        store: Destination | None = None,
    ) -> None:
        """`on_kept` is called, from any thread, whenever more may be at all peers that count.

        A store is one more peer, as soon as a leader knows of the host.
        """
        self._host = host
        self._root = root
        self._machine = machine
        self._on_kept = on_kept
        self._tls = tls
        self._store = store
        self._news = threading.Condition()
        self._senders: dict[str, PeerSender] = {}
        self._counted: frozenset[str] = frozenset()
        self._request = 0
        self._superseded = 0
        """The higher term that a peer knows; 0 if none does."""
        self._closed = False

    def order(self, term: int, peers: Sequence[Destination], counted: frozenset[str]) -> None:
        """Send to these peers from now on, as the carrier of a term; `counted` are committed to have everything."""
        greeting = Greeting(host=self._host, term=term, machine=self._machine)
        with self._news:
            if self._superseded:
                return
            self._check()
            addresses = {peer.machine: peer for peer in peers}
            if self._store is not None and term:
                addresses[self._store.machine] = self._store
            self._counted = counted
            for machine, sender in list(self._senders.items()):
                if machine not in addresses:
                    self._senders.pop(machine).close()
                    continue
                sender.expect(counted=machine in counted)
                if (sender.address, sender.greeting) != (addresses[machine], greeting):
                    sender.close()
                    # It stays waited for: what it had it has.
                    self._add(greeting, addresses[machine], counted=machine in counted or sender.in_sync)
            for machine, address in addresses.items():
                if machine not in self._senders:
                    self._add(greeting, address, counted=machine in counted)
            self._news.notify_all()
        self._on_kept()

    def settle(self, *folders: Path) -> None:
        """Wait until all finished files in some folders, or in all, and what they need, are at all peers that count."""
        with self._news:
            self._check()
            if not self._waited_for():
                return
            request = self._ask(folders)
            while not all(sender is not None and sender.done >= request for sender in self._waited_for().values()):
                self._news.wait()
                self._check()

    def ship(self, folder: Path) -> None:
        """Ask that the files in a folder be sent soon."""
        with self._news:
            if self._senders and not self._closed:
                self._ask((folder,))

    def has(self, path: Path) -> bool:
        """Whether a file, as it is now, is at all peers that count."""
        with self._news:
            if self._superseded:
                return False
            waited_for = self._waited_for()
        if not waited_for:
            return True
        try:
            file_stat = path.stat()
        except FileNotFoundError:
            return False
        version = FileVersion(file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ino)
        folder = str(path.parent.relative_to(self._root))
        return all(
            sender is not None and sender.known.get(folder, {}).get(path.name) == version
            for sender in waited_for.values()
        )

    @property
    def is_superseded(self) -> bool:
        """Whether a peer knows a later carrier."""
        return bool(self._superseded)

    def report(self) -> HostReport:
        """The state of the copies; those that had everything are in sync even if they cannot be reached now."""
        with self._news:
            senders = list(self._senders.values())
            broken = frozenset(sender.address.machine for sender in senders if sender.is_broken)
            # The last carrier had a store, and this one has none: only the leader can go on without it.
            broken |= {STORE} & (self._counted - self._senders.keys())
            return HostReport(
                in_sync=frozenset(sender.address.machine for sender in senders if sender.in_sync),
                broken=broken,
                behind_bytes=max((sender.left for sender in senders), default=0),
                troubles={sender.address.machine: sender.trouble for sender in senders if sender.trouble},
            )

    def close(self) -> None:
        """Send nothing more; those who wait get `ReplicatorClosed`."""
        with self._news:
            self._closed = True
            senders = list(self._senders.values())
            for sender in senders:
                sender.close()
            self._news.notify_all()
        for sender in senders:
            sender.join()

    def _check(self) -> None:
        if self._superseded:
            raise HostSuperseded(
                f"host {self._host} has a later carrier, of term {self._superseded}; this one has to stop it"
            )
        if self._closed:
            raise ReplicatorClosed(f"the copies of host {self._host} are not kept any more; nothing may be acted upon")

    def _waited_for(self) -> dict[str, PeerSender | None]:
        """The peers that count; one without an address has no sender, and is waited for all the same."""
        senders: dict[str, PeerSender | None] = dict.fromkeys(self._counted)
        return senders | {
            name: sender for name, sender in self._senders.items() if sender.waited_for or name in senders
        }

    def _ask(self, folders: Iterable[Path]) -> int:
        entities = {self._entity(folder) for folder in folders}
        self._request += 1
        for sender in self._senders.values():
            sender.ask(self._request, None if not entities or "" in entities else entities)
        self._news.notify_all()
        return self._request

    def _entity(self, folder: Path) -> str:
        """The job, spool or host that a folder belongs to; empty for a folder of several."""
        parts = folder.relative_to(self._root).parts
        if parts and parts[0] not in FOLDERS:
            raise ValueError(f"{folder} is in none of the folders that are kept in copies: {', '.join(FOLDERS)}")
        return "/".join(parts[:2]) if len(parts) > 1 else ""

    def _add(self, greeting: Greeting, address: Destination, *, counted: bool) -> None:
        sender = self._senders[address.machine] = PeerSender(
            greeting,
            self._root,
            address,
            counted=counted,
            news=self._news,
            on_kept=self._on_kept,
            on_refused=self._supersede,
            tls=self._tls,
        )
        sender.ask(self._request, None)
        sender.start()

    def _supersede(self, term: int) -> None:
        with self._news:
            self._superseded = term
            for sender in self._senders.values():
                sender.close()
            self._news.notify_all()
        self._on_kept()


NO_COPIES: Copies = Replicator("", Path(), "", on_kept=lambda: None)
"""The copies of a host without peers: there is nothing to send or to wait for."""
