"""The cells of a worker: processes that run published code which no operator vouches for.

The parent of the cells is started on first use, and again when it has died. Its environment holds nothing of the
worker's, and it inherits no open file. The parent forks a cell for each call, see `engine.code.cell.parent`.
"""

import atexit
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

import engine
from engine.behaviour import count_elsewhere
from engine.code.cell.file_access import exposing
from engine.code.cell.frames import framed
from engine.code.cell.parent import Ending, Hello, Order
from engine.code.connections import CellLink, Connections

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
_MOST_MESSAGE_BYTES = 1_024
MOST_RESULT_BYTES = 256 * 1024 * 1024
_ANSWER_SECONDS = 10.0
"""Seconds beyond the time of a cell after which its parent counts as dead."""


class NoCells(RuntimeError):
    """Code cannot be run in cells here. Says why, and what to do."""


class CellEnd(NamedTuple):
    """The end of a cell."""

    why: str
    """What ended it, if it did not end by itself."""
    at: int
    """Its progress then. Not to be trusted."""
    results: bytes
    """The frames that it sent. Not to be trusted."""


class Cells:
    """The cells for functions of events, or of batches."""

    def __init__(self, per: str) -> None:
        self._per = per
        self._parent: _Parent | None = None

    @property
    def pid(self) -> int | None:
        """The process of the parent; None before the first use."""
        return None if self._parent is None else self._parent.process.pid

    def run(
        self,
        request: bytes,
        *,
        path: str,
        seconds: float,
        wheels: tuple[str, ...] = (),
        connections: Connections | None = None,
    ) -> CellEnd:
        """Work a request off in a new cell, which may import from some wheels, and may have some connections.

        `path` is that of a file of Braid's, which no cell may read.
        """
        if folder := exposing(path):
            raise NoCells(f"published code could read Braid's files, which are in {folder}; move the root elsewhere")
        for _ in range(2):
            order = Order(seconds=seconds, wheels=wheels, connects=connections is not None)
            with nullcontext() if connections is None else connections.begin() as link:
                found = self._started().run(request, order, link)
            if found is not None:
                return found
            self.close()
        raise NoCells("the parent of the cells died twice; see whether the machine has memory to spare")

    def close(self) -> None:
        """End the parent; another is started on the next use."""
        if self._parent is not None:
            self._parent.end()
            self._parent = None

    def _started(self) -> "_Parent":
        if self._parent is not None and self._parent.process.poll() is None:
            return self._parent
        self.close()
        self._parent = _Parent(self._per)
        hello = self._parent.answer(_START_SECONDS)
        if not hello:
            self.close()
            raise NoCells("the parent of the cells does not start; see whether msgspec and pyarrow are installed")
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


class _Parent:
    """The parent as the worker sees it."""

    def __init__(self, per: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Not `-I`, which would ignore the hash seed too. The environment has nothing else that Python heeds.
            self.process = subprocess.Popen(  # noqa: S603 - this Python, with a program of Braid's
                [sys.executable, "-P", "-s", "-c", _PROGRAM, _BRAID, per],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )

    def answer(self, seconds: float) -> bytes:
        """Its next message; empty if it is gone or does not answer in time."""
        self._control.settimeout(seconds)
        try:
            return self._control.recv(_MOST_MESSAGE_BYTES)
        except OSError:
            return b""

    def run(self, request: bytes, order: Order, link: CellLink | None) -> CellEnd | None:
        """Work a request off in a new cell; None if the parent is gone or does not answer in time."""
        (take, give), (read, write) = os.pipe(), os.pipe()
        handles = [] if link is None else [link.other.fileno()]
        try:
            socket.send_fds(self._control, [msgspec.msgpack.encode(order)], [take, write, *handles])
        except OSError:
            os.close(give)
            os.close(read)
            return None
        finally:
            os.close(take)
            os.close(write)
        results = _exchanged(give, framed(request), read, link, order.seconds)
        answer = self.answer(order.seconds + _ANSWER_SECONDS)
        if not answer:
            return None
        ending = msgspec.msgpack.decode(answer, type=Ending)
        count_elsewhere(ending.cpu_ns)
        if results is None:
            return CellEnd("its results are too large", ending.at, b"")
        return CellEnd(ending.why, ending.at, results)

    def end(self) -> None:
        """End it."""
        self._control.close()
        with self.process:
            self.process.kill()


def _exchanged(give: int, content: bytes, read: int, link: CellLink | None, seconds: float) -> bytes | None:
    """What comes from one pipe until its end, while something is written to another; None if it is too much.

    Meanwhile connections are made that the cell asks for. Both pipes are closed. The time is over only if the parent
    hangs too.
    """
    os.set_blocking(give, False)
    rest, results = memoryview(content), bytearray()
    late = time.monotonic() + seconds
    gone = late + _ANSWER_SECONDS
    waiting = select.poll()
    if link is not None:
        waiting.register(link.fileno(), select.POLLIN)
    waiting.register(give, select.POLLOUT)
    waiting.register(read, select.POLLIN)
    writes = True
    try:
        while time.monotonic() < gone and len(results) <= MOST_RESULT_BYTES:
            for handle, _ in waiting.poll(1_000):
                if handle == read:
                    part = os.read(read, 1 << 20)
                    if not part:
                        return bytes(results)
                    results += part
                    continue
                if link is not None and handle == link.fileno():
                    if not link.answer(late):
                        waiting.unregister(handle)
                    continue
                if not (rest := rest[_written(give, rest) :]):
                    waiting.unregister(give)
                    os.close(give)
                    writes = False
        return None
    finally:
        os.close(read)
        if writes:
            os.close(give)


def _written(handle: int, content: memoryview) -> int:
    """Write what a pipe takes at once. If the cell has ended, it takes all."""
    try:
        return os.write(handle, content)
    except BlockingIOError:
        return 0
    except OSError:
        return len(content)
