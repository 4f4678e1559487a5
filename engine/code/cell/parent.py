"""The parent of cells: a small process that a worker starts once, and that forks a cell for each request.

It runs no published code itself, and sees neither requests nor results: the worker and the cell exchange these over
pipes of their own. So nothing that code does or gets reaches another task, or the next batch of the same one.
"""

import gc
import importlib
import mmap
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from engine.code.cell.confinement import CPU_SECONDS, close_others, confine
from engine.code.cell.connections import connect_over
from engine.code.cell.file_access import certificate_folders, forget_other_places, readable_folders
from engine.code.cell.frames import read_frame, write_frame
from engine.code.cell.work import LOADING, PROGRESS, work

CALL_SECONDS = 1.0
"""The most CPU of one call of a function, and of loading its source."""
MOST_ORDER_BYTES = 128 * 1024
_LOOK_AFTER = 0.05
"""Seconds between two looks at a cell that works."""
_MOST_HANDLES = 3
_CANNOT = 97
"""The code with which a cell ends that cannot be confined."""
_COMMON = (
    "_strptime", "array", "base64", "bisect", "calendar", "collections", "copy", "csv", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "numbers",
    "operator", "random", "re", "ssl", "statistics", "string", "struct", "textwrap", "typing", "unicodedata",
    "urllib.parse", "uuid", "zoneinfo",
)  # fmt: skip
"""Modules that code often imports, loaded before each cell rather than in each."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a parent."""

    trouble: str
    """Why it cannot confine cells; empty if it can."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order for a cell; made by the worker. With it come the handles of its request, its results, and its link."""

    seconds: float
    """The most time that it may take."""
    wheels: tuple[str, ...] = ()
    """The wheels that its code imports from, the first ones first."""
    connects: bool = False
    """Whether its code connects; the third handle is that of its link then."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a cell; made by its parent."""

    why: str
    """What ended it, if it did not end by itself."""
    at: int
    """Its progress then. Not to be trusted."""
    cpu_ns: int


def main(per: str) -> None:
    """Serve the worker until it closes the socket."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    # An empty folder, which is already removed, so that none is left behind.
    nowhere = Path(tempfile.mkdtemp(prefix="braid-cell-"))
    os.chdir(nowhere)
    nowhere.rmdir()
    for name in _COMMON:
        importlib.import_module(name)
    if per == "batch":
        # Only then, because it makes the process large.
        importlib.import_module("engine.code.cell.batch_calls").warm_up()
    forget_other_places()
    sys.argv[:] = [""]
    # Objects that no collection scans stay shared with the cells.
    gc.collect()
    gc.freeze()
    parent = _Parent(control)
    control.send(msgspec.msgpack.encode(Hello(trouble=parent.trouble())))
    while True:
        message, handles, _, _ = socket.recv_fds(control, MOST_ORDER_BYTES, _MOST_HANDLES)
        if not message:
            return
        order = msgspec.msgpack.decode(message, type=Order)
        control.send(msgspec.msgpack.encode(parent.cell(order, *handles)))


class _Parent:
    """A parent, which knows of its cells only how far they are, and no data of any."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._progress = mmap.mmap(-1, PROGRESS.size)
        self._folders = readable_folders()

    def trouble(self) -> str:
        """Why cells cannot be confined here, found with one that does nothing; empty if they can."""
        (take, give), (read, write) = os.pipe(), os.pipe()
        write_frame(give, b"")
        os.close(give)
        ending = self.cell(Order(seconds=CPU_SECONDS), take, write)
        with open(read, "rb") as results:  # noqa: PTH123 - a handle has no path
            return results.read().decode() or ending.why

    def cell(self, order: Order, request: int, results: int, *link: int) -> Ending:
        """Run a cell to its end."""
        begun = time.process_time_ns()
        PROGRESS.pack_into(self._progress, 0, LOADING)
        child = os.fork()
        if not child:
            self._be(order, request, results, *link)
        for handle in (request, results, *link):
            os.close(handle)
        why = self._watch(child, order.seconds)
        # One that has ended is not affected.
        os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        return Ending(
            why=why or _ended(status),
            at=PROGRESS.unpack_from(self._progress)[0],
            cpu_ns=time.process_time_ns() - begun + round((used.ru_utime + used.ru_stime) * 1e9),
        )

    def _be(self, order: Order, request: int, results: int, *link: int) -> None:
        """Be the cell."""
        try:
            # Here, and not in the parent, whose memory all cells get a copy of.
            asked = read_frame(request)
            results, *link_kept = close_others(results, *link)
            folders = [*self._folders, *(certificate_folders() if order.connects else ())]
            try:
                confine(folders, order.wheels, connects=order.connects)
            except BaseException as error:  # noqa: BLE001 - whatever it is, no code may run
                os.write(results, repr(error).encode())
                os._exit(_CANNOT)
            # Before all else, so that what a module pins is what its code gets.
            sys.path[:0] = order.wheels
            for handle in link_kept:
                connect_over(handle)
            if asked:
                work(asked, results, self._progress)
            os._exit(0)
        finally:
            # Never back into the parent's loop.
            os._exit(1)

    def _watch(self, child: int, seconds: float) -> str:
        """Wait until a cell ends, or has to be ended; and why it has to."""
        late = time.monotonic() + seconds
        # The number of the clock of another process's CPU, as in the C library.
        clock = ~child << 3 | 2
        at, since = LOADING, 0.0
        ended = os.pidfd_open(child)
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        waiting.register(self._control, 0)
        try:
            while not (found := waiting.poll(_LOOK_AFTER * 1_000)):
                now = PROGRESS.unpack_from(self._progress)[0]
                used = time.clock_gettime(clock)
                if now != at:
                    at, since = now, used
                elif used - since > CALL_SECONDS:
                    return f"it took over {CALL_SECONDS:g} s of CPU"
                if time.monotonic() > late:
                    return f"it took over {seconds:.0f} s"
        finally:
            os.close(ended)
        if any(handle != ended for handle, _ in found):
            # The worker is gone.
            os.kill(child, signal.SIGKILL)
            os._exit(0)
        return ""


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code in {-signal.SIGKILL, -signal.SIGXCPU}:
        return f"it was killed, at the latest after {CPU_SECONDS} s of CPU"
    if code < 0:
        return f"it crashed ({signal.Signals(-code).name})"
    return f"it ended its process with code {code}" if code else ""
