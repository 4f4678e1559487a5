"""The processes of cells: the parent, which a worker starts once, and the cell that it forks for each request.

The parent is small. It runs no published code itself, and sees neither requests nor results: the worker and the cell
exchange these over pipes of their own, results as frames, each after its length. So nothing that code does or gets
reaches another task, or the next batch of the same one.

A cell calls the published code for the events of one request, and sends the outcomes. It can make no socket, and
connect none. For code that may connect, the worker connects, and sends the connected socket over a link, of which the
cell has one end. What Python's libraries do to connect is replaced, so that they work as they are. Code that gets round
the replacement gains nothing: the kernel refuses it all else.
"""

import errno
import gc
import importlib
import mmap
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from engine.code.cell.calls import EventCalls, Failure, Outcome, failure, load
from engine.code.cell.confinement import (
    CPU_SECONDS,
    certificate_folders,
    close_others,
    confine,
    forget_other_places,
    readable_folders,
)
from engine.code.cell.kept_values import KeepingCalls, KeptBounds, KeptValues, Migration

_LENGTH = struct.Struct(">Q")


def framed(content: bytes) -> bytes:
    """A message as it is sent."""
    return _LENGTH.pack(len(content)) + content


def frames_in(content: bytes) -> list[bytes]:
    """The complete messages at the beginning of some bytes.

    >>> frames_in(framed(b"one") + framed(b"two")[:-1])
    [b'one']
    """
    frames, at = [], 0
    while len(content) - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if len(content) - at < length:
            break
        frames.append(content[at : at + length])
        at += length
    return frames


MOST_LINK_BYTES = 4 * 1024
_SYSTEM_SOCKET = socket.socket
_FAMILIES = (-1, socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6)
_KINDS = (-1, 0, socket.SOCK_STREAM)
_SET_ALREADY = frozenset({(socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)})
"""The options that the worker sets. No others can be set."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A connection that code wants; made by the cell."""

    host: str
    port: int
    seconds: float | None
    """The time for which the code would wait for it."""


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the worker. With it comes the socket, unless there is an error."""

    number: int = 0
    """The number of the system's error."""
    why: str = ""


class LinkedSocket(_SYSTEM_SOCKET):
    """A TCP socket that is none of the system's until it is connected."""

    link: _SYSTEM_SOCKET

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002 - as Python calls it
        if fileno is not None:
            super().__init__(family, type, proto, fileno)
            return
        if family not in _FAMILIES or type not in _KINDS:
            raise PermissionError(errno.EPERM, "code connects by TCP, and to what its module names, and nothing else")
        self._io_refs, self._closed = 0, False
        self._wait = socket.getdefaulttimeout()

    def connect(self, address: Any) -> None:
        """Have the worker connect."""
        host, port = address[:2]
        if isinstance(host, bytes | bytearray):
            host = host.decode("ascii")
        wanted = Wanted(host=host, port=int(port), seconds=self._wait)
        self.link.send(msgspec.msgpack.encode(wanted))
        message, handles, _, _ = socket.recv_fds(self.link, MOST_LINK_BYTES, 1)
        answer = msgspec.msgpack.decode(message, type=Connected)
        if answer.number or not handles:
            raise OSError(answer.number or errno.ECONNABORTED, answer.why)
        super().__init__(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, handles[0])
        super().settimeout(self._wait)

    def connect_ex(self, address: Any) -> int:
        """Have the worker connect; the number of the error, or 0."""
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def bind(self, _address: Any) -> None:
        """Refuse: where a connection comes from is not for code to say."""
        raise PermissionError(errno.EPERM, "code may not bind a socket")

    def settimeout(self, value: float | None) -> None:
        """Set the timeout, also before there is a socket."""
        self._wait = value
        if self.fileno() != -1:
            super().settimeout(value)

    def gettimeout(self) -> float | None:
        """The timeout, also before there is a socket."""
        return super().gettimeout() if self.fileno() != -1 else self._wait

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - as Python calls it
        """Set the timeout to none or zero."""
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        """Whether it waits."""
        return self.gettimeout() != 0.0

    def setsockopt(self, *option: Any) -> None:
        """Take options that are set already, and no others."""
        if option[:2] not in _SET_ALREADY:
            raise PermissionError(errno.EPERM, "code may not set this option of a socket")

    def getsockopt(self, *option: Any) -> Any:
        """The kind of the socket, and that it has no error; nothing else."""
        known = {socket.SO_TYPE: int(socket.SOCK_STREAM), socket.SO_ERROR: 0}
        if option[0] != socket.SOL_SOCKET or option[1] not in known:
            raise PermissionError(errno.EPERM, "code may not read this option of a socket")
        return known[option[1]]


def connect_over(link: int) -> None:
    """Have Python's libraries connect over a link from now on."""
    LinkedSocket.link = _SYSTEM_SOCKET(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, link)
    replaced: Any = socket
    replaced.socket = LinkedSocket
    replaced.getaddrinfo = _addresses


