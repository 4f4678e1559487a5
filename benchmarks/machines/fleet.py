"""A fleet: a service without a host of its own, and machines that are started, killed and read."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import psutil

from benchmarks.documents import topic_source
from benchmarks.instruments import BOUND, awaited
from benchmarks.machines.fleet_line import FleetLine, source
from benchmarks.manager_test_bed import MeasuredService
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from braid_client import Client
from manager.process.keeper_process import read_record
from tests.faulty_way import FaultyWay
from workloads.service import free_port

BRAID = Path(sys.executable).parent / "braid"
_BYTES_OF_KEY = 60
"""About the bytes that the state keeps for a key, and its record."""
_REST = 3.0
_IDLE_CORES = 0.25
_AT_ONCE = 1_000
"""Events in a message."""


class FleetBed(FleetLine):
    """Some machines of one service, until its context ends."""

    def __init__(
        self, folder: Path, *, replicas: int, pace: float = 0.5, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self._folder = folder
        settings = {"BRAID_REPLICAS": str(replicas), "BRAID_ADMISSION": "open", **settings}
        self.service = MeasuredService(folder, host="none", placement="launch", pace=pace, settings=settings)
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self.ways: dict[str, FaultyWay] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End all of it."""
        self.hang_up()
        for name in list(self.machines):
            self.kill(name)
        for way in self.ways.values():
            way.close()
        self.service.close()

    def begin(self, *names: str) -> None:
        """Start the service and machines, and wait until each carries its own host."""
        self.service.begin()
        awaited(lambda: read_record(self.service.root), "the broker")
        awaited((self.service.root / "key").exists, "the key")
        self.listen(self.service.broker)
        for name in names:
            self.add(name)
        for name in names:
            self.wait(lambda name=name: self.carrier(name) == name, f"{name} to carry its host")  # type: ignore[misc]

    def add(self, name: str, *, hosts: int = 1, counted: bool = False) -> None:
        """Start a machine; with `counted`, `ways` counts the bytes of copies that it is sent."""
        root = self.root_of(name)
        root.mkdir(parents=True, exist_ok=True)
        options = [f"--root={root}", f"--broker={self.service.broker.url}", "--master=local[2,8]", f"--hosts={hosts}"]
        port = free_port()
        if counted:
            way = self.ways[name] = FaultyWay(port)
            options += [f"--copies-at=127.0.0.1:{way.port}", f"--copies-listen=127.0.0.1:{port}"]
        else:
            options.append(f"--copies-at=127.0.0.1:{port}")
        with (self._folder / f"{name}.log").open("ab") as output:
            self.machines[name] = subprocess.Popen(  # noqa: S603 - our own command
                [str(BRAID), "host", name, *options], stdout=output, stderr=output
            )

    def root_of(self, name: str) -> Path:
        """The disk of a machine."""
        return self._folder / "disks" / name

    def kill(self, name: str, *, with_disk: bool = False) -> float:
        """Kill a machine with all its processes; when."""
        tree = _tree(self.machines.pop(name))
        at = time.time()
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(tree, timeout=10)
        if with_disk:
            shutil.rmtree(self.root_of(name))
        return at

    def cpu(self, *names: str) -> float:
        """Seconds of CPU of some machines so far, by default of all."""
        total = 0.0
        for machine in (self.machines[name] for name in names or self.machines):
            for process in _tree(machine):
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def rest(self, *names: str) -> None:
        """Wait until machines have started and warmed up, and do almost nothing for a while."""
        deadline, before = time.monotonic() + BOUND, self.cpu(*names)
        while True:
            time.sleep(_REST)
            after = self.cpu(*names)
            if after - before < _IDLE_CORES * _REST:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {BOUND:g} s: {', '.join(names)} at rest")
            before = after

    def submit(self, jobs: int = 1) -> str:
        """Submit dataflows that count, one for each job, and wait until they run; returns their host."""
        self.jobs = jobs
        with Client(self.service.url, self.service.admit("ann")) as tenant:
            for job in range(jobs):
                tenant.register_source(topic_source(source(job), {"n": "integer", "k": "string"}))
                # Before it runs, nobody takes what is sent.
                wait_until_runs(tenant, tenant.submit(_counting(job)).id)
        with self.service.operator() as operator:
            (host,) = {job.host for job in operator.jobs()}
        return host

    def fill(self, megabytes: float) -> int:
        """Give the first job so much state, in as many keys as this returns."""
        keys = int(megabytes * 1_000_000 / _BYTES_OF_KEY)
        for first in range(0, keys, _AT_ONCE):
            self.publish([{"n": -1, "k": f"key {number}"} for number in range(first, first + _AT_ONCE)])
        return keys


def _counting(job: int) -> dict[str, Any]:
    """A dataflow that counts the events of each key, and lets all through."""
    return {
        "version": 1,
        "name": f"counts {job}",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source(job)}},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "counts", "type": "output"},
            {"id": "events", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "count"}, {"from": "count", "to": "counts"}, {"from": "in", "to": "events"}],
    }


def _tree(machine: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    process = psutil.Process(machine.pid)
    return [process, *process.children(recursive=True)]


@contextmanager
def fleet(folder: Path, *names: str, replicas: int) -> Iterator[FleetBed]:
    """A fleet whose machines run."""
    with FleetBed(folder, replicas=replicas) as machines:
        machines.begin(*names)
        yield machines
