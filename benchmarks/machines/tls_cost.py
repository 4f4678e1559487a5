"""What TLS costs between two machines: the first copy of a host's files, and a settle, in turns with and without.

python -m benchmarks.machines.tls_cost
"""

import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

from benchmarks.instruments import scratch_folder
from bridge.files import make_folder, write_whole
from engine.replicas.channel import CopyTls, TlsFiles
from engine.replicas.copies import Replicator
from engine.replicas.copy_server import CopyServer
from engine.replicas.peer_sender import PeerAddress
from tests.authority import Authority


def tls_cost(folder: Path, *, megabytes: int, times: int, settles: int) -> dict[str, dict[str, float]]:
    """Medians without TLS and with it."""
    certificate, key = Authority(folder / "authority").certify("machine", "IP:127.0.0.1")
    files = TlsFiles(certificate=certificate, key=key, authority=folder / "authority" / "authority.pem")
    ways: dict[str, TlsFiles | None] = {"plain": None, "tls": files}
    firsts: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    waits: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(times):
        order = list(ways)[:: -1 if turn % 2 else 1]
        with ExitStack() as stack:
            owners = {way: stack.enter_context(_Owner(folder / f"{turn}-{way}", ways[way], megabytes)) for way in order}
            for way in order:
                firsts[way].append(owners[way].bring_all())
            for _ in range(settles):
                for way in order:
                    waits[way].append(owners[way].bring_one())
    return {
        way: {
            "first_s": round(statistics.median(seconds for seconds, _ in firsts[way]), 2),
            "first_cpu_s": round(statistics.median(cpu for _, cpu in firsts[way]), 2),
            "settle_ms_p50": round(1000 * statistics.median(waits[way]), 2),
            "settle_ms_p95": round(1000 * statistics.quantiles(waits[way], n=20)[18], 2),
        }
        for way in ways
    }


class _Owner:
    """A host's root, and its peer."""

    def __init__(self, folder: Path, files: TlsFiles | None, megabytes: int) -> None:
        self._spool = folder / "root" / "spools" / "s" / "log"
        self._copy = folder / "copy"
        self._files = files
        self._next = 0
        make_folder(self._spool)
        for _ in range(megabytes):
            self._write(1_000_000)
        tls = CopyTls(files) if files is not None else None
        self._replicator = Replicator("h", folder / "root", "a", on_kept=lambda: None, tls=tls)

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._address, self._line = self._stack.enter_context(_peer(self._copy, self._files))
        self._stack.callback(self._replicator.close)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def bring_all(self) -> tuple[float, float]:
        """Bring a new peer everything; the seconds that it takes, and those of CPU at both ends."""
        cpu, begun = _cpu(self._line), time.perf_counter()
        self._replicator.order(1, [self._address], frozenset({"b"}))
        self._replicator.settle()
        return time.perf_counter() - begun, _cpu(self._line) - cpu

    def bring_one(self) -> float:
        """Bring the peer a file of 20 kB; the seconds that it takes."""
        self._write(20_000)
        begun = time.perf_counter()
        self._replicator.settle(self._spool)
        return time.perf_counter() - begun

    def _write(self, size: int) -> None:
        write_whole(self._spool / f"{self._next:020d}-{self._next + 1:020d}", os.urandom(size))
        self._next += 1


def _cpu(line: "Connection[None, float]") -> float:
    """The seconds of CPU that both ends have spent."""
    line.send(None)
    return line.recv() + time.process_time()


@contextmanager
def _peer(place: Path, files: TlsFiles | None) -> "Iterator[tuple[PeerAddress, Connection[None, float]]]":
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(place, files, there))
    process.start()
    yield PeerAddress(machine="b", at=here.recv(), secret="secret"), here  # noqa: S106 - of this measurement
    process.terminate()
    process.join()


def _serve(place: Path, files: TlsFiles | None, line: "Connection[float | str, None]") -> None:
    tls = CopyTls(files) if files is not None else None
    server = CopyServer("b", "secret", listen=("127.0.0.1", 0), place=lambda _host: place, tls=tls)
    line.send(server.at)
    while True:
        line.recv()
        line.send(time.process_time())


if __name__ == "__main__":
    with scratch_folder() as scratch:
        print(json.dumps(tls_cost(scratch, megabytes=100, times=5, settles=200)))