def _addresses(host: Any, port: Any, *_rest: Any, **_more: Any) -> list[tuple[Any, ...]]:
    """One address, which is the name itself: the worker finds the address, checks that one, and connects to it."""
    if isinstance(host, bytes):
        host = host.decode("ascii")
    if not isinstance(host, str) or not str(port).isdecimal():
        raise socket.gaierror(socket.EAI_NONAME, "code connects to a host and a port, which is a number")
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, int(port)))]


LOADING = -1
"""The progress of a cell until its code is loaded; then it is the index of the event that it works on."""
PROGRESS = struct.Struct("=q")
_SEND_AFTER = 0.05
"""Seconds after which outcomes are sent, so that few are lost with the cell."""
_SEND_MOST = 2_000


class KeptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a function keeps under the keys of some events; made by the worker."""

    config: str
    """The config of the function, as JSON."""
    bounds: KeptBounds
    key_bytes: list[int]
    """The size of each key."""
    values: list[bytes | None]
    """The packed value of each key."""
    places: list[int]
    """The key of each event, by its place."""


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Events for a function; made by the worker."""

    digest: str
    source: str
    entry: str
    per: str
    needed: dict[str, str]
    """The kinds of the input fields."""
    fields: dict[str, str]
    """The kinds of the output fields."""
    count: int
    columns: list[list[Any]] = []
    """The values of the input fields, if the function takes events."""
    batch: bytes = b""
    """The same values as an Arrow stream, if it takes batches."""
    keeps: KeptRequest | None = None
    """What it keeps, if it keeps something."""
    migration: Migration | None = None
    """What the function migrates, in place of events."""


def work(request: bytes, results: int, progress: mmap.mmap) -> None:
    """Work a request off. Sends lists of outcomes of events, or what became of the batch."""
    asked = msgspec.msgpack.decode(request, type=CellRequest)
    try:
        function = load(asked.digest, asked.source, asked.entry)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        _send(results, {"unloadable": failure(error, asked.digest)._asdict()})
        return
    if asked.per == "batch":
        PROGRESS.pack_into(progress, 0, 0)
        _send(results, _batch_outcome(asked, function))
        return
    if asked.migration is not None:
        _send(results, _migrated(asked.migration, function, asked.digest, progress))
        return
    described = (function, asked.digest, asked.needed, asked.fields)
    changed: dict[int, bytes | None] = {}
    if (keeps := asked.keeps) is None:
        outcomes = EventCalls(*described).outcomes(asked.count, asked.columns)
    else:
        kept = KeptValues(keeps.values, keeps.key_bytes, keeps.bounds)
        outcomes = KeepingCalls(*described, kept, keeps.config).outcomes_at(keeps.places, asked.columns)
        changed = kept.changed
    some: list[Outcome] = []
    sent = time.monotonic()

    def send_outcomes() -> None:
        nonlocal some, sent
        # A failure is a tuple, and becomes a map, so that it is distinguished from values.
        plain = [outcome._asdict() if isinstance(outcome, tuple) else outcome for outcome in some]
        # Together, so that what is kept is always that of the outcomes that have come.
        _send(results, {"outcomes": plain, "kept_at": changed})
        changed.clear()
        some, sent = [], time.monotonic()

    for at in range(asked.count):
        PROGRESS.pack_into(progress, 0, at)
        some.append(outcome := next(outcomes))
        # What took all memory may still hold it, so the next events get another cell.
        exhausted = isinstance(outcome, Failure) and outcome.error == MemoryError.__name__
        if exhausted or len(some) >= _SEND_MOST or time.monotonic() - sent > _SEND_AFTER:
            send_outcomes()
            if exhausted:
                return
    send_outcomes()


def _send(results: int, content: Any) -> None:
    rest = memoryview(framed(msgspec.msgpack.encode(content)))
    while rest:
        rest = rest[os.write(results, rest) :]


def _migrated(migration: Migration, function: Any, digest: str, progress: mmap.mmap) -> Any:
    migrated: list[bytes | None] = []
    try:
        PROGRESS.pack_into(progress, 0, 0)
        for value in migration.values_by(function):
            migrated.append(value)
            PROGRESS.pack_into(progress, 0, len(migrated))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return {"failure": failure(error, digest)._asdict()}
    return {"migrated": migrated}


def _batch_outcome(asked: CellRequest, function: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only for batches, because it makes a process large

    from engine.code.cell.batch_calls import called, plain_columns  # noqa: PLC0415 - likewise

    with pa.ipc.open_stream(asked.batch) as stream:
        batch = stream.read_next_batch()
    try:
        outcome = called(function, batch, asked.fields)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return {"failure": failure(error, asked.digest)._asdict()}
    kept = None if outcome.kept is None else outcome.kept.to_pylist()
    return {"columns": plain_columns(outcome.columns), "kept": kept}


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
        """Work as the cell, and end the process."""
        try:
            # Here, and not in the parent, whose memory all cells get a copy of.
            with open(request, "rb") as pipe:
                asked = pipe.read()
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
            while not (ready := waiting.poll(_LOOK_AFTER * 1_000)):
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
        if any(handle != ended for handle, _ in ready):
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
