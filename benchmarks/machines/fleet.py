"""A fleet: a service without a host of its own, and machines that are started, killed and read."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import psutil

from benchmarks.machines.fleet_line import BOUND, FleetLine
from benchmarks.manager_test_bed import MeasuredService
from manager.answers import DataflowState, SourceForm
from manager.client import Client
from manager.process.keeper_process import read_record

T = TypeVar("T")
BRAID = Path(sys.executable).parent / "braid"
COUNTS: dict[str, Any] = {
    "version": 1,
    "name": "counts",
    "tasks": [
        {"id": "in", "type": "source", "config": {"source": "numbers"}},
        {"id": "count", "type": "count", "config": {"by": ["k"]}},
        {"id": "counts", "type": "output"},
        {"id": "events", "type": "output"},
    ],
    "streams": [{"from": "in", "to": "count"}, {"from": "count", "to": "counts"}, {"from": "in", "to": "events"}],
}
"""A dataflow that counts the events of each key, and lets all through."""


class FleetBed(FleetLine):
    """Some machines of one service; made by `fleet`."""

    def __init__(
        self, folder: Path, *, replicas: int, pace: float = 0.5, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self._folder = folder
        self.service = MeasuredService(
            folder,
            host="none",
            pace=pace,
            settings={"BRAID_REPLICAS": str(replicas), "BRAID_ADMISSION": "open", **settings},
        )
        self.machines: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, *names: str) -> None:
        """Start the service and machines, and wait until each carries its own host."""
        self.service.begin()
        self._await(lambda: read_record(self.service.root), "the broker")
        self._await(lambda: (self.service.root / "key").exists() or None, "the key")
        self.listen(self.service.broker)
        for name in names:
            self.add(name)
        for name in names:
            self.wait(lambda name=name: self.carrier(name) == name, f"{name} to carry its host")  # type: ignore[misc]

    def add(self, name: str, hosts: int = 1) -> None:
        """Start a machine."""
        root = self.root_of(name)
        root.mkdir(parents=True, exist_ok=True)
        options = [f"--root={root}", f"--broker={self.service.broker.url}", "--master=local[2,8]"]
        options.append(f"--hosts={hosts}")
        options.append(f"--copies-at=127.0.0.1:{_free_port()}")
        with (self._folder / f"{name}.log").open("ab") as output:
            self.machines[name] = subprocess.Popen(  # noqa: S603 - our own command
                [str(BRAID), "host", name, *options], stdout=output, stderr=output
            )

    def root_of(self, name: str) -> Path:
        """The disk of a machine."""
        return self._folder / "disks" / name

    def kill(self, name: str, *, with_disk: bool = False) -> float:
        """Kill a machine with all its processes; when."""
        process = psutil.Process(self.machines.pop(name).pid)
        tree = [process, *process.children(recursive=True)]
        at = time.time()
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(tree, timeout=10)
        if with_disk:
            shutil.rmtree(self.root_of(name))
        return at

    def cpu(self, *names: str) -> float:
        """Seconds of CPU of some machines so far, by default of all."""
        total = 0.0
        for machine in (self.machines[name] for name in names or self.machines):
            process = psutil.Process(machine.pid)
            for each in [process, *process.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system
        return total

    def submit(self, key: str, document: Mapping[str, Any]) -> None:
        """Submit a dataflow of a source "numbers" on the topic "numbers"."""
        with Client(self.service.url, key) as tenant:
            form = {
                "name": "numbers",
                "connection": {"kind": "topic", "topic": "numbers"},
                "schema": {"n": "integer", "k": "string"},
            }
            tenant.register_source(SourceForm.model_validate(form))
            flow = tenant.submit(document).id
            # Before that, nobody takes what is sent.
            self._await(lambda: tenant.dataflow(flow).state is DataflowState.RUNNING or None, "the dataflow to run")

    def host(self) -> str:
        """The host that runs the only job."""
        with self.service.operator() as operator:
            (job,) = operator.jobs()
            return job.host

    def close(self) -> None:
        """End all of it."""
        self.hang_up()
        for name in list(self.machines):
            self.kill(name)
        self.service.close()

    def _await(self, found: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + BOUND
        while (value := found()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.05)
        return value


@contextmanager
def fleet(folder: Path, *names: str, replicas: int, pace: float = 0.5) -> Iterator[FleetBed]:
    """A fleet for a while."""
    folder.mkdir()
    made = FleetBed(folder, replicas=replicas, pace=pace)
    try:
        made.begin(*names)
        yield made
    finally:
        made.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
