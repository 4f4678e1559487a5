"""A fleet: a service without a host of its own, and machines that are started, killed and read."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.manager_test_bed import MeasuredService
from bridge import Message, topics
from bridge.transport.mqtt_client import MqttClient
from manager.answers import DataflowState, SourceForm
from manager.client import Client
from manager.process.keeper_process import read_record

T = TypeVar("T")
_BOUND = 120.0
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


class FleetBed:
    """Some machines of one service; made by `fleet`."""

    def __init__(self, folder: Path, *, replicas: int, pace: float = 0.5) -> None:
        self._folder = folder
        self.service = MeasuredService(folder, host="none", pace=pace, settings={"BRAID_REPLICAS": str(replicas)})
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self.orders: dict[str, dict[str, Any]] = {}
        """Who carries each host, by its name."""
        self.statuses: dict[str, dict[str, Any]] = {}
        """What each machine reports, by its name."""
        self.sent_at: dict[int, float] = {}
        self.came_at: dict[int, float] = {}
        """When the output for an event came first, by the event's number."""
        self.doubled = 0
        """Outputs whose number had another event."""
        self._numbered: dict[tuple[str, int], Any] = {}
        self._news = threading.Condition()
        self._line: MqttClient | None = None
        self._sending = threading.Event()
        self._sender: threading.Thread | None = None

    def begin(self, *names: str) -> None:
        """Start the service and machines, and wait until each carries its own host."""
        self.service.begin()
        record = self._await(lambda: read_record(self.service.root), "the broker")
        self._await(lambda: (self.service.root / "key").exists() or None, "the key")
        heard = [topics.host("+", "carrier"), topics.machine("+", "status"), f"{topics.ROOT}/out/#"]
        self._line = MqttClient(self.service.broker, "bench", topics=heard, on_message=self._take, lasting=False)
        self._line.start()
        del record
        for name in names:
            self.add(name)
        for name in names:
            self.wait(lambda name=name: self.carrier(name) == name, f"{name} to carry its host")  # type: ignore[misc]

    def add(self, name: str) -> None:
        """Start a machine."""
        root = self.root_of(name)
        root.mkdir(parents=True, exist_ok=True)
        options = [f"--root={root}", f"--broker={self.service.broker.url}", "--master=local[2,8]"]
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

    def cpu(self) -> float:
        """Seconds of CPU of all machines so far."""
        total = 0.0
        for machine in self.machines.values():
            process = psutil.Process(machine.pid)
            for each in [process, *process.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system
        return total

    def carrier(self, host: str) -> str:
        """The machine that carries a host; empty if nobody has been ordered to."""
        return str(self.orders.get(host, {}).get("machine", ""))

    def has_copies(self, host: str, many: int) -> bool:
        """Whether so many machines are counted to have everything of a host."""
        return len(self.orders.get(host, {}).get("kept_by", ())) >= many

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

    def send(self, per_second: float, keys: int = 100) -> None:
        """Send numbered events until `quiet`."""
        self._sending.clear()

        def run() -> None:
            while not self._sending.wait(1 / per_second):
                number = len(self.sent_at)
                self.sent_at[number] = time.time()
                self.publish({"n": number, "k": f"k{number % keys}"})

        self._sender = threading.Thread(target=run, name="sends", daemon=True)
        self._sender.start()

    def quiet(self) -> None:
        """Send no more, and wait for all outputs."""
        self._sending.set()
        if self._sender is not None:
            self._sender.join()
        self.wait(lambda: len(self.came_at) >= len(self.sent_at), "all outputs")

    def publish(self, events: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
        """Publish an event for the source, or several in one message."""
        if self._line is None:
            raise RuntimeError("begin first")
        self._line.publish("numbers", json.dumps(events).encode())

    def first_output_after(self, at: float) -> float:
        """When the first output came for an event that was sent after some time."""

        def found() -> float | None:
            return min(
                (came for number, came in self.came_at.items() if self.sent_at.get(number, 0) > at), default=None
            )

        return self.wait(found, "an output")

    def latencies(self, begun: float) -> list[float]:
        """The milliseconds from event to output, of all events sent since then."""
        return [
            (came - sent) * 1_000 for n, sent in self.sent_at.items() if sent > begun and (came := self.came_at.get(n))
        ]

    def wait(self, found: Callable[[], T | None], what: str) -> T:
        """Wait until something was heard."""
        with self._news:
            if not self._news.wait_for(found, _BOUND):
                raise TimeoutError(f"not within {_BOUND:g} s: {what}; {self._folder} may tell why")
            value = found()
        if value is None:
            raise TimeoutError(what)
        return value

    def close(self) -> None:
        """End all of it."""
        self._sending.set()
        for name in list(self.machines):
            self.kill(name)
        if self._line is not None:
            self._line.stop()
        self.service.close()

    def _await(self, found: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + _BOUND
        while (value := found()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.05)
        return value

    def _take(self, message: Message) -> None:
        now = time.time()
        with self._news:
            parts = message.topic.split("/")
            content = json.loads(message.payload) if message.payload else {}
            if parts[2] == "hosts":
                self.orders[parts[3]] = content
            elif parts[2] == "machines":
                self.statuses[parts[3]] = content
            else:
                for number, event in enumerate(content["events"], content["first"]):
                    before = self._numbered.setdefault((message.topic, number), event)
                    self.doubled += before != event
                    if event.get("n", -1) >= 0:
                        self.came_at.setdefault(event["n"], now)
            self._news.notify_all()
        if self._line is not None:
            self._line.acknowledge([message.token])


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
