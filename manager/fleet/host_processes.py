"""Processes on this computer, as machines that share the manager's root: `braid host NAME`, each with its record.

They outlive a manager that is killed, and the next one finds them by their records. One that ends in order stops them.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

from bridge.machine.files import make_folder, write_whole
from bridge.machine.process_end import end_process
from bridge.machine.process_identity import began, running
from bridge.transport.address import Address
from manager.fleet.supply import SupplyFailed

_BRAID = "from manager.command import app; app()"
"""What the console script `braid` does, wherever that lies."""
_END_PATIENCE = 75.0
"""Seconds that a process may take to end its jobs and itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """The record of the process of an added machine."""

    pid: int
    began: str
    """Tells it from another process that gets its id."""
    order: str
    """The digest of how it was started; one that was started otherwise is replaced."""


_RECORD = TypeAdapter(ProcessRecord)


class HostProcesses:
    """Runs machines as processes on this computer."""

    def __init__(
        self, root: Path, broker: Callable[[], Address], *, master: str | None = None, tags: Iterable[str] = ()
    ) -> None:
        self._root = root
        self._broker = broker
        self._options = (*(["--master", master] if master else []), *(f"--tag={tag}" for tag in tags))
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, machine: str, why: str) -> None:  # noqa: ARG002 - a hook is given the reason
        """Start its process, unless it runs."""
        broker = self._broker().url
        command = [sys.executable, "-c", _BRAID, "host", machine, "--root", str(self._root), *self._options]
        order = sha256("\0".join([*command, broker]).encode()).hexdigest()
        record = self._read(machine)
        if record is not None and (process := running(record.pid, record.began)) is not None:
            if record.order == order:
                return
            end_process(process, _END_PATIENCE)
        child = self._children.pop(machine, None)
        if child is not None and child.poll() is not None:
            raise SupplyFailed(f"the process of {machine} ended with {child.returncode}; see {self._log(machine)}")
        make_folder(self._folder)
        with self._log(machine).open("ab") as output:
            child = subprocess.Popen(  # noqa: S603 - our own command, with arguments that no shell reads
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Arguments would show its password to everybody.
                env={**os.environ, "BRAID_BROKER": broker},
                # Neither the end of the manager nor an interrupt from its keyboard is meant for it.
                start_new_session=True,
            )
        self._children[machine] = child
        with suppress(psutil.NoSuchProcess):
            made = ProcessRecord(pid=child.pid, began=began(psutil.Process(child.pid)), order=order)
            write_whole(self._record(machine), _RECORD.dump_json(made), mode=0o600)

    def stop(self, machine: str, why: str) -> None:  # noqa: ARG002 - as above
        """Stop its process, if there is one."""
        record = self._read(machine)
        if record is not None and (process := running(record.pid, record.began)) is not None:
            end_process(process, _END_PATIENCE)
        if (child := self._children.pop(machine, None)) is not None:
            child.wait()
        self._record(machine).unlink(missing_ok=True)

    def end(self) -> None:
        """Stop all of them: their broker ends too."""
        for machine in sorted({*self._children, *(record.stem for record in self._folder.glob("*.json"))}):
            self.stop(machine, "")

    @property
    def _folder(self) -> Path:
        return self._root / "added"

    def _record(self, machine: str) -> Path:
        return self._folder / f"{machine}.json"

    def _log(self, machine: str) -> Path:
        return self._folder / f"{machine}.log"

    def _read(self, machine: str) -> ProcessRecord | None:
        try:
            return _RECORD.validate_json(self._record(machine).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
