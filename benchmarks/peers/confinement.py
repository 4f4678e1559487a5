"""A session in a network of its own, for a system that listens on all addresses, which no setting changes.

    python -m benchmarks.peers.confinement SESSION

PyFlink's Python workers and Beam's servers do. The network, a namespace of Linux, has the loopback address alone, which
broker, generator and subscriber share with the system. SESSION is the JSON of `confined_rows`; prints a row a line.
"""

import fcntl
import json
import os
import shutil
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers.fed_by_lines import installed_flink
from benchmarks.peers.measurement import Row, Times
from benchmarks.peers.processes import asked_process
from benchmarks.peers.session import PEER_TROUBLE, PEERS_CACHE, named_row, session_rows
from workloads.service import RunFailed, stops_on_signals

_ROW = 1_800.0
"""Seconds within which the next row comes: a system that does not start gives up earlier."""
_SET_FLAGS, _UP = 0x8914, 1
"""The request to the kernel that sets the flags of a network interface (SIOCSIFFLAGS), and the flag IFF_UP."""
_END = "end"


def confined_rows(system: str, size: int, rates: Sequence[float], times: Times, folder: Path) -> Iterator[Row]:
    """The rows of a session, as `session_rows` has them, from a process without any other network."""
    session = {"system": system, "size": size, "rates": list(rates), "times": asdict(times), "folder": str(folder)}
    folder.mkdir(parents=True)
    left = list(rates)
    try:
        # There is no way to the registry from there.
        installed_flink(PEERS_CACHE)
        command = [*_without_network(), sys.executable, "-m", "benchmarks.peers.confinement", json.dumps(session)]
        with asked_process(command, "the confined session", folder / "confined.log") as process:
            while (line := process.line(_ROW)) != _END:
                if line.startswith("{"):
                    row: Row = json.loads(line)
                    yield row
                    left = [rate for rate in left if rate != row["events_per_s"]]
    except PEER_TROUBLE as error:
        yield from ({**named_row(system, size, rate), "why_not": f"{type(error).__name__}: {error}"} for rate in left)


def _without_network() -> list[str]:
    """The command that runs another in a network of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise RunFailed("it listens on all addresses, and there is no unshare (of util-linux) to confine it")
    return [unshare, "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def main(text: str) -> None:
    """Run a session."""
    session = json.loads(text)
    _bring_up_loopback()
    with stops_on_signals():
        for row in session_rows(
            session["system"],
            session["size"],
            session["rates"],
            Times(**session["times"]),
            Path(session["folder"]),
        ):
            print(json.dumps(row), flush=True)
    print(_END, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
