"""KeeperHandle: the manager's side of the keeper, which runs broker and host in a process that outlives the manager.

A manager that begins adopts the keeper that it finds, if that one keeps what is wanted; else it starts one. While it
runs it starts another where that one died. Where the manager ends in order it ends the keeper too; where it is killed,
broker and host run on.
"""

import logging
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from bridge.files import make_folder
from bridge.machine import end_process, running
from bridge.transport.address import Address
from manager.background import Background
from manager.process.keeper_process import KEEPER_TAKEN, KeeperOrder, KeeperRecord, folder, order_line, read_record

_START_PATIENCE = 40.0
"""Seconds that a keeper may take until its broker is up."""
_END_PATIENCE = 90.0
"""Seconds that a keeper may take to drain its host and end."""
_GIVE_UP_PATIENCE = 20.0
"""Seconds that one may take to end that did not come up."""
_LOOK_EVERY = 0.5
_BACK_OFF = 5.0
"""Seconds before a keeper that died soon is started again."""
_TAIL = 2_000
log = logging.getLogger("braid.keeping")


class KeeperDown(RuntimeError):
    """A keeper did not come up; says what it last wrote."""


class KeeperHandle:
    """One root's keeper, from `start` to `stop` or `leave`."""

    def __init__(self, order: KeeperOrder) -> None:
        self._order = order
        self._root = Path(order.root)
        self._record: KeeperRecord | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._watching = Background(self._watch, "watches the keeper")

    def start(self) -> KeeperRecord:
        """Adopt the keeper that there is, or start one; returns once its broker is up. Again after a stop."""
        self._watching.stopping.clear()
        make_folder(folder(self._root))
        record = self._recorded()
        if record is not None and record.digest != self._order.digest:
            log.info("the keeper with the process id %d keeps something else, and is ended", record.pid)
            _end(record)
            record = None
        if record is not None:
            log.info("goes on with the keeper that has the process id %d", record.pid)
        self._record = record = record or self._started()
        self._watching.start()
        return record

    @property
    def address(self) -> Address:
        """The address of the broker, for Braid's own processes."""
        if self._record is None:
            raise KeeperDown("no keeper has been started")
        return Address.parse(self._record.broker)

    @property
    def pid(self) -> int | None:
        """The process id of the keeper."""
        return self._record.pid if self._record is not None else None

    def reload(self) -> None:
        """Have the broker read again who may do what; does nothing before there is a keeper."""
        if self._record is not None and (process := _alive(self._record)) is not None:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGHUP)

    def leave(self) -> None:
        """Watch it no longer, and let it live."""
        self._watching.stop()

    def stop(self) -> None:
        """End the keeper, and with it its host, drained, and its broker; once is enough."""
        self.leave()
        if self._record is not None:
            _end(self._record)
            self._record = None
        self._give_up()

    def _recorded(self) -> KeeperRecord | None:
        """The record of the keeper that runs, if one does."""
        record = read_record(self._root)
        return record if record is not None and _alive(record) is not None else None

    def _started(self) -> KeeperRecord:
        path = folder(self._root) / "log"
        with path.open("ab") as output:
            child = self._child = subprocess.Popen(
                [sys.executable, "-m", "manager.process.keeper_process"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                # Neither the end of the manager nor an interrupt from its keyboard is meant for it.
                start_new_session=True,
            )
        if child.stdin is not None:
            with suppress(BrokenPipeError), child.stdin:
                child.stdin.write(order_line(self._order))
        deadline = time.monotonic() + _START_PATIENCE
        while time.monotonic() < deadline and not self._watching.stopping.wait(0.05):
            record = self._recorded()
            # One that another manager started a moment ago is as good.
            if record is not None and record.digest == self._order.digest:
                return record
            if child.poll() not in {None, KEEPER_TAKEN}:
                break
        self._give_up()
        tail = path.read_bytes()[-_TAIL:].decode(errors="replace").strip()
        raise KeeperDown(f"the keeper did not come up; it last wrote: {tail or 'nothing'}")

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._watching.stopping.wait(_LOOK_EVERY):
            if self._record is not None and _alive(self._record) is not None:
                continue
            if self._child is not None and self._child.poll() is not None:
                # So that it is no zombie.
                self._child = None
            log.error("the keeper died and is started again; see %s", folder(self._root) / "log")
            if time.monotonic() - began < _BACK_OFF and self._watching.stopping.wait(_BACK_OFF):
                return
            began = time.monotonic()
            try:
                self._record = self._recorded() or self._started()
            except KeeperDown as error:
                log.error("%s", error)  # noqa: TRY400 - it says where and what to do

    def _give_up(self) -> None:
        """End a child of one's own that did not become a keeper, or is about to have ended."""
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(_GIVE_UP_PATIENCE)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._child = None


def _alive(record: KeeperRecord) -> psutil.Process | None:
    return running(record.pid, record.began)


def _end(record: KeeperRecord) -> None:
    process = _alive(record)
    if process is not None and end_process(process, _END_PATIENCE):
        log.warning("the keeper with the process id %d did not end and was killed", record.pid)
