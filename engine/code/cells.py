"""The cells of a worker: processes that run published code which no operator vouches for, and their connections.

The parent of the cells is started on first use, and again when it has died. Its environment holds nothing of the
worker's, and it inherits no open file. The parent forks a cell for each call, see `engine.code.cell.parent`.

Some code may connect to hosts. A cell can make no connection itself: the worker makes it, only to what the module
names, and only if that is reachable. The name is looked up once, and the addresses that were checked are those that
are connected to, so a name that changes leads nowhere else.
"""

import atexit
import errno
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import msgspec

import engine
from dags.internet_addresses import spelling
from engine.behaviour import count_elsewhere
from engine.code.cell.confinement import exposing
from engine.code.cell.parent import MOST_LINK_BYTES, Connected, Ending, Hello, Order, Wanted

_MOST_CONNECTIONS = 64
"""The connections that code may ask for in one cell."""
_CONNECT_SECONDS = 10.0
_KEPT = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class Connections:
    """The connections that code may have. Made for a task, and used for one cell after the other."""

    def __init__(self, named: Collection[str], addresses: Callable[[str], Sequence[str]]) -> None:
        """`named` are hosts with ports; `addresses` finds those of a host, or raises `ConnectionRefusedError`."""
        self._named = frozenset(named)
        self._addresses = addresses

    def begin(self) -> "CellLink":
        """Begin with a cell."""
        return CellLink(self._connected)

    def _connected(self, wanted: Wanted, late: float) -> socket.socket:
        name = named(wanted.host, wanted.port)
        if name not in self._named:
            raise PermissionError(errno.EPERM, f"the module does not name {name} in 'connects', and connects there")
        late = min(late, time.monotonic() + min(_CONNECT_SECONDS, wanted.seconds or _CONNECT_SECONDS))
        error: OSError = TimeoutError(errno.ETIMEDOUT, f"{name} does not answer in time")
        for address in self._addresses(plain(wanted.host)):
            if (seconds := late - time.monotonic()) <= 0:
                break
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.settimeout(seconds)
                made.connect((address, wanted.port))
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                made.settimeout(None)
            except OSError as failed:
                made.close()
                # Without the address, which is the operator's own affair.
                error = type(failed)(failed.errno or errno.ETIMEDOUT, f"{name} cannot be reached")
            else:
                return made
        raise error


class CellLink(AbstractContextManager["CellLink"]):
    """The worker's end of the link to one cell, and the other one until the cell has it. Trusts nothing that comes."""

    def __init__(self, connected: Callable[[Wanted, float], socket.socket]) -> None:
        self._connected = connected
        self._own, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._own.settimeout(0)
        self._left = _MOST_CONNECTIONS

    def __exit__(self, *_how: object) -> None:
        """Close both ends; what the cell has not taken is closed too."""
        self._own.close()
        self.other.close()

    def fileno(self) -> int:
        """The handle of the worker's end."""
        return self._own.fileno()

    def answer(self, late: float) -> bool:
        """Answer the next request, and wait no longer than until `late`; False if it was the last one."""
        if self._answered(late):
            return True
        # Else a cell that goes on asking would wait.
        self._own.shutdown(socket.SHUT_RDWR)
        return False

    def _answered(self, late: float) -> bool:
        try:
            # Not with what may come beside: descriptors that code sends are closed by the kernel.
            request = self._own.recv(MOST_LINK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not request:
            return False
        self._left -= 1
        try:
            with self._made(request, late) as made:
                socket.send_fds(self._own, [msgspec.msgpack.encode(Connected())], [made.fileno()], _KEPT)
        except OSError as error:
            try:
                why = Connected(number=error.errno or errno.EACCES, why=(error.strerror or str(error))[:500])
                self._own.send(msgspec.msgpack.encode(why), _KEPT)
            except OSError:
                return False
        return self._left > 0

    def _made(self, request: bytes, late: float) -> socket.socket:
        try:
            wanted = msgspec.msgpack.decode(request, type=Wanted)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise OSError(errno.EINVAL, "this is no request for a connection") from None
        return self._connected(wanted, late)


def named(host: str, port: int) -> str:
    """A host and a port as modules name them.

    >>> named("Example.ORG.", 443), named("2001:DB8:0::1", 80)
    ('example.org:443', '[2001:db8::1]:80')
    """
    return f"[{plain(host)}]:{port}" if ":" in host else f"{plain(host)}:{port}"


def plain(host: str) -> str:
    """A host in its one spelling."""
    try:
        return spelling(ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from engine.code.cell.parent import main; main(sys.argv[2])"
_BRAID = str(Path(engine.__file__).parents[1])
"""The folder or archive with Braid's code."""
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
                end = self._started().run(request, order, link)
            if end is not None:
                return end
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
        """The next message of the parent; empty if it is gone or does not answer in time."""
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
        results = _exchanged(give, request, read, link, order.seconds)
        answer = self.answer(order.seconds + _ANSWER_SECONDS)
        if not answer:
            return None
        ending = msgspec.msgpack.decode(answer, type=Ending)
        count_elsewhere(ending.cpu_ns)
        if results is None:
            return CellEnd("its results are too large", ending.at, b"")
        return CellEnd(ending.why, ending.at, results)

    def end(self) -> None:
        self._control.close()
        with self.process:
            self.process.kill()


def _exchanged(give: int, content: bytes, read: int, link: CellLink | None, seconds: float) -> bytes | None:
    """Write to one pipe, and read another one to its end; None if too much comes.

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
