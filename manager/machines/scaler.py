"""The scaler: has machines added and removed by the leading manager, and sees to those that were.

What is decided is committed first, with its reason. Then each look does what is still to be done for the added
machines: start those that should run, stop those that are empty, forget those that are gone. So whatever is
interrupted goes on at the next look, or with the next manager.
"""

import logging
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import psutil
from pydantic import TypeAdapter, ValidationError

from braid_client.answers.overview import OperationKind
from bridge.files import make_folder, write_whole
from bridge.machine import began, end_process, running
from bridge.transport.address import Address
from manager.kernel.draft import SERVICE
from manager.machines.admission import MachineWatch
from manager.machines.carriages import CommittedFleet
from manager.machines.use_cases import Machines
from manager.observations.figures import figures_of, host_loads
from manager.observations.reports import MachineStatus
from manager.observations.sight import Sight
from manager.problem import Conflict, StateNotReady
from manager.settings import Autoscale
from manager.use_case import Tools
from ring.fleet import SETTLED_AFTER
from ring.scale import FleetUse, ScaleAct, ScaleState, scaled


class SupplyFailed(RuntimeError):
    """A machine could not be started or stopped; says why, and where more is said."""


class MachineSupply(Protocol):
    """Starts and stops machines by name; one thread's. All of it is idempotent, and raises `SupplyFailed`."""

    def start(self, machine: str, why: str) -> None:
        """Have a machine that should run."""

    def stop(self, machine: str, why: str) -> None:
        """Have a machine no more, which carries nothing any more."""

    def end(self) -> None:
        """Stop what cannot run without this service, because it ends in order."""


HOOK_PATIENCE = 120.0
"""Seconds that the command may take; what takes longer it should begin, and not wait for."""
_TAIL = 500


class ScaleHook:
    """A command of the operator's that starts and stops machines elsewhere.

    It is called as `COMMAND add NAME WHY` and `COMMAND remove NAME WHY`. A manager calls it once for each, and again
    after a failure. Another manager calls it again for what is there, so it has to be idempotent.
    """

    def __init__(self, command: str, *, patience: float = HOOK_PATIENCE) -> None:
        self._command = command
        self._patience = patience
        self._done: dict[str, str] = {}
        """What was done last for each machine."""

    def start(self, machine: str, why: str) -> None:
        """Have it add a machine."""
        self._call("add", machine, why)

    def stop(self, machine: str, why: str) -> None:
        """Have it remove one."""
        self._call("remove", machine, why)

    def end(self) -> None:
        """Leave all of them: they do not depend on this process."""

    def _call(self, act: Literal["add", "remove"], machine: str, why: str) -> None:
        if self._done.get(machine) == act:
            return
        # Not a pipe: what the command leaves running may keep it open.
        with tempfile.TemporaryFile() as output:
            try:
                code = subprocess.run(  # noqa: S603 - the operator's own command, which no shell reads
                    [*shlex.split(self._command), act, machine, why],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=self._patience,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise SupplyFailed(
                    f"the command of scale_hook took more than {self._patience:g} s to {act} {machine} and was "
                    "killed; have it begin what takes long, and return"
                ) from None
            except OSError as error:
                raise SupplyFailed(
                    f"the command of scale_hook cannot be run: {error}; correct the setting, or make it executable"
                ) from None
            if code:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()[-_TAIL:]
                raise SupplyFailed(
                    f"the command of scale_hook ended with {code} on {act} {machine}: {said or 'silently'}"
                )
        self._done[machine] = act


_BRAID = "from manager.command import app; app()"
"""What the console script `braid` does, wherever that lies."""
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

    def __init__(
        self, root: Path, broker: Callable[[], Address], *, master: str | None = None, tags: Iterable[str] = ()
    ) -> None:
        self._root = root
        self._folder = root / "added"
        self._broker = broker
        self._options = (*(["--master", master] if master else []), *(f"--tag={tag}" for tag in tags))
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, machine: str, why: str) -> None:  # noqa: ARG002 - a hook is given the reason
        """Start its process, unless it runs."""
        broker = self._broker().url
        command = [sys.executable, "-c", _BRAID, "host", machine, "--root", str(self._root), *self._options]
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

    def stop(self, machine: str, why: str) -> None:  # noqa: ARG002 - as above
        """Stop its process, if there is one."""
        self._end(self._read(machine))
        if (child := self._children.pop(machine, None)) is not None:
            child.wait()
        self._record(machine).unlink(missing_ok=True)

    def end(self) -> None:
        """Stop all of them: their broker ends too."""
        for machine in sorted({*self._children, *(record.stem for record in self._folder.glob("*.json"))}):
            self.stop(machine, "")

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


