"""Connections as code in a cell gets them: Python's `socket` module, with a worker that connects.

A cell can make no socket, and connect none. The worker connects for it, where that is allowed, and sends the connected
socket over a link, of which this is the cell's end. What Python's libraries do to connect is replaced, so that they
work as they are. Code that gets round this module gains nothing: the kernel refuses it all else.
"""

import errno
import socket
from typing import Any

import msgspec

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
    """How long it would wait for it."""


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

    @property
    def _is_open(self) -> bool:
        return self.fileno() != -1

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
        if self._is_open:
            super().settimeout(value)

    def gettimeout(self) -> float | None:
        """The timeout, also before there is a socket."""
        return super().gettimeout() if self._is_open else self._wait

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
