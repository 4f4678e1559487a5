"""A host as its machine carries it: where its files lie, how they come from a store, and the thread that runs it.

A host's jobs need some files besides its own: published code, secrets, and an id for what they write outside.

An operator may ask on an empty root that the machine's own host be restored from its store. The leader decides: as long
as somebody carries the host, or has its files, nothing is restored. Once it orders that this machine carries the host,
the files are fetched, and then the host begins.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from urllib.parse import quote

import msgspec

from bridge.files import link_whole, make_folder
from bridge.machine import BackOff
from engine.code.store import CODE_FOLDER, VOUCHERS
from engine.host.application import SparkHost
from engine.machines.orders import CarrierOrder
from engine.outside import DEPLOYMENT, FILES, REACHABLE, VAULT_FOLDER, VAULT_KEY
from engine.replicas.copies import Copies, CopiesEnded, Replicator
from engine.replicas.store_copy import NothingStored, RestorationRequest, restore
from engine.replicas.store_objects import HigherTerm, NoStore, StoreDamaged, StoredClaim, StoreObjects
from ring.fleet import STORE, HostReport

_COMMON = (CODE_FOLDER, FILES, REACHABLE, VAULT_FOLDER, VAULT_KEY, VOUCHERS)
"""The files that the manager writes, and tasks of any host read."""


def link_common(root: Path, common: Path) -> None:
    """Have a root find what lies in a folder that all machines reach, whether it is there yet or not."""
    make_folder(root)
    for name in _COMMON:
        if root != common and not (root / name).exists() and not (root / name).is_symlink():
            (root / name).symlink_to(common / name)


def keep_deployment(root: Path, host: str) -> None:
    """Have a host name its effects outside alike on every machine: the id is among the files that are copied."""
    kept = root / "hosts" / quote(host, safe="") / DEPLOYMENT
    make_folder(kept.parent)
    link_whole(kept, uuid.uuid4().hex[:12].encode())
    link_whole(root / DEPLOYMENT, kept.read_bytes())


class MachineRoot:
    """One machine's root."""

    def __init__(self, path: Path, machine: str, *, common: Path | None, is_shared: bool) -> None:
        """`is_shared` says that other machines work in it too, so that hosts lie where they always lay.

        `common` is a folder that all machines reach, with published code and secrets; the root if none is given.
        """
        self.path = path
        self._machine = machine
        self._common = common or path
        self.is_shared = is_shared
        path.mkdir(parents=True, exist_ok=True)
        link_whole(path / "identity", uuid.uuid4().hex.encode())
        self.identity = (path / "identity").read_text()

    def folder_of(self, host: str) -> Path:
        """The folder with the files of a host."""
        if host == self._machine or self.is_shared:
            return self.path
        return self.path / "copies" / quote(host, safe="")

    def prepare(self, folder: Path, host: str) -> None:
        """Prepare the folder of a host that is to be carried."""
        link_common(folder, self._common)
        if not self.is_shared:
            keep_deployment(folder, host)

    def outside_name(self, host: str) -> str:
        """The name that sets a host's files apart: its own, or in a shared root one that all hosts have."""
        return self.identity if self.is_shared else f"host {host}"


_BACK_OFF = BackOff.doubling(1.0, longest=30.0)
log = logging.getLogger("braid.host")


