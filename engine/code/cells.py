"""The cells of a worker: processes that run published code which no operator vouches for.

The parent of the cells is started on first use, and again when it has died. Its environment holds nothing of the
worker's, and it inherits no open file. The parent forks a cell for each call, see `engine.code.cell.parent`.
"""

import atexit
import select
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import msgspec

import engine
from engine.code.cell.file_access import exposing
from engine.code.cell.frames import framed, read_frame
from engine.code.cell.parent import Ending, Hello, Order
from engine.task_cpu import count_elsewhere

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from engine.code.cell.parent import main; main(sys.argv[2])"
_BRAID = str(Path(engine.__file__).parents[1])
"""Where Braid's code is: a folder, or an archive."""
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # So that sets have the same order in every worker, and a batch that is run again has the same outcome.
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
"""Seconds beyond the time of a cell after which its parent counts as dead."""


class NoCells(RuntimeError):
    """Code cannot be run in cells here. Says why, and what to do."""


class Cells:
    """The cells for functions of events, or of batches."""

    def __init__(self, per: str) -> None:
        self._per = per
        self._parent: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process of the parent; None before the first use."""
        return None if self._parent is None else self._parent.pid

    def run(self, request: bytes, *, path: str, seconds: float) -> Ending:
        """Work a request off in a new cell; `path` is that of a file of Braid's, which no cell may read."""
        if folder := exposing(path):
            raise NoCells(
                f"published code could read Braid's files, which are in {folder}; move Braid's root elsewhere"
            )
        order = msgspec.msgpack.encode(Order(seconds=seconds, request=request))
        for again in (False, True):
            parent = self._started()
            try:
                answer = _asked(parent, order, seconds + _ANSWER_SECONDS)
            except OSError:
                answer = None
            if answer is not None:
                ending = msgspec.msgpack.decode(answer, type=Ending)
                count_elsewhere(ending.cpu_ns)
                return ending
            self.close()
            if again:
                break
        raise NoCells("the parent of the cells died twice; see whether the machine has memory to spare")

    def close(self) -> None:
        """End the parent; another is started on the next use."""
        if self._parent is not None:
            self._parent.kill()
            with self._parent:
                self._parent = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._parent is not None and self._parent.poll() is None:
            return self._parent
        self.close()
        # Not `-I`, which would ignore the hash seed too. The environment has nothing else that Python heeds.
        command = [sys.executable, "-P", "-s", "-c", _PROGRAM, _BRAID, self._per]
        self._parent = subprocess.Popen(  # noqa: S603 - this Python, with a program of Braid's
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        hello = _asked(self._parent, None, _START_SECONDS)
        if hello is None:
            self.close()
            raise NoCells(
                "the process for published code does not start; see whether msgspec and pyarrow are installed"
            )
        if trouble := msgspec.msgpack.decode(hello, type=Hello).trouble:
            self.close()
            raise NoCells(
                f"code that no operator vouches for cannot be confined on this machine, so it does not run: {trouble}"
            )
        return self._parent


@cache
def cells(per: str) -> Cells:
    """The cells of this process."""
    made = Cells(per)
    atexit.register(made.close)
    return made


def _asked(parent: "subprocess.Popen[bytes]", message: bytes | None, seconds: float) -> bytes | None:
    """The next message of a parent, after one to it; None if it is gone or does not answer in time."""
    assert parent.stdin is not None  # noqa: S101 - it is a pipe
    assert parent.stdout is not None  # noqa: S101 - likewise
    if message is not None:
        parent.stdin.write(framed(message))
        parent.stdin.flush()
    waiting = select.poll()
    waiting.register(parent.stdout, select.POLLIN)
    end = time.monotonic() + seconds
    while not waiting.poll(1_000):
        if time.monotonic() > end:
            return None
    return read_frame(parent.stdout.fileno())
