"""The hook: a command of the operator's that starts and stops machines elsewhere.

It is called as `COMMAND add NAME WHY` and `COMMAND remove NAME WHY`. A manager calls it once for each, and again after
a failure. Another manager calls it again for what is there, so it has to be idempotent.
"""

import shlex
import subprocess
import tempfile
from typing import Literal

from manager.fleet.supply import SupplyFailed

HOOK_PATIENCE = 120.0
"""Seconds that the command may take; what takes longer it should begin, and not wait for."""
_TAIL = 500


class ScaleHook:
    """Calls the command."""

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
