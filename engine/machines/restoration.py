"""The restoration of a machine's own host from its store, before the machine carries it.

An operator asks for it on an empty root. The leader decides: as long as somebody carries the host, or has its files,
nothing is restored. Once it orders that this machine carries the host, the files are fetched, and then the host begins.
"""

import logging
import threading
from collections.abc import Callable

import msgspec

from bridge.machine import BackOff
from engine.machines.carrier_orders import CarrierOrder
from engine.machines.machine_root import MachineRoot
from engine.replicas.store.objects import NoStore, StoreDamaged, StoreObjects
from engine.replicas.store.request import RestorationRequest
from engine.replicas.store.restore import NothingStored, restore
from engine.replicas.store.sitting import HigherTerm
from engine.replicas.store.stored import StoredClaim

_BACK_OFF = BackOff.doubling(1.0, longest=30.0)
log = logging.getLogger("braid.host")


class Restoration:
    """What is asked of one machine; called from its main thread."""

    def __init__(self, root: MachineRoot, machine: str, url: str) -> None:
        self._root = root.path
        self._claim = StoredClaim(machine=machine, root=root.identity)
        self._url = url
        self._asked = RestorationRequest.of(self._root)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waits(self) -> bool:
        """Whether the machine does not have the files of its host yet."""
        return self._asked is not None and not self._asked.done

    def offer(self) -> dict[str, str | bool]:
        """What the leader has to know of it."""
        if self._asked is None or self._asked.done:
            return {"restores": "", "accepts_loss": False}
        return {"restores": self._asked.restores, "accepts_loss": self._asked.accepts_loss}

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
        failures, trouble = 0, ""
        while not self._stopping.is_set():
            try:
                objects = StoreObjects(self._url, order.host)
                found = restore(objects, order.term, self._root, self._claim)
            except HigherTerm as error:
                why = f"{error}; so it is of another deployment, or the leader has forgotten what it was"
                log.error("host %s is not restored: %s", order.host, why)  # noqa: TRY400 - the message says all
                break
            except (NoStore, NothingStored, StoreDamaged, OSError) as error:
                if str(error) != trouble:
                    log.error("host %s is not restored yet: %s", order.host, error)  # noqa: TRY400 - as above
                trouble = str(error)
                failures += 1
                self._stopping.wait(_BACK_OFF.after(failures))
            else:
                log.info("host %s is restored: %d files of term %d", order.host, len(found.files.files), found.term)
                self._end()
                on_done()
                break

    def _end(self) -> None:
        assert self._asked is not None  # noqa: S101 - for the type checker
        self._asked = msgspec.structs.replace(self._asked, done=True)
        self._asked.keep(self._root)
