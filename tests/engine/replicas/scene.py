"""A host's root, a peer and the connection between them, on real sockets and folders; and stores in memory."""

import shutil
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import fsspec

from bridge.files import Steps, make_folder, no_steps, write_whole
from engine.replicas.channel import Channel, CopyTls
from engine.replicas.copies import Replicator
from engine.replicas.copy_server import CopyServer
from engine.replicas.peer_sender import PeerAddress
from engine.replicas.store_copy import StoreConnection, restore
from engine.replicas.store_objects import StoredClaim, StoreObjects
from ring.fleet import STORE

SECRET = "a secret of this process"  # noqa: S105 - of nothing but these tests
EVENTS = "spools/raw%2Fa"


class Scene:
    """The root of host `h` at machine `a`, and what its peers have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        self.servers: dict[str, CopyServer] = {}
        self.replicators: list[Replicator] = []
        self.channels: list[Channel] = []
        self.kept = threading.Semaphore(0)
        make_folder(self.root)

    def place(self, machine: str) -> Path:
        """Where a peer has its copy."""
        return self.path / machine

    def serve(  # noqa: PLR0913 - a peer's name, how it breaks, where it listens, its TLS and its room
        self,
        machine: str = "b",
        *,
        step: Steps = no_steps,
        carries: bool = False,
        listen: str = "127.0.0.1",
        tls: CopyTls | None = None,
        check_room: Callable[[], None] = lambda: None,
    ) -> PeerAddress:
        """Start a peer, and return its address."""
        server = CopyServer(
            machine,
            SECRET,
            listen=(listen, 0),
            place=lambda _host: None if carries else self.place(machine),
            tls=tls,
            check_room=check_room,
            step=step,
        )
        self.servers[machine] = server
        return PeerAddress(machine=machine, at=server.at, secret=SECRET)

    def address(self, machine: str = "b") -> tuple[str, int]:
        """Where a peer listens."""
        host, _, port = self.servers[machine].at.rpartition(":")
        return host, int(port)

    def own(
        self,
        *peers: PeerAddress,
        term: int = 1,
        counted: bool = True,
        root: Path | None = None,
        tls: CopyTls | None = None,
    ) -> Replicator:
        """Start a replicator for these peers."""
        replicator = Replicator("h", root or self.root, "a", on_kept=self.kept.release, tls=tls)
        self.replicators.append(replicator)
        replicator.order(term, peers, frozenset(peer.machine for peer in peers) if counted else frozenset())
        return replicator

    def write(self, name: str, content: bytes = b"events") -> Path:
        """Write a file of the host."""
        path = self.root / name
        make_folder(path.parent)
        write_whole(path, content)
        return path

    def append(self, first: int, content: bytes = b"events") -> Path:
        """Append a file to a spool."""
        return self.write(f"{EVENTS}/log/{first:020d}-{first + 1:020d}", content)

    def close(self) -> None:
        """End all of it."""
        for channel in self.channels:
            channel.close()
        for replicator in self.replicators:
            replicator.close()
        for server in self.servers.values():
            server.close()


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    """The contents and times of a host's files."""
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for top in ("jobs", "spools", "hosts")
        for path in (root / top).rglob("*")
        if path.is_file() and "tmp" not in path.relative_to(root).parts[2:-1]
    }


def sent_bytes(replicator: Replicator) -> int:
    """The bytes that its peers were sent."""
    return sum(sender.sent for sender in replicator._senders.values())


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true."""
    waiting = threading.Event()
    for _ in range(3000):
        # What is listed may be removed before it is read.
        with suppress(FileNotFoundError):
            if condition():
                return
        waiting.wait(0.01)
    raise AssertionError("it did not become true")


class Cutter:
    """A way to a peer that is cut after some bytes, again and again."""

    def __init__(
        self, peer: PeerAddress, after: Callable[[], int | None], *, seen: Callable[[bytes], object] = len
    ) -> None:
        """`after` says for each connection after how many bytes to the peer it is cut; None for never.

        `seen` is called with all bytes that pass.
        """
        self._to = int(peer.at.rpartition(":")[2])
        self._after = after
        self._seen = seen
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = PeerAddress(
            machine=peer.machine, at=f"127.0.0.1:{self._socket.getsockname()[1]}", secret=peer.secret
        )
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                owner, _ = self._socket.accept()
                threading.Thread(target=self._relay, args=(owner, self._after()), daemon=True).start()

    def _relay(self, owner: socket.socket, left: int | None) -> None:
        with owner, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as peer:
            back = threading.Thread(target=self._pass, args=(peer, owner, None), daemon=True)
            back.start()
            self._pass(owner, peer, left)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket, left: int | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._seen(data)
                if left is not None and len(data) > left:
                    target.sendall(data[:left])
                    self.cuts += 1
                    break
                target.sendall(data)
                left = None if left is None else left - len(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


OTHER = StoredClaim(machine="new", root="the root of new")


class MemoryStore:
    """A store of its own for the host `h`, and where it is as a destination of copies."""

    machine = STORE

    def __init__(self, step: Steps = no_steps, identity: str = "the root of a") -> None:
        self.url = f"memory://{uuid.uuid4().hex}"
        self._step = step
        self._identity = identity

    def connect(self, host: str, root: Path, _tls: CopyTls | None, on_answer: Callable[[], None]) -> StoreConnection:
        objects = StoreObjects(self.url, host, step=self._step, on_answer=on_answer)
        return StoreConnection(objects, root=root, identity=self._identity)

    def objects(self) -> StoreObjects:
        return StoreObjects(self.url, "h")

    def names(self) -> list[str]:
        """The names of all objects."""
        found = self.objects()
        return [f"{of}/{name}" for of in ("claims", "packs", "rounds", "states") for name in found.sizes(of)]

    def path(self, name: str) -> str:
        return f"{self.url}/h/{name}"

    def contents(self) -> dict[str, bytes]:
        """All objects, by their names."""
        return {name: fsspec.filesystem("memory").cat_file(self.path(name)) for name in self.names()}

    def put(self, name: str, content: bytes) -> None:
        fsspec.filesystem("memory").pipe_file(self.path(name), content)

    def remove(self, name: str) -> None:
        fsspec.filesystem("memory").rm_file(self.path(name))

    def restored(self, place: Path, term: int = 9) -> Path:
        """Its host in an empty folder; for each time, a higher term."""
        shutil.rmtree(place, ignore_errors=True)
        restore(self.objects(), term, place, OTHER)
        return place
