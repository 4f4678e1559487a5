"""A way over TCP with faults: a proxy that a test puts between two parts."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from queue import SimpleQueue

_PIECE = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)
"""The option with which closing resets a connection."""


class Fault(Enum):
    """What is wrong with a way."""

    NONE = "nothing"
    CUT = "connections are reset, and new ones too"
    HELD = "nothing arrives; once it is healed everything does"
    HALF_OPEN = "connections stay, and what is sent vanishes; they are reset once it is healed"


class FaultyWay:
    """Passes connections to a port on, as well as its fault lets it; called from any thread."""

    def __init__(self, to: int) -> None:
        """Listens at a port of its own, without a fault, for what goes to the port `to` of this machine."""
        self._to = to
        self._fault = Fault.NONE
        self._delay = 0.0
        self._changed = threading.Condition()
        self._links: set[_Link] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.lost = 0
        """Bytes that vanished."""
        self.passed = 0
        """Bytes that were passed on to the port."""
        threading.Thread(target=self._accept, name="a faulty way", daemon=True).start()

    def breaks(self, fault: Fault) -> None:
        """Have a fault from now on."""
        with self._changed:
            before, self._fault = self._fault, fault
            links = list(self._links)
            self._changed.notify_all()
        for link in links:
            if fault is Fault.CUT or (before is Fault.HALF_OPEN and link.has_lost):
                link.reset()

    def heals(self) -> None:
        """Have no fault from now on."""
        self.breaks(Fault.NONE)

    def delays(self, seconds: float) -> None:
        """Let all that comes from now on take so long, each way; as much at once as ever."""
        self._delay = seconds

    def close(self) -> None:
        """End all connections, and take no more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.breaks(Fault.CUT)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        link = _Link(near, far)
        with self._changed:
            self._links.add(link)
            if self._fault is Fault.CUT:
                link.reset()
        passing = [
            threading.Thread(target=self._pass, args=(link, one, other), daemon=True)
            for one, other in ((near, far), (far, near))
        ]
        for each in passing:
            each.start()
        for each in passing:
            each.join()
        with self._changed:
            self._links.discard(link)
        link.close()

    def _pass(self, link: "_Link", source: socket.socket, target: socket.socket) -> None:
        pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        threading.Thread(target=self._read, args=(source, pieces), daemon=True).start()
        try:
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                with self._changed:
                    self._changed.wait_for(lambda: self._fault is not Fault.HELD or link.is_reset)
                    vanishes = self._fault is Fault.HALF_OPEN or link.has_lost
                    if vanishes:
                        link.has_lost = True
                        self.lost += len(data)
                if not data and not vanishes:
                    target.shutdown(socket.SHUT_WR)
                if not data:
                    break
                if not vanishes:
                    target.sendall(data)
                    self.passed += len(data) if target is link.far else 0
        except OSError:
            link.reset()

    def _read(self, source: socket.socket, pieces: "SimpleQueue[tuple[float, bytes]]") -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                pieces.put((time.monotonic() + self._delay, data))
        pieces.put((time.monotonic() + self._delay, b""))


class _Link:
    """A connection to the way, and the one that it makes."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.far = far
        self._both = (near, far)
        self.has_lost = False
        self.is_reset = False

    def reset(self) -> None:
        """Have both ends get an error."""
        self.is_reset = True
        for each in self._both:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                # Wakes up those who read and write here.
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._both:
            each.close()


@contextmanager
def faulty_way(to: int) -> Iterator[FaultyWay]:
    """A way for a while."""
    way = FaultyWay(to)
    try:
        yield way
    finally:
        way.close()
