"""The processes that trials run in: one at a time for a tenant, few in all, each killed at its bounds.

A trial has the CPU, the memory and the answer of a few hundred events. Its process inherits no environment, and no
file but its three standard ones.
"""

import contextlib
import logging
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import TypeAdapter

from engine.dataflow_trial import TRIAL_ORDER, TrialOrder, TrialResult
from manager.problem import QuotaExceeded

_PROGRAM = "engine.dataflow_trial"
_MOST_AT_ONCE = 2
"""Trials at once, of all tenants; each takes a thread of REST and the time of a core."""
_AGAIN = 2.0
"""Seconds after which a refused trial may be tried again."""
_MOST_OUTPUT = 8_000_000
"""Bytes of standard output, most of which is what is shown of events."""
_LINE: TypeAdapter[int | str | TrialResult] = TypeAdapter(int | str | TrialResult)
log = logging.getLogger("braid.trials")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBounds:
    """The bounds of one trial."""

    cpu_seconds: int = 8
    """With about a second to start."""
    seconds: float = 25.0
    """Clients wait longer."""
    memory: int = 1_200_000_000
    """Bytes of addresses, half of which the largest libraries of task types take."""


class TrialEnded(Exception):
    """A trial was ended at a bound."""

    def __init__(self, why: str, instance: int | None) -> None:
        self.why = why
        """As the rest of a sentence that begins with the trial."""
        self.instance = instance
        """The instance that ran then, if one did."""
        super().__init__(why)


class TrialFailed(RuntimeError):
    """A trial failed by itself, which no document should cause. The log says why."""


_USUAL = TrialBounds()


class TrialProcesses:
    """Runs trials. Thread-safe; calls block."""

    def __init__(self, bounds: TrialBounds = _USUAL) -> None:
        self._bounds = bounds
        self._guard = threading.Lock()
        self._busy: set[str] = set()

    @contextmanager
    def admitted(self, tenant: str) -> Iterator[None]:
        """Admit a trial of a tenant; refused while it has another, or while others have too many."""
        with self._guard:
            if tenant in self._busy:
                raise QuotaExceeded(f"a trial of {tenant} is under way; wait until it ends", retry_after=_AGAIN)
            if len(self._busy) >= _MOST_AT_ONCE:
                why = "as many trials as there may be at once are under way; ask again in a moment"
                raise QuotaExceeded(why, retry_after=_AGAIN)
            self._busy.add(tenant)
        try:
            yield
        finally:
            with self._guard:
                self._busy.discard(tenant)

    def run(self, order: TrialOrder) -> TrialResult:
        """Run an admitted trial; raises `TrialEnded` at a bound."""
        until = time.monotonic() + self._bounds.seconds
        bounds = (self._bounds.cpu_seconds, self._bounds.memory, math.ceil(self._bounds.seconds) + 1)
        process = subprocess.Popen(  # noqa: S603 - this Python, with a program of Braid's
            [sys.executable, "-P", "-s", "-m", _PROGRAM, *map(str, bounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
        try:
            return self._result(process, TRIAL_ORDER.dump_json(order), until)
        finally:
            # Its group, in case that a task has started another process.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass

    def _result(self, process: "subprocess.Popen[bytes]", order: bytes, until: float) -> TrialResult:
        assert process.stdin is not None  # noqa: S101 - as it was started
        assert process.stdout is not None  # noqa: S101 - as above
        # It writes nothing before it has read all.
        with contextlib.suppress(BrokenPipeError), process.stdin as sent:
            sent.write(order)
        output = bytearray()
        file = process.stdout.fileno()
        is_whole = False
        while (left := until - time.monotonic()) > 0 and len(output) <= _MOST_OUTPUT:
            if not select.select([file], [], [], left)[0]:
                continue
            if not (more := os.read(file, 65_536)):
                is_whole = True
                break
            output += more
        lines = bytes(output).split(b"\n")[:-1]
        last = _LINE.validate_json(lines[-1]) if lines else None
        if isinstance(last, TrialResult) and is_whole:
            return last
        if isinstance(last, str):
            log.error("a trial failed: %s", last)
            raise TrialFailed(last)
        instance = last if isinstance(last, int) else None
        if not is_whole:
            why = "said too much" if left > 0 else f"took more than {self._bounds.seconds:g} s"
            raise TrialEnded(why, instance)
        code = process.wait()
        if code in {-signal.SIGXCPU, -signal.SIGKILL}:
            raise TrialEnded(f"used more than {self._bounds.cpu_seconds} s of CPU", instance)
        log.warning("a trial died with %d while instance %s ran", code, instance)
        raise TrialEnded(f"died with {code}, perhaps for lack of memory", instance)


def _environment() -> dict[str, str]:
    """What a trial needs of an environment: where modules are, and that one thread is enough."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = os.pathsep.join(path for path in sys.path if path)
    return {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", **threads}