FALLEN_BEHIND = 10.0
"""Seconds that events may wait for a job, besides its pace, before it has fallen behind."""
_PACES = 1.5
"""Paces that an event waits for its batch at most, besides."""
_AGAIN_AFTER = 300.0
"""Seconds after which what failed is tried again."""
log = logging.getLogger("braid.fleet")


class Scaler:
    """Adds and removes machines of one manager; one thread looks."""

    def __init__(  # noqa: PLR0913 - what is committed and heard, what starts machines, and three settings
        self,
        tools: Tools,
        sight: Callable[[], Sight],
        supply: MachineSupply,
        *,
        autoscale: Autoscale,
        most: int,
        settled_after: float = SETTLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sight` is what was heard so far. `most` is how many machines may be added."""
        self._tools = tools
        self._sight = sight
        self._supply = supply
        self._autoscale = autoscale
        self._most = most
        self._settled_after = settled_after
        self._clock = clock
        self._machines = Machines(tools)
        self._watch = MachineWatch()
        self._state = ScaleState()
        self._previewed: tuple[ScaleAct, str] | None = None
        """The last decision that was only previewed, as long as it stays the same."""
        self._retry_at: dict[str, float] = {}
        """When what failed is tried again, by machine."""

    def look(self) -> None:
        """Decide, commit, and do what is due."""
        sight = self._sight()
        if not sight.complete or not self._tools.committer.leads:
            self._state = ScaleState()
            return
        now, fleet = self._clock(), self._tools.carriages.fleet()
        machines = self._tools.admission.admitted(sight.machines, fleet)
        if self._autoscale is not Autoscale.OFF:
            self._decide(self._use(fleet, machines, sight, now))
            fleet = self._tools.carriages.fleet()
        for name in sorted(fleet.added):
            self._see_to(name, fleet, machines, now)

    def _use(self, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], sight: Sight, now: float) -> FleetUse:
        seen = self._watch.take(machines, sight.connection, fleet.named, now)
        jobs = [job_sight.seen for job_sight in sight.jobs.values() if job_sight.seen is not None]
        with self._tools.committer.looking() as state:
            paces = {str(job): plan.pace for job, plan in state.plans.items()}
        lags = {job.job: figures_of(job.measured, now).lag_seconds or 0.0 for job in jobs if job.job in paces}
        behind = [job for job, lag in lags.items() if lag > FALLEN_BEHIND + _PACES * paces[job]]
        return FleetUse(
            carriages=fleet.carriages,
            fleet=fleet.with_seen(
                replace(seen, loads=host_loads(jobs, now)),
                replicas=self._tools.replicas,
                settled_after=self._settled_after,
            ),
            added=fleet.added,
            most=self._most,
            behind=tuple(sorted(behind, key=int)),
        )

    def _decide(self, use: FleetUse) -> None:
        self._state, change = scaled(self._state, use)
        if self._state.short_since is self._state.spare_since is None:
            self._previewed = None
        if change is None:
            return
        if self._autoscale is Autoscale.PREVIEW:
            # Nothing changes by that, so the same is decided again after each rest.
            if self._previewed != (change.act, change.machine):
                self._tools.carriages.note(_PREVIEWED[change.act], change.machine, change.why)
                log.info("would %s machine %s: %s", change.act, change.machine, change.why)
            self._previewed = change.act, change.machine
        elif change.act is ScaleAct.ADD:
            self._tools.carriages.add(change.machine, change.why)
            log.info("machine %s is added: %s", change.machine, change.why)
        else:
            self._tools.carriages.take_back(change.machine, change.why)
            log.info("machine %s is removed: %s", change.machine, change.why)

    def _see_to(self, name: str, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], now: float) -> None:
        if now < self._retry_at.get(name, now):
            return
        is_alive = name in machines and machines[name].seen.alive
        try:
            if name not in fleet.draining:
                self._supply.start(name, "jobs need more cores")
            elif name in fleet.named:
                # Until others have its hosts, and the copies that it keeps, it has to run.
                self._supply.start(name, "others do not have its hosts yet")
            else:
                self._supply.stop(name, "jobs need fewer cores")
                if not is_alive:
                    self._machines.leave(name, who=SERVICE)
        except SupplyFailed as error:
            self._retry_at[name] = now + _AGAIN_AFTER
            log.warning("machine %s: %s; tried again in %g s", name, error, _AGAIN_AFTER)
            self._tools.carriages.note(OperationKind.SCALING_FAILS, name, str(error))
        except (Conflict, StateNotReady) as error:
            log.debug("machine %s is not forgotten yet: %s", name, error)


_PREVIEWED = {ScaleAct.ADD: OperationKind.WOULD_ADD_MACHINE, ScaleAct.REMOVE: OperationKind.WOULD_REMOVE_MACHINE}