class Restoration:
    """The restoration of a machine's own host from its store; called from the machine's main thread."""

    def __init__(self, root: MachineRoot, machine: str, url: str) -> None:
        self._root = root.path
        self._claim = StoredClaim(machine=machine, root=root.identity)
        self._url = url
        self._asked = RestorationRequest.read(self._root)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waits(self) -> bool:
        """Whether the machine does not have the files of its host yet."""
        return self._asked is not None and not self._asked.done

    def offer(self) -> dict[str, str | bool]:
        """The part of the machine's report that is about the restoration."""
        asked = self._asked if self.waits else None
        return {"restores": asked.restores if asked else "", "accepts_loss": bool(asked and asked.accepts_loss)}

    def begin(self, order: CarrierOrder, on_done: Callable[[], None]) -> None:
        """Restore the host, which this machine is to carry; `on_done` is called from another thread after that.

        At most one attempt runs at a time.
        """
        if order.root == self._claim.root and (self._thread is None or not self._thread.is_alive()):
            log.info("restores host %s from its store, to carry it in term %d", order.host, order.term)
            self._thread = threading.Thread(target=self._run, args=(order, on_done), name="restores", daemon=True)
            self._thread.start()

    def give_up(self, why: str) -> None:
        """Restore nothing, because the files come another way."""
        log.info("host %s is not restored from its store: %s", self._claim.machine, why)
        self._end()

    def stop(self) -> None:
        """End an attempt that waits for its store."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _run(self, order: CarrierOrder, on_done: Callable[[], None]) -> None:
        trouble = ""
        for failures in count(1):
            if self._stopping.is_set():
                break
            try:
                restored = restore(StoreObjects(self._url, order.host), order.term, self._root, self._claim)
            except HigherTerm as error:
                why = f"{error}; so it is of another deployment, or the leader has forgotten what it was"
                log.error("host %s is not restored: %s", order.host, why)  # noqa: TRY400 - the message says all
                break
            except (NoStore, NothingStored, StoreDamaged, OSError) as error:
                if str(error) != trouble:
                    log.error("host %s is not restored yet: %s", order.host, error)  # noqa: TRY400 - as above
                trouble = str(error)
                self._stopping.wait(_BACK_OFF.after(failures))
            else:
                log.info(
                    "host %s is restored: %d files of term %d", order.host, len(restored.files.files), restored.term
                )
                self._end()
                on_done()
                break

    def _end(self) -> None:
        assert self._asked is not None  # noqa: S101 - for the type checker
        self._asked = msgspec.structs.replace(self._asked, done=True)
        self._asked.keep(self._root)


_STOP_SECONDS = 30.0
"""Seconds for which the end of a host waits for its peers."""


class Carried(StrEnum):
    """The states of a host on its machine."""

    RUNNING = "running"
    STOPPING = "stopping"
    """Its jobs end, and what they left is being sent to its peers."""
    RELEASED = "released"
    """Another machine may begin."""


class CarriedHost:
    """One host; called from the machine's main thread."""

    def __init__(
        self,
        order: CarrierOrder,
        root: Path,
        replicate: Callable[..., Replicator],
        make: Callable[[Path, Copies], SparkHost],
        *,
        on_change: Callable[[], None],
    ) -> None:
        """`replicate` makes what sends copies, and `make` the host in a folder.

        `on_change` is called, from any thread, when the host has ended.
        """
        self.order = order
        self.state = Carried.RUNNING
        self.stuck = False
        """Whether a query did not stop, so that the process has to end."""
        self.root = root
        self._make = make
        self._host: SparkHost | None = None
        self._on_change = on_change
        self._replicator = replicate(order.host, root, on_kept=self._grew)
        self._begin()

    def take(self, order: CarrierOrder) -> None:
        """Take up a later order by which this machine still carries the host."""
        self.order = order
        self._send()
        if order.heir and self.state is Carried.RUNNING:
            self.state = Carried.STOPPING
            self.ask_to_stop()
        self.look()

    def look(self) -> None:
        """Run a host again that was to be handed over, and is not any more."""
        if self.state is Carried.RELEASED and not self.order.heir:
            log.info("host %s stays, and runs again", self.order.host)
            self._begin()

    def report(self) -> HostReport:
        """The host as its machine reports it to the leading manager."""
        copies = self._replicator.report()
        # What counts goes on to count until the leader orders otherwise, even if it cannot be reached.
        counting = (copies.in_sync | self.order.kept_by) & {*(peer.machine for peer in self.order.peers), STORE}
        released = self.state is Carried.RELEASED
        return replace(copies, version=self.order.version, in_sync=counting, released=released)

    @property
    def is_superseded(self) -> bool:
        """Whether a peer follows a later carrier."""
        return self._replicator.is_superseded

    @property
    def has_jobs(self) -> bool:
        """Whether any job runs."""
        return self._host is not None and self._host.has_jobs

    def hang_up(self) -> None:
        """Receive no more, because the process has to end at once; from any thread."""
        if self._host is not None:
            self._host.hang_up()

    def ask_to_stop(self) -> None:
        """Begin to stop."""
        if self._host is not None:
            self._host.stop()

    def end(self) -> None:
        """Wait until the host has stopped; its copies are complete then, if its peers answer."""
        self._thread.join(_STOP_SECONDS)
        # What still waits for a peer gives up.
        self._replicator.close()
        self._thread.join()

    def _begin(self) -> None:
        # One that is being handed over does not run again, even if this process is a new one.
        self.state = Carried.STOPPING if self.order.heir else Carried.RUNNING
        self._host = None if self.order.heir else self._make(self.root, self._replicator)
        # Before it does anything: it may have to wait for its peers.
        self._send()
        self._thread = threading.Thread(target=self._run, name=f"carries {self.order.host}")
        self._thread.start()

    def _run(self) -> None:
        if self._host is not None:
            self.stuck = self._host.run()
        try:
            self._replicator.settle()
        except CopiesEnded as error:
            log.info("host %s ended before all was at its peers: %s", self.order.host, error)
        if self.state is Carried.STOPPING:
            self.state = Carried.RELEASED
        self._on_change()

    def _send(self) -> None:
        self._replicator.order(self.order.term, self.order.peers, self.order.kept_by)

    def _grew(self) -> None:
        # The machine looks by itself every second: this comes with every batch.
        if self._host is not None:
            self._host.copies_grew()
