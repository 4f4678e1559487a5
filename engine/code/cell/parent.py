"""The parent of cells: a small process that a worker starts once, and that forks a cell for each request.

It runs no published code itself. So nothing that code does reaches another task, or the next batch of the same one.
"""

import gc
import importlib
import mmap
import os
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.code.cell.confinement import CPU_SECONDS, close_others, confine
from engine.code.cell.file_access import forget_other_places, readable_folders
from engine.code.cell.frames import read_frame, write_frame
from engine.code.cell.work import LOADING, PROGRESS, work

CALL_SECONDS = 1.0
"""The most CPU of one call of a function, and of loading its source."""
MOST_RESULT_BYTES = 256 * 1024 * 1024
_LOOK_AFTER = 0.05
"""Seconds between two looks at a cell that works."""
_CANNOT = 97
"""The code with which a cell ends that cannot be confined."""
_COMMON = (
    "_strptime", "array", "base64", "bisect", "calendar", "collections", "copy", "csv", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "numbers",
    "operator", "random", "re", "statistics", "string", "struct", "textwrap", "typing", "unicodedata", "urllib.parse",
    "uuid", "zoneinfo",
)  # fmt: skip
"""Modules that code often imports, loaded before each cell rather than in each."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a parent."""

    trouble: str
    """Why it cannot confine cells; empty if it can."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order for a cell; made by the worker."""

    seconds: float
    """The most time that it may take."""
    request: bytes


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a cell; made by its parent."""

    why: str
    """What ended it, if it did not end by itself."""
    at: int
    """Its progress then. Not to be trusted."""
    cpu_ns: int
    results: bytes
    """The frames that it sent. Not to be trusted."""


def main(per: str) -> None:
    """Serve the worker until it closes the pipe."""
    requests, answers = os.dup(0), os.dup(1)
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
    progress = mmap.mmap(-1, PROGRESS.size)
    folders = readable_folders()
    tried = _cell(Order(seconds=CPU_SECONDS, request=b""), progress, requests, folders)
    write_frame(answers, msgspec.msgpack.encode(Hello(trouble=tried.results.decode() or tried.why)))
    while (frame := read_frame(requests)) is not None:
        order = msgspec.msgpack.decode(frame, type=Order)
        write_frame(answers, msgspec.msgpack.encode(_cell(order, progress, requests, folders)))


def _cell(order: Order, progress: mmap.mmap, requests: int, folders: list[str]) -> Ending:
    """Run a cell to its end."""
    begun = time.process_time_ns()
    PROGRESS.pack_into(progress, 0, LOADING)
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        _run(order.request, sink, progress, folders)
    os.close(sink)
    why, results = _watch(child, source, requests, order.seconds, progress)
    os.close(source)
    # It may have closed its results and go on. One that is ending by itself is not affected.
    os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    return Ending(
        why=why or _ended(status),
        at=PROGRESS.unpack_from(progress)[0],
        cpu_ns=time.process_time_ns() - begun + round((used.ru_utime + used.ru_stime) * 1e9),
        results=results,
    )


def _run(request: bytes, sink: int, progress: mmap.mmap, folders: list[str]) -> None:
    """Be the cell."""
    try:
        results = close_others(sink)
        try:
            confine(folders)
        except BaseException as error:  # noqa: BLE001 - whatever it is, no code may run
            os.write(results, repr(error).encode())
            os._exit(_CANNOT)
        if request:
            work(request, results, progress)
        os._exit(0)
    finally:
        # Never back into the parent's loop.
        os._exit(1)


def _watch(child: int, source: int, requests: int, seconds: float, progress: mmap.mmap) -> tuple[str, bytes]:
    """Collect what a cell sends until it ends, or has to be ended; and why it has to."""
    content = bytearray()
    late = time.monotonic() + seconds
    # The number of the clock of another process's CPU, as in the C library.
    clock = ~child << 3 | 2
    at, since = LOADING, 0.0
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    waiting.register(requests, 0)
    while True:
        for handle, _ in waiting.poll(_LOOK_AFTER * 1_000):
            if handle == requests:
                # The worker is gone.
                os.kill(child, signal.SIGKILL)
                os._exit(0)
            part = os.read(source, 1 << 20)
            if not part:
                return "", bytes(content)
            content += part
        if len(content) > MOST_RESULT_BYTES:
            return "its results are too large", b""
        now = PROGRESS.unpack_from(progress)[0]
        with suppress(OSError):
            used = time.clock_gettime(clock)
            if now != at:
                at, since = now, used
            elif used - since > CALL_SECONDS:
                return f"it took over {CALL_SECONDS:g} s of CPU", bytes(content)
        if time.monotonic() > late:
            return f"it took over {seconds:.0f} s", bytes(content)


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code in {-signal.SIGKILL, -signal.SIGXCPU}:
        return f"it was killed, at the latest after {CPU_SECONDS} s of CPU"
    if code < 0:
        return f"it crashed ({signal.Signals(-code).name})"
    return f"it ended its process with code {code}" if code else ""
