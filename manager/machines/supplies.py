"""Supplies: what starts and stops the machines of a class, as processes here or by a command."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import psutil
from pydantic import TypeAdapter, ValidationError

from braid_client.answers.machines import SupplyKind
from bridge.files import make_folder, write_whole
from bridge.machine import began, end_process, running
from bridge.transport.address import Address
from manager.machines.rentals import SuppliedClass


class SupplyFailed(RuntimeError):
    """A machine could not be started or stopped; says why, and where more is said."""


class MachineSupply(Protocol):
    """Starts and stops machines by name; one thread's. All of it is idempotent, and raises `SupplyFailed`."""

    def start(self, machine: str, kind: SuppliedClass, why: str) -> None:
        """Have a machine that should run."""

    def stop(self, machine: str, kind: SuppliedClass, why: str) -> None:
        """Have a machine no more, which carries nothing any more."""

    def end(self) -> None:
        """Stop what cannot run without this service, because it ends in order."""


Supplies = Mapping[SupplyKind, MachineSupply]


COMMAND_FOLDER = "commands"
"""The folder in the root that has the commands of classes. Who may write there may do anything, so no request can."""
COMMAND_PATIENCE = 120.0
"""Seconds that a command may take; what takes longer it should begin, and not wait for."""
_TAIL = 500


class SupplyCommands:
    """The commands of classes, which start and stop machines elsewhere.

    They are called as `COMMAND add NAME CLASS WHY` and `COMMAND remove NAME CLASS WHY`. A manager calls one once for
    each, and again after a failure. Another manager calls it again for what is there, so it has to be idempotent.
    """

    def __init__(self, root: Path, *, patience: float = COMMAND_PATIENCE) -> None:
        self._folder = root / COMMAND_FOLDER
        self._patience = patience
        self._done: dict[str, str] = {}
        """What was done last for each machine."""

    def start(self, machine: str, kind: SuppliedClass, why: str) -> None:
        """Have it add a machine."""
        self._call("add", machine, kind, why)

    def stop(self, machine: str, kind: SuppliedClass, why: str) -> None:
        """Have it remove one."""
        self._call("remove", machine, kind, why)

    def end(self) -> None:
        """Leave all of them: they do not depend on this process."""

    def _call(self, act: Literal["add", "remove"], machine: str, kind: SuppliedClass, why: str) -> None:
        if self._done.get(machine) == act:
            return
        command = f"the command {kind.command} of class {kind.name}"
        # Not a pipe: what the command leaves running may keep it open.
        with tempfile.TemporaryFile() as output:
            try:
                code = subprocess.run(  # noqa: S603 - a file in the root, with arguments that no shell reads
                    [str(self._folder / kind.command), act, machine, kind.name, why],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=self._patience,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise SupplyFailed(
                    f"{command} took more than {self._patience:g} s to {act} {machine} and was killed; have it begin "
                    "what takes long, and return"
                ) from None
            except OSError as error:
                raise SupplyFailed(f"{command} cannot be run: {error}; put it there, and make it executable") from None
            if code:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()[-_TAIL:]
                raise SupplyFailed(f"{command} ended with {code} on {act} {machine}: {said or 'silently'}")
        self._done[machine] = act


_BRAID = "from manager.command import app; app()"
"""What the console script `braid` does, wherever that is installed."""
_END_PATIENCE = 75.0
"""Seconds that a process may take to end its jobs and itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """The record of the process of an added machine."""

    pid: int
    began: str
    """The start of the process, which tells it from another one that gets its id."""
    order: str
    """The digest of how it was started; one that was started otherwise is replaced."""


_RECORD = TypeAdapter(ProcessRecord)


class HostProcesses:
    """Runs machines as processes on this computer that share the manager's root: `braid host NAME`, with a record each.

    They outlive a manager that is killed, and the next one finds them by their records. One that ends in order stops
    them.
    """

    def __init__(self, root: Path, broker: Callable[[], Address]) -> None:
        self._root = root
        self._folder = root / "added"
        self._broker = broker
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, machine: str, kind: SuppliedClass, why: str) -> None:  # noqa: ARG002 - a command is given the reason
        """Start its process, unless it runs."""
        broker = self._broker().url
        nice = ["nice", "-n", str(kind.nice)] if kind.nice else []
        offers = [*(f"--tag={tag}" for tag in sorted(kind.tags)), *(["--image", kind.image] if kind.image else [])]
        host = ["host", machine, "--root", str(self._root), "--master", f"local[{kind.cores}]", *offers]
        command = [*nice, sys.executable, "-c", _BRAID, *host]
        order = sha256("\0".join([*command, broker]).encode()).hexdigest()
        record = self._read(machine)
        if record is not None and record.order == order and running(record.pid, record.began) is not None:
            return
        self._end(record)
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

    def stop(self, machine: str, kind: SuppliedClass, why: str) -> None:  # noqa: ARG002 - as above
        """Stop its process, if there is one."""
        self._remove(machine)

    def end(self) -> None:
        """Stop all of them: their broker ends too."""
        for machine in sorted({*self._children, *(record.stem for record in self._folder.glob("*.json"))}):
            self._remove(machine)

    def _remove(self, machine: str) -> None:
        self._end(self._read(machine))
        if (child := self._children.pop(machine, None)) is not None:
            child.wait()
        self._record(machine).unlink(missing_ok=True)

    @staticmethod
    def _end(record: ProcessRecord | None) -> None:
        if record is not None and (process := running(record.pid, record.began)) is not None:
            end_process(process, _END_PATIENCE)

    def _record(self, machine: str) -> Path:
        return self._folder / f"{machine}.json"

    def _log(self, machine: str) -> Path:
        return self._folder / f"{machine}.log"

    def _read(self, machine: str) -> ProcessRecord | None:
        try:
            return _RECORD.validate_json(self._record(machine).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
