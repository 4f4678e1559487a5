"""Connections of published code, as the worker makes them: only to what the module names, if that is reachable.

The name is looked up once. The addresses that were checked are those that are connected to, so a name that changes
leads nowhere else.
"""

import errno
import socket
import time
from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from typing import Self

import msgspec

from dags.internet_addresses import spelling
from engine.code.cell.connections import MOST_LINK_BYTES, Connected, Wanted

_MOST_OF_ONE_CELL = 64
"""The connections that code may ask for in one cell."""
_MOST_SECONDS = 10.0
"""The most time for one connection."""
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
        """A connected socket. Raises OSError."""
        name = named(wanted.host, wanted.port)
        if name not in self._named:
            raise PermissionError(errno.EPERM, f"the module does not name {name} in 'connects', and connects there")
        late = min(late, time.monotonic() + min(_MOST_SECONDS, wanted.seconds or _MOST_SECONDS))
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


class CellLink:
    """The worker's end of the link to one cell, and the other one until the cell has it. Trusts nothing that comes."""

    def __init__(self, connected: Callable[[Wanted, float], socket.socket]) -> None:
        self._connected = connected
        self._own, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._own.settimeout(0)
        self._left = _MOST_OF_ONE_CELL

    def __enter__(self) -> Self:
        return self

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
                socket.send_fds(self._own, [_encoded(Connected())], [made.fileno()], _KEPT)
        except OSError as error:
            try:
                why = Connected(number=error.errno or errno.EACCES, why=(error.strerror or str(error))[:500])
                self._own.send(_encoded(why), _KEPT)
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


def _encoded(answer: Connected) -> bytes:
    return msgspec.msgpack.encode(answer)
